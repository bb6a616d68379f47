"""What each service of a local platform is told about the others; development keys and tokens."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from services.cli.settings import CliSettings
from services.kit.identity.caller import Caller, TokenInvalid
from services.kit.identity.caller_tokens import IssuerTokenVerifier
from services.kit.identity.jwks import JwksDocument
from services.kit.text.policy_file import PolicyFileError
from services.local.database import WORLD_POLICY, libpq_environment, with_database, with_user
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, DevelopmentKeys, mint_issuer_token
from services.local.policy_file import owner_columns, restricted_tables
from services.local.settings import inherited_environment
from services.local.topology import ModelEndpoint, StackOptions, Topology, UserDatabase, replica_name, target
from services.sql_executor.policy import load_policy

MODEL = ModelEndpoint("http://127.0.0.1:1/v1", "key", "small", "big", "small")


@pytest.fixture
def keys(tmp_path: Path) -> DevelopmentKeys:
    return DevelopmentKeys.create(tmp_path)


def topology(keys: DevelopmentKeys, **options: object) -> Topology:
    return Topology(StackOptions(**{"base_env": {"PATH": "/bin"}, **options}), keys)  # type: ignore[arg-type]


def test_the_runtime_is_told_where_everything_is(keys: DevelopmentKeys) -> None:
    program = topology(keys).runtime(2, MODEL, dsn="postgresql://x/y", guard="h:1", sql_executor="h:2")
    assert program.name == "runtime-2"
    assert program.arguments == ["-P", "-m", "services.runtime"]
    expected = {
        "SIGNALBOX_DATABASE_DSN": "postgresql://x/y",
        "SIGNALBOX_GUARD_TARGET": "ipv4:h:1",
        "SIGNALBOX_SQL_EXECUTOR_TARGET": "ipv4:h:2",
        "SIGNALBOX_AGENT_MODEL": "big",
        "SIGNALBOX_MODEL_BASE_URL": MODEL.base_url,
        "PATH": "/bin",
    }
    assert expected.items() <= program.env.items()


def test_model_users_are_told_the_endpoint_by_the_platforms_names_only(keys: DevelopmentKeys) -> None:
    given = topology(keys)
    for program in (given.guard(MODEL, [], []), given.runtime(1, MODEL, dsn="d", guard="h:1", sql_executor="h:2")):
        assert program.env["SIGNALBOX_MODEL_BASE_URL"] == MODEL.base_url
        assert program.env["SIGNALBOX_MODEL_API_KEY"] == "key"
        assert not [name for name in program.env if name.startswith("OPENAI_")]


def test_the_guard_is_told_what_the_policy_restricts(keys: DevelopmentKeys, tmp_path: Path) -> None:
    restricted = restricted_tables(WORLD_POLICY)
    assert restricted == load_policy(WORLD_POLICY).restricted != []
    guarded = topology(keys).guard(MODEL, restricted, []).env["SIGNALBOX_RESTRICTED_TABLES"]
    assert guarded == "admin,user_device_assignment"
    (tmp_path / "open.yaml").write_text("version: 1\ntables: {}\n")
    assert restricted_tables(tmp_path / "open.yaml") == []
    assert topology(keys).guard(MODEL, [], []).env["SIGNALBOX_RESTRICTED_TABLES"] == ""
    (tmp_path / "broken.yaml").write_text("restricted: {admin: true}\n")
    with pytest.raises(PolicyFileError, match="restricted"):
        restricted_tables(tmp_path / "broken.yaml")


def test_the_guard_is_told_which_columns_hold_owners(keys: DevelopmentKeys, tmp_path: Path) -> None:
    columns = owner_columns(WORLD_POLICY)
    assert columns == ["user_id"]
    assert topology(keys).guard(MODEL, [], columns).env["SIGNALBOX_OWNER_COLUMNS"] == "user_id"
    way = [{"table": "b", "column": "b_id"}, {"table": "c", "column": "c_id", "references": "id"}]
    further = {"a": {"owned_by": {"path": way, "subject_column": "boss"}},
               "b": {"owned_by": {"join": "c", "on": "c_id", "subject_column": "boss"}},
               "d": {"owned_by": {"column": "keeper"}}, "e": {"shared": True}}  # fmt: skip
    (tmp_path / "far.yaml").write_text(json.dumps({"version": 1, "tables": further}))
    assert owner_columns(tmp_path / "far.yaml") == ["boss", "keeper"]


def test_every_private_key_goes_to_one_service_only(keys: DevelopmentKeys) -> None:
    given = topology(keys)
    database = UserDatabase("postgresql://r@h/d", Path("policy.yaml"), "s" * 32)
    programs = [
        given.offline_model(None), given.guard(MODEL, [], []), given.sql_executor(database), given.gateway(["h:3"]),
        given.runtime(1, MODEL, dsn="d", guard="h:1", sql_executor="h:2"),
    ]  # fmt: skip
    for key, owner in ((keys.gateway.private, "gateway"), (keys.runs.private, "runtime")):
        assert [program.name for program in programs if str(key) in program.env.values()] == [owner]
    assert not [program.name for program in programs if str(keys.signing_key) in program.env.values()]


def test_settings_for_one_service_reach_that_one_and_win(keys: DevelopmentKeys) -> None:
    given = topology(keys, service_env={"runtime": {"SIGNALBOX_LEASE_S": "2", "SIGNALBOX_LOG_LEVEL": "DEBUG"}})
    for number in (1, 2):
        env = given.runtime(number, MODEL, dsn="d", guard="h:1", sql_executor="h:2").env
        assert env["SIGNALBOX_LEASE_S"] == "2"
        assert env["SIGNALBOX_LOG_LEVEL"] == "DEBUG"
    assert "SIGNALBOX_LEASE_S" not in given.gateway(["h:3"]).env


def test_the_gateway_balances_over_all_replicas(keys: DevelopmentKeys) -> None:
    assert topology(keys).gateway(["h:1", "h:2"]).env["SIGNALBOX_RUNTIME_TARGET"] == "ipv4:h:1,h:2"
    assert target(["h:1"]) == "ipv4:h:1"
    assert [replica_name(number) for number in (1, 2)] == ["runtime", "runtime-2"]


def test_keys_are_new_each_time_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = DevelopmentKeys.create(tmp_path / "a"), DevelopmentKeys.create(tmp_path / "b")
    assert first.signing_key.read_text() != second.signing_key.read_text()
    for path in (first.signing_key, first.gateway.private, first.runs.private):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "d" not in json.loads(first.jwks.read_text())["keys"][0]  # the private half


def test_a_development_token_is_good_for_its_platform_and_no_other(keys: DevelopmentKeys, tmp_path: Path) -> None:
    token = mint_issuer_token(
        keys.signing_key, subject="27", roles=["admin"], issuer=DEVELOPMENT_ISSUER, audience=DEVELOPMENT_AUDIENCE
    )
    (tmp_path / "other").mkdir()
    other = DevelopmentKeys.create(tmp_path / "other")

    def verifier(jwks: Path) -> IssuerTokenVerifier:
        document = JwksDocument(jwks.read_text())
        return IssuerTokenVerifier(document, issuer=DEVELOPMENT_ISSUER, audience=DEVELOPMENT_AUDIENCE)

    assert verifier(keys.jwks).verify(token) == Caller("27", frozenset({"admin"}))
    with pytest.raises(TokenInvalid):
        verifier(other.jwks).verify(token)


def test_a_dsn_can_be_pointed_elsewhere_without_spelling_its_secret_out() -> None:
    dsn = "postgresql://postgres:p%40ss@127.0.0.1:5555/postgres?sslmode=disable"
    assert with_database(dsn, "har bour") == "postgresql://postgres:p%40ss@127.0.0.1:5555/har%20bour?sslmode=disable"
    assert with_user(dsn, "reader", "a/b@c") == "postgresql://reader:a%2Fb%40c@127.0.0.1:5555/postgres?sslmode=disable"
    assert libpq_environment(dsn) == {
        "PGHOST": "127.0.0.1", "PGPORT": "5555", "PGUSER": "postgres", "PGPASSWORD": "p@ss", "PGDATABASE": "postgres",
    }  # fmt: skip


def test_secrets_do_not_show_in_what_a_log_could_print(keys: DevelopmentKeys) -> None:
    shown = repr(
        (MODEL, UserDatabase("postgresql://u:hidden@h/d", Path("p"), "hidden"), StackOptions("postgresql://hidden"))
    )
    assert "hidden" not in shown
    assert "key" not in repr(MODEL).replace("api_key", "")
    assert keys.signing_key.exists()


def test_services_inherit_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SIGNALBOX_TOKEN", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "x")
    assert "x" not in inherited_environment().values()


def test_models_may_be_given_to_the_command_as_to_a_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: DevelopmentKeys
) -> None:
    given = {"plan": {"model": "large", "temperature": None}, "triage": "small"}
    file = tmp_path / "models.yaml"
    file.write_text(yaml.safe_dump(given))
    for text in (json.dumps(given), str(file)):
        monkeypatch.setenv("SIGNALBOX_MODELS", text)
        endpoint = replace(MODEL, models=CliSettings().models_by_role)
        assert (endpoint.model_of("plan"), endpoint.model_of("triage")) == ("large", "small")
        told = topology(keys).runtime(1, endpoint, dsn="d", guard="h:1", sql_executor="h:2").env
        assert json.loads(told["SIGNALBOX_MODELS"]) == given


def test_every_setting_of_the_command_is_described() -> None:
    assert [name for name, field in CliSettings.model_fields.items() if not field.description] == []


def test_agents_that_read_code_get_an_executor_and_a_judge(keys: DevelopmentKeys, tmp_path: Path) -> None:
    roots = (tmp_path / "a,b", tmp_path / "c")
    given = topology(keys, code_agents=True, code_roots=roots)
    model = ModelEndpoint(
        "http://127.0.0.1:1/v1", "key", agent_model="big", models={"triage": "quick"}, evaluator_model="j"
    )
    executor = given.code_executor(tmp_path / "cache").env
    assert json.loads(executor["SIGNALBOX_CODE_LOCAL_ROOTS"]) == [str(root) for root in roots]
    assert executor["SIGNALBOX_CODE_CACHE_DIR"] == str(tmp_path / "cache")
    assert "SIGNALBOX_MODEL_BASE_URL" not in executor
    assert given.evaluator(model).env["SIGNALBOX_EVALUATOR_MODEL"] == "j"
    assert given.evaluator(MODEL).env["SIGNALBOX_EVALUATOR_MODEL"] == "big"
    told = given.runtime(1, model, dsn="d", guard="h:1", sql_executor="h:2", code_executor="h:3", evaluator="h:4").env
    assert told["SIGNALBOX_CODE_EXECUTOR_TARGET"] == "ipv4:h:3"
    assert told["SIGNALBOX_EVALUATOR_TARGET"] == "ipv4:h:4"
    assert json.loads(told["SIGNALBOX_MODELS"]) == {"triage": "quick"}  # the runtime takes the agents' for the others


def test_without_them_the_runtime_is_told_of_none(keys: DevelopmentKeys) -> None:
    told = topology(keys).runtime(1, MODEL, dsn="d", guard="h:1", sql_executor="h:2").env
    assert not {"SIGNALBOX_CODE_EXECUTOR_TARGET", "SIGNALBOX_EVALUATOR_TARGET"} & told.keys()


def test_code_may_be_read_nowhere_unless_named(keys: DevelopmentKeys, tmp_path: Path) -> None:
    assert topology(keys, code_agents=True).code_executor(tmp_path).env["SIGNALBOX_CODE_LOCAL_ROOTS"] == "[]"
