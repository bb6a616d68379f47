# Everything runs in .venv, from the lock file; uv itself comes from the package index into .uv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The interpreter itself: given the shim of a version manager, uv takes the environment for another Python's, and makes it
# anew with every target.
INTERPRETER = $(shell $(PYTHON) -c 'import os, sys; print(os.path.realpath(sys.executable))')
UV := .uv/bin/uv
UV_VERSION := 0.13.9
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
# The machine decides whom to trust, as it does for pip; some sit behind an authority of their own.
export UV_SYSTEM_CERTS := 1
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Compiled once, not by each of a platform's processes: images of Python set this for what they start.
export PYTHONDONTWRITEBYTECODE :=

# Images: built with podman or docker, from services/Dockerfile. What is left empty stays as that has it.
ENGINE ?= $(shell command -v podman >/dev/null && echo podman || echo docker)
IMAGE_PREFIX ?= signalbox-
IMAGE_TAG ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PYTHON_IMAGE ?= $(shell sed -n 's/^ARG PYTHON_IMAGE=//p' services/Dockerfile)
IMAGE_SERVICES := $(filter-out kit,$(patsubst services/%/server.py,%,$(wildcard services/*/server.py)))
IMAGE_SOURCE ?= $(shell git remote get-url origin 2>/dev/null | sed 's,//[^/@]*@,//,')
INDEX_URL ?=
DEBIAN_MIRROR ?=
CA_FILE ?=
, := ,
BUILD_FLAGS ?=

OF_SERVICE = $(wildcard tests/unit/$(SERVICE) tests/integration/$(SERVICE))

.DEFAULT_GOAL := help
.PHONY: help run up test test-times faults chaos findings-test adding-an-agent-test browser-test client-programs-test mutants check format protos docs bench eval clean images images-test base-image kubernetes cluster-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(UV):
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.run: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact --python $(INTERPRETER) --no-dev --extra local
	@touch $@

.venv/.dev: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact --python $(INTERPRETER) --extra local
	@touch $@

# What tests install themselves otherwise, without the proxies that a machine may need for that. A shallow clone lacks the
# commit; a few tests say so.
.uv/last-release: protos/released.commit | .venv/.dev
	-@$(BIN)/python -m tests.fixtures.release && touch $@

run: .venv/.run ## Start everything, ask the demo questions, print the answers, stop everything
	@$(BIN)/signalbox demo

up: .venv/.run ## Start everything and keep it running until Ctrl-C
	@$(BIN)/signalbox up

TESTS = $(if $(SERVICE),--service $(SERVICE) $(OF_SERVICE) tests/contract) $(PYTEST_ARGS)

# In their order, in which slow files of few tests come before small ones: else one worker has them all at the end.
# More workers than cores, as most of them wait (tests/fixtures/workers.py); each has to collect all tests.
WORKERS ?= $(if $(SERVICE),2,5)
test: .venv/.dev .uv/last-release ## Run the tests, or those of one service (SERVICE=guard; PYTEST_ARGS="-k …" to choose)
	$(if $(and $(SERVICE),$(if $(OF_SERVICE),,no)),$(error there are no tests of the service $(SERVICE)))
	@$(BIN)/pytest --times=.test-times.json -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-times: .venv/.dev ## Print what of the last `make test` was dearest: tests, files and fixtures, by wall and CPU
	@$(BIN)/python -m tests.fixtures.times .test-times.json

mutants: .venv/.dev ## Break important lines one by one, in a copy, and see that the nearest tests notice (ONLY=gateway)
	$(BIN)/python -m tests.mutants $(ONLY)

# What lasting promises rest on. The seed chooses moments and victims; the tests say which it is.
faults: .venv/.dev .uv/last-release ## Kill, freeze, cut, take away and upgrade parts of it under load, for some minutes (SEED=1)
	SIGNALBOX_CHAOS_SEED=$(or $(SEED),1) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m faults tests/chaos $(PYTEST_ARGS)

chaos: .venv/.dev .uv/last-release ## Do that and more for long (RUNS=1000 KILLS=60 GRAPH_KILLS=500 HOSTED_RUNS=1000 HOSTED_KILLS=60 SEED=1; PYTEST_ARGS to choose)
	SIGNALBOX_CHAOS_RUNS=$(or $(RUNS),1000) SIGNALBOX_CHAOS_KILLS=$(or $(KILLS),60) SIGNALBOX_CHAOS_SEED=$(or $(SEED),1) \
		SIGNALBOX_CHAOS_GRAPH_KILLS=$(or $(GRAPH_KILLS),500) SIGNALBOX_CHAOS_SLOW_S=40 SIGNALBOX_CHAOS_OUTAGE_S=60 SIGNALBOX_CHAOS_THOROUGH=1 \
		SIGNALBOX_CHAOS_HOSTED_RUNS=$(or $(HOSTED_RUNS),1000) SIGNALBOX_CHAOS_HOSTED_KILLS=$(or $(HOSTED_KILLS),60) \
		$(BIN)/pytest tests/chaos tests/e2e/test_hosted_graphs.py --timeout 7200 $(PYTEST_ARGS)

findings-test: .venv/.dev ## Kill the command and every service three times while findings are judged (FINDINGS=10000), for an hour and more
	SIGNALBOX_CHAOS_FINDINGS=$(or $(FINDINGS),10000) $(BIN)/pytest -s tests/chaos/test_findings_killed.py $(PYTEST_ARGS)

adding-an-agent-test: .venv/.dev ## Add the agent of ARCHITECTURE.md's page to a copy of the repository, and run it there
	$(BIN)/pytest -m adding_an_agent tests/contract tests/e2e $(PYTEST_ARGS)

browser-test: .venv/.dev ## Look at the console, the pages that explain a run and Agent Chat UI with Chromium, which has to be there
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "no Chromium here (Debian: apt-get install chromium)" >&2; exit 1; }
	$(BIN)/pytest -m browser tests/integration/console tests/integration/findings tests/e2e $(PYTEST_ARGS)

client-programs-test: .venv/.dev ## Run the programs of docs/clients.md and docs/http.md, and Agent Chat UI (needs Go, node and their package indexes)
	@for each in go npm; do command -v $$each >/dev/null || { echo "no $$each here" >&2; exit 1; }; done
	$(BIN)/pytest -m client_programs -rs tests/e2e $(PYTEST_ARGS)

check: .venv/.dev ## Lint, types, imports, protos, decision tables, image and generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python protos/check.py
	$(BIN)/python -m services.runtime.commands.prove
	$(BIN)/python -m services.runtime.commands.documentation --check docs
	$(BIN)/python -m charts.dashboards --check
	$(BIN)/python -m charts.values_schema --check
	$(BIN)/python -m charts.values_page --check
	$(BIN)/hadolint services/Dockerfile

format: .venv/.dev ## Format the code
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

protos: .venv/.dev ## Generate the Python stubs
	$(BIN)/python protos/generate.py

docs: .venv/.dev ## Generate what is made from code: docs/, dashboards, the chart's examples
	$(BIN)/python -m services.runtime.commands.documentation docs
	$(BIN)/python -m tests.contract.settings_page
	$(BIN)/python -m tests.contract.reference_pages
	$(BIN)/python -m tests.contract.decisions_index
	$(BIN)/python -m charts.dashboards
	$(BIN)/python -m charts.values_schema
	$(BIN)/python -m charts.values_page
	$(BIN)/python -m tests.contract.deploy.helm

bench: .venv/.dev ## Measure throughput and CPU against the bare in-process graph; prints ratios
	$(BIN)/python -m tests.bench

base-image:
	@command -v $(ENGINE) >/dev/null || { echo "no $(ENGINE) here: install it, or name another with ENGINE=" >&2; exit 1; }
	@$(ENGINE) image inspect $(PYTHON_IMAGE) >/dev/null 2>&1 || $(ENGINE) pull $(PYTHON_IMAGE)

# An endpoint and its model are OPENAI_BASE_URL, OPENAI_API_KEY and MODEL; without them the offline model answers.
eval: .venv/.dev ## Ask the agents what people ask, and score the answers (MODEL=…; EVAL_ARGS="--agents data_chat --compare A B")
	@$(if $(MODEL),SIGNALBOX_AGENT_MODEL=$(MODEL)) $(BIN)/python -m tests.evaluation $(EVAL_ARGS)

images: $(IMAGE_SERVICES:%=image-%) ## Build every image (ENGINE=podman|docker IMAGE_PREFIX= IMAGE_TAG= INDEX_URL= CA_FILE=)

image-%: base-image
	$(ENGINE) build --file services/Dockerfile --build-arg SERVICE=$* --build-arg PYTHON_IMAGE=$(PYTHON_IMAGE) \
		--build-arg BASE_DIGEST="$$($(ENGINE) image inspect --format '{{index .RepoDigests 0}}' $(PYTHON_IMAGE) | cut -d@ -f2)" \
		--build-arg VERSION=$(IMAGE_TAG) --build-arg REVISION=$(shell git rev-parse HEAD) --build-arg SOURCE=$(IMAGE_SOURCE) \
		$(if $(INDEX_URL),--build-arg INDEX_URL=$(INDEX_URL)) $(if $(DEBIAN_MIRROR),--build-arg DEBIAN_MIRROR=$(DEBIAN_MIRROR)) \
		$(if $(CA_FILE),--secret id=ca$(,)src=$(CA_FILE)) \
		$(BUILD_FLAGS) --tag $(IMAGE_PREFIX)$(subst _,-,$*):$(IMAGE_TAG) .

images-test: .venv/.dev images ## Build every image, look into it, and have it serve (ENGINE=podman|docker)
	ENGINE=$(ENGINE) IMAGE_PREFIX=$(IMAGE_PREFIX) IMAGE_TAG=$(IMAGE_TAG) BUILD_FLAGS="$(BUILD_FLAGS)" $(BIN)/pytest tests/images $(PYTEST_ARGS)

# The programs of a Kubernetes control plane, for machines that have no cluster: built once, and kept beside other caches.
KUBERNETES ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/signalbox/kubernetes
KUBERNETES_VERSION := $(shell sed -n 's,^.k8s.io/kubernetes v\([0-9.]*\).*,\1,p' tests/cluster/go.mod)
PACKAGE_OF_etcd := go.etcd.io/etcd/server/v3
PACKAGE_OF_kwok := sigs.k8s.io/kwok/cmd/kwok
PACKAGE_OF_pause := ./pause
PACKAGE_OF_coredns := .
MODULE_OF_coredns := tests/cluster/dns
OF_VERSION := gitVersion=v$(KUBERNETES_VERSION) gitMajor=1 gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION)))

# With NODE_ENGINE=podman|docker the control plane is given nodes of this machine, whose pods have that engine's images.
NODE_ENGINE ?=
PROGRAMS := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl $(if $(NODE_ENGINE),kubelet coredns pause,kwok)

kubernetes: $(addprefix $(KUBERNETES)/,$(PROGRAMS)) ## Build a control plane for KUBEBUILDER_ASSETS (needs Go and its module proxy)
	@echo "make cluster-test KUBEBUILDER_ASSETS=$(KUBERNETES)"

$(KUBERNETES)/%: tests/cluster/go.mod
	cd $(or $(MODULE_OF_$*),tests/cluster) && CGO_ENABLED=0 go build -trimpath -o $@ \
		-ldflags "-s -w $(OF_VERSION:%=-X k8s.io/component-base/version.%)" $(or $(PACKAGE_OF_$*),k8s.io/kubernetes/cmd/$*)

cluster-test: .venv/.dev ## Install on a cluster, break it, upgrade it (KUBEBUILDER_ASSETS=, or KUBECONFIG= IMAGE_PREFIX= CLUSTER_DSN=)
	@test -n "$(CLUSTER_DSN)$(KUBEBUILDER_ASSETS)" || { echo "no cluster: docs/operations.md says what to give" >&2; exit 1; }
	KUBECONFIG="$(KUBECONFIG)" KUBEBUILDER_ASSETS="$(KUBEBUILDER_ASSETS)" CLUSTER_DSN="$(CLUSTER_DSN)" NODE_ENGINE=$(NODE_ENGINE) \
		CLUSTER_CALLER="$(CLUSTER_CALLER)" IMAGE_PREFIX=$(IMAGE_PREFIX) IMAGE_TAG=$(IMAGE_TAG) $(BIN)/pytest tests/cluster -rs $(PYTEST_ARGS)

clean: ## Remove what the targets made
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache protos/python/signalbox.binpb
	find examples protos services tests -name __pycache__ -prune -exec rm -rf {} +
