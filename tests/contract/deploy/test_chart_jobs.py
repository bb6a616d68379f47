"""Jobs that have to succeed before Helm changes anything: migrations, and the check of unfinished runs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from services.runtime.commands.migrate import GIVE_UP_AFTER_S
from services.runtime.settings import PolicySettings
from tests.contract.deploy.helm import EXAMPLES, Helm, Manifest, chart_values
from tests.contract.deploy.manifests import containers, named, of_kind, pod_spec, settings_of

MIGRATION = "signalbox-runtime-migrate"
COMPAT_CHECK = "signalbox-runtime-compat-check"
HOOKS = {MIGRATION: "pre-install,pre-upgrade", COMPAT_CHECK: "pre-upgrade"}


def job_names(manifests: list[Manifest]) -> set[str]:
    return {job["metadata"]["name"] for job in of_kind(manifests, "Job")}


def weight(manifest: Manifest) -> int:
    return int(manifest["metadata"]["annotations"]["helm.sh/hook-weight"])


def test_jobs_run_before_the_release_with_accounts_of_their_own(manifests: list[Manifest]) -> None:
    assert job_names(manifests) == HOOKS.keys()
    (runtime,) = containers(named(manifests, "Deployment", "signalbox-runtime"))
    for job in of_kind(manifests, "Job"):
        account = named(manifests, "ServiceAccount", pod_spec(job)["serviceAccountName"])
        for manifest in (job, account):
            assert manifest["metadata"]["annotations"]["helm.sh/hook"] == HOOKS[job["metadata"]["name"]]
        assert weight(account) < weight(job)
        (container,) = containers(job)
        assert container["image"] == runtime["image"]
        assert pod_spec(job)["restartPolicy"] == "Never"


def test_runs_are_checked_against_the_tables_that_the_new_release_will_find(manifests: list[Manifest]) -> None:
    assert weight(named(manifests, "Job", MIGRATION)) < weight(named(manifests, "Job", COMPAT_CHECK))


def test_the_check_is_not_repeated_when_it_finds_something(manifests: list[Manifest]) -> None:
    assert named(manifests, "Job", COMPAT_CHECK)["spec"]["backoffLimit"] == 0
    assert named(manifests, "Job", MIGRATION)["spec"]["backoffLimit"] > 0


HELM_WAITS_S = 300


def test_a_job_ends_before_helm_gives_up_on_it(manifests: list[Manifest]) -> None:
    """And its command before that: a Job that is ended takes its pods, and so what they had to say, with it."""
    for job in of_kind(manifests, "Job"):
        assert GIVE_UP_AFTER_S < job["spec"]["activeDeadlineSeconds"] < HELM_WAITS_S


def test_a_job_is_given_more_time_where_helm_is(helm: Helm) -> None:
    settings = ["services.runtime.migration.deadlineS=3600"]
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings)
    assert named(manifests, "Job", MIGRATION)["spec"]["activeDeadlineSeconds"] == 3600


def test_jobs_run_modules_that_the_service_has(manifests: list[Manifest]) -> None:
    for job in of_kind(manifests, "Job"):
        (container,) = containers(job)
        python, flag, module = container["command"]
        assert (python, flag) == ("python", "-m")
        assert module.startswith("services.runtime.")
        assert find_spec(module)


@pytest.mark.parametrize(
    ("value", "left"), [("migration", {COMPAT_CHECK}), ("compatCheck", {MIGRATION})], ids=["migration", "compatCheck"]
)
def test_a_job_can_be_left_out(helm: Helm, value: str, left: set[str]) -> None:
    settings = [f"services.runtime.{value}.enabled=false"]
    assert job_names(helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings)) == left


def test_a_service_that_is_left_out_has_no_jobs(helm: Helm) -> None:
    settings = ["services.runtime.enabled=false", "services.gateway.enabled=false"]
    assert not job_names(helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings))


def test_jobs_get_only_the_settings_they_ask_for(manifests: list[Manifest]) -> None:
    runtime = chart_values()["services"]["runtime"]
    for name, value in ((MIGRATION, "migration"), (COMPAT_CHECK, "compatCheck")):
        assert sorted(settings_of(named(manifests, "Job", name))) == sorted(runtime[value]["settings"])


def test_the_migration_goes_past_a_pooler_where_the_runtime_does(helm: Helm) -> None:
    secret = "services.runtime.secretEnv.SIGNALBOX_DIRECT_DSN"
    settings = [f"{secret}.secret=database", f"{secret}.key=direct-dsn"]
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings)
    runtime = settings_of(named(manifests, "Deployment", "signalbox-runtime"))["SIGNALBOX_DIRECT_DSN"]
    assert runtime["valueFrom"]["secretKeyRef"]["key"] == "direct-dsn"
    assert settings_of(named(manifests, "Job", MIGRATION))["SIGNALBOX_DIRECT_DSN"] == runtime
    assert "SIGNALBOX_DIRECT_DSN" not in settings_of(named(manifests, "Job", COMPAT_CHECK))


def test_a_job_that_asks_for_no_setting_gets_none(helm: Helm) -> None:
    settings = ["services.runtime.migration.settings=null"]
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings)
    (container,) = containers(named(manifests, "Job", MIGRATION))
    assert not container["env"]


def test_jobs_are_given_what_they_require(manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = settings_of(named(manifests, "Deployment", "signalbox-runtime"))
    for job in of_kind(manifests, "Job"):
        for name, entry in settings_of(job).items():
            assert entry == runtime[name]
            with monkeypatch.context() as patch:
                patch.setenv("SIGNALBOX_DATABASE_DSN", "postgresql://owner@db.invalid/signalbox")
                patch.setenv(name, entry.get("value", "postgresql://owner@db.invalid/signalbox"))
                PolicySettings()
