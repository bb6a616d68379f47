# Everything runs in .venv, from the lock file; uv itself comes from the package index into .uv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV := .uv/bin/uv
UV_VERSION := 0.13.9
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
# The machine decides whom to trust, as it does for pip; some sit behind an authority of their own.
export UV_SYSTEM_CERTS := 1
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run up test check format protos docs bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(UV):
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.run: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact --python $(PYTHON) --no-dev --extra local
	@touch $@

.venv/.dev: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact --python $(PYTHON) --extra local
	@touch $@

run: .venv/.run ## Start everything, ask the demo questions, print the answers, stop everything
	@$(BIN)/signalbox demo

up: .venv/.run ## Start everything and keep it running until Ctrl-C
	@$(BIN)/signalbox up

test: .venv/.dev ## Run the tests (PYTEST_ARGS="-k …" to choose)
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check: .venv/.dev ## Lint, types, imports, protos and generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python protos/check.py
	$(BIN)/python -m services.runtime.documentation --check docs

format: .venv/.dev ## Format the code
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

protos: .venv/.dev ## Generate the Python stubs
	$(BIN)/python protos/generate.py

docs: .venv/.dev ## Generate the router tables, graphs and settings in docs/
	$(BIN)/python -m services.runtime.documentation docs
	$(BIN)/python -m tests.contract.settings_page

bench: .venv/.dev ## Measure throughput and CPU against the bare in-process graph; prints ratios
	$(BIN)/python -m tests.bench

clean: ## Remove what the targets made
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache protos/python/signalbox.binpb
	find examples protos services tests -name __pycache__ -prune -exec rm -rf {} +
