"""The chart and the services agree: who there is, which settings each has, and which it must be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from services.local.policy_file import owner_columns
from services.offline_model.skills import make_skills
from services.offline_model.vocabulary import Vocabulary
from services.runtime.agents.registry import limits_in_force
from services.runtime.settings import PolicySettings
from services.sql_executor.policy import load_policy
from tests.contract.deploy import services
from tests.contract.deploy.helm import EXAMPLES, Helm, HelmError, Manifest
from tests.contract.deploy.manifests import named, of_kind, settings_of, value_of

SERVICES = sorted(services.in_chart())
# What a Secret holds is the operator's; a DSN is the strictest text that any of them must be.
A_SECRET = "postgresql://reader@db.invalid/fleet"
# Those that must be of a form.
OF_A_CONSOLE = (
    "PUBLIC_URL=https://console.example.com", "OIDC_ISSUER=https://login.example.com", "OIDC_CLIENT_ID=console",
)  # fmt: skip
SECRETS = {"SIGNALBOX_GRAPH_URL": "rediss://signalbox:secret@graph:6379"}


def test_the_chart_has_every_service_and_no_other() -> None:
    assert services.in_chart() == services.in_source()


@pytest.fixture(scope="module")
def all_examples(rendered: dict[str, list[Manifest]], helm: Helm) -> dict[str, list[Manifest]]:
    """Every example, with the services that are off by default switched on."""
    switches = [f"services.{name}.enabled=true" for name in SERVICES]
    switches.append("services.graph_executor.configMap=graph-policy")
    switches.append("services.mcp_executor.configMap=mcp-servers")
    switches += [f"services.console.env.SIGNALBOX_{name}" for name in OF_A_CONSOLE]
    return {name: helm.manifests([EXAMPLES / name / "values.yaml"], settings=switches) for name in rendered}


def environment_of(service: str, manifests: list[Manifest]) -> dict[str, dict[str, Any]]:
    return settings_of(named(manifests, "Deployment", f"signalbox-{service.replace('_', '-')}"))


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_knows_every_setting_that_it_is_given(service: str, all_examples: dict[str, list[Manifest]]) -> None:
    known = services.variables(service).keys()
    for example, manifests in all_examples.items():
        unknown = environment_of(service, manifests).keys() - known
        assert not unknown, f"{example}: {service} has no setting {sorted(unknown)}"


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_given_every_setting_that_it_requires(
    service: str, all_examples: dict[str, list[Manifest]]
) -> None:
    required = {name for name, field in services.variables(service).items() if field.is_required()}
    for example, manifests in all_examples.items():
        missing = required - environment_of(service, manifests).keys()
        assert not missing, f"{example}: {service} requires {sorted(missing)}"


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_starts_with_the_values_that_it_is_given(
    service: str, all_examples: dict[str, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for example, manifests in all_examples.items():
        environment = environment_of(service, manifests)
        with monkeypatch.context() as patch:
            for name, entry in environment.items():
                patch.setenv(name, value_of(entry, manifests, SECRETS.get(name, A_SECRET)))
            try:
                services.settings_class(service)()
            except ValidationError as error:
                pytest.fail(f"{example}: {service} refuses what the chart gives it: {error}")


def test_the_guard_of_the_production_example_knows_what_its_policy_restricts(
    rendered: dict[str, list[Manifest]], tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(named(rendered["production"], "ConfigMap", "signalbox-sql-executor")["data"]["policy.yaml"])
    guarded = environment_of("guard", rendered["production"])["SIGNALBOX_RESTRICTED_TABLES"]["value"]
    assert guarded.split(",") == list(load_policy(file).restricted)


def test_a_policy_that_restricts_nothing_closes_no_table_to_questions(helm: Helm, tmp_path: Path) -> None:
    manifests = _with_policy(helm, tmp_path, "version: 1\n")
    assert environment_of("guard", manifests)["SIGNALBOX_RESTRICTED_TABLES"]["value"] == ""


def test_the_guard_is_told_which_columns_hold_owners_in_every_form_of_the_policy(helm: Helm, tmp_path: Path) -> None:
    way = [{"table": "ships", "column": "ship_id"}, {"table": "crews", "column": "crew_id", "references": "id"}]
    tables = {
        "readings": {"owned_by": {"path": way, "subject_column": "skipper_id"}},
        "devices": {"owned_by": {"join": "assignments", "on": "device_id", "subject_column": "keeper"}},
        "alarms": {"owned_by": {"join": "assignments", "on": "device_id", "subject_column": "keeper"}},
        "people": {"owned_by": {"column": "person_id"}},
        "ports": {"shared": True},
    }
    policy = {"version": 1, "database": "fleet", "owner": {"subject_type": "integer"}, "tables": tables}
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    manifests = _with_policy(helm, tmp_path, file.read_text())
    given = environment_of("guard", manifests)["SIGNALBOX_OWNER_COLUMNS"]["value"]
    assert sorted(given.split(",")) == ["keeper", "person_id", "skipper_id"]
    rules = load_policy(file).tables.values()
    ways = {rule.way.subject_column for rule in rules if rule.way}
    assert set(given.split(",")) == ways | {"person_id"} == set(owner_columns(file))


def test_a_policy_without_owners_names_no_columns_and_what_is_told_outright_goes_before_it(
    helm: Helm, tmp_path: Path
) -> None:
    manifests = _with_policy(helm, tmp_path, "tables: {ports: {shared: true}}\n")
    assert environment_of("guard", manifests)["SIGNALBOX_OWNER_COLUMNS"]["value"] == ""
    told = "services.guard.env.SIGNALBOX_OWNER_COLUMNS=payee"
    manifests = _with_policy(helm, tmp_path, "tables: {ports: {owned_by: {column: port_id}}}\n", told)
    assert environment_of("guard", manifests)["SIGNALBOX_OWNER_COLUMNS"]["value"] == "payee"


def test_what_the_guard_is_told_outright_goes_before_the_policy(helm: Helm, tmp_path: Path) -> None:
    told = "services.guard.env.SIGNALBOX_RESTRICTED_TABLES=payroll"
    manifests = _with_policy(helm, tmp_path, "restricted: [admin]\n", told)
    assert environment_of("guard", manifests)["SIGNALBOX_RESTRICTED_TABLES"]["value"] == "payroll"


def test_what_a_policy_restricts_must_be_known(helm: Helm, tmp_path: Path) -> None:
    values = yaml.safe_load((EXAMPLES / "minimal" / "values.yaml").read_text())
    for setting in ("SIGNALBOX_RESTRICTED_TABLES", "SIGNALBOX_OWNER_COLUMNS"):
        unseen = tmp_path / "values.yaml"
        told = values["services"]["guard"]["env"].pop(setting)
        unseen.write_text(yaml.safe_dump(values))
        expected = rf"does not see the ConfigMap fleet-sql-policy.*services\.guard\.env\.{setting}"
        with pytest.raises(HelmError, match=expected):
            helm.manifests([unseen])
        values["services"]["guard"]["env"][setting] = told
    with pytest.raises(HelmError, match=r"SIGNALBOX_SQL_POLICY\.content is not a YAML mapping"):
        _with_policy(helm, tmp_path, "restricted: [admin\n")


def _with_policy(helm: Helm, folder: Path, policy: str, *settings: str) -> list[Manifest]:
    files = {"SIGNALBOX_SQL_POLICY": {"content": policy}}
    values = folder / "policy-values.yaml"
    values.write_text(yaml.safe_dump({"services": {"sql_executor": {"files": files}}}))
    return helm.manifests([EXAMPLES / "production" / "values.yaml", values], settings=settings)


def test_limits_reach_the_runtime_and_the_check_before_a_roll_out(
    rendered: dict[str, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = environment_of("runtime", rendered["production"])["SIGNALBOX_POLICIES"]["value"]
    job = settings_of(named(rendered["production"], "Job", "signalbox-runtime-compat-check"))
    assert job["SIGNALBOX_POLICIES"]["value"] == given
    monkeypatch.setenv("SIGNALBOX_POLICIES", given)
    monkeypatch.setenv("SIGNALBOX_DATABASE_DSN", A_SECRET)
    limits = limits_in_force(PolicySettings())
    assert limits["sast_triage"].pin.limits["max_iterations"] == 20
    assert limits["sast_triage"].budget["tokens"] == 2_000_000


@pytest.mark.parametrize(
    "setting", ["policies.data_chat.max_iterations=many", "policies.data_chat=3", "policies.data_chat.budget.money=3"]
)
def test_what_is_no_limit_stops_the_installation(helm: Helm, setting: str) -> None:
    with pytest.raises(HelmError, match="policies"):
        helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=[setting])


def test_the_offline_example_names_models_that_the_offline_model_has(rendered: dict[str, list[Manifest]]) -> None:
    named_models = {
        entry["value"]
        for deployment in of_kind(rendered["offline"], "Deployment")
        for name, entry in settings_of(deployment).items()
        if name.endswith("_MODEL")
    }
    # The agents that edit graphs and follow incidents are there with a graph executor, which that example has not.
    with_graphs = {f"signalbox-offline-{role}" for role in ("parse", "plan", "answer", "incident")}
    assert named_models == set(make_skills(Vocabulary())) - with_graphs
