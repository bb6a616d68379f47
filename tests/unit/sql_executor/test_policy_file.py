"""The policy file: what it means, and that mistakes in it are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from services.kit.text.policy_file import PolicyFileError
from services.sql_executor.naming import assignment_view, keys_function
from services.sql_executor.policy import SqlPolicy, TableName, load_policy

HARBOUR = Path(__file__).resolve().parents[3] / "examples" / "harbour" / "sql_policy.yaml"
SMALL: dict[str, Any] = {
    "version": 1,
    "database": "shop",
    "owner": {"subject_type": "text"},
    "tables": {"orders": {"owned_by": {"column": "customer"}}},
}


def _write(path: Path, content: object) -> Path:
    file = path / "policy.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def test_the_example_loads() -> None:
    policy = load_policy(HARBOUR)
    assert policy.visible()[TableName("public", "ships")].shared
    assert [table.name for table in policy.hops()] == ["user_device_assignment"]
    assert policy.limits.row_cap == 200


def test_what_is_left_out_has_defaults(tmp_path: Path) -> None:
    policy = load_policy(_write(tmp_path, SMALL))
    assert (policy.schemas, policy.restricted, policy.admin_roles) == (["public"], [], ["admin"])
    assert (policy.roles.reader, policy.roles.owner, policy.hardening) == ("signalbox_reader", "signalbox_policy", True)


def test_columns_may_be_limited_to_those_that_lead_to_the_owner() -> None:
    for owned_by, column in (
        ({"column": "customer"}, "customer"),
        ({"join": "shares", "on": "order_id", "subject_column": "user_id"}, "order_id"),
    ):
        rule = SqlPolicy.model_validate({**SMALL, "tables": {"orders": {"owned_by": owned_by, "columns": [column]}}})
        assert rule.tables["orders"].key == column


def test_its_json_schema_accepts_the_example() -> None:
    schema = json.loads(json.dumps(SqlPolicy.model_json_schema()))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(yaml.safe_load(HARBOUR.read_text()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version: Input should be 1"),
        ({"tables": {}}, "tables: Dictionary should have at least 1 item"),
        ({"tables": {"orders": {}}}, "tables.orders: Value error, give exactly one of `owned_by` and `shared: true`"),
        ({"tables": {"orders": {"shared": True, "owned_by": {"column": "x"}}}}, "give exactly one of"),
        ({"tables": {"orders": {"shared": True, "columns": []}}}, "tables.orders.columns: List should have at least 1"),
        (
            {"tables": {"orders": {"owned_by": {"column": "customer"}, "columns": ["id"]}}},
            "tables.orders: Value error, `columns` leaves out 'customer', by which a caller's own rows are found",
        ),
        (
            {
                "tables": {
                    "orders": {
                        "columns": ["user_id"],
                        "owned_by": {"join": "shares", "on": "order_id", "subject_column": "user_id"},
                    }
                }
            },
            "`columns` leaves out 'order_id', by which",
        ),
        (
            {
                "tables": {
                    "orders": {
                        "columns": ["id"],
                        "owned_by": {
                            "path": [{"table": "shares", "column": "share", "references": "id"}],
                            "subject_column": "user_id",
                        },
                    }
                }
            },
            "`columns` leaves out 'share', by which",
        ),
        ({"tables": {"orders": {"owned_by": {"colum": "x"}}}}, "tables.orders.owned_by"),
        ({"tables": {"other.orders": {"shared": True}}}, "the schema 'other' is not in `schemas`"),
        ({"tables": {"a.b.c": {"shared": True}}}, "tables"),
        ({"tables": {"orders": {"shared": True}, "public.orders": {"shared": True}}}, "listed twice"),
        ({"restricted": ["orders"]}, "restricted: 'orders' is also in `tables`"),
        ({"schemas": ["pg_catalog"], "tables": {"pg_class": {"shared": True}}}, "schemas: pg_catalog"),
        ({"owner": {"subject_type": "float"}}, "owner.subject_type"),
        ({"limits": {"row_cap": 0}}, "limits.row_cap: Input should be greater than or equal to 1"),
        ({"limits": {"row_cap": "200"}}, "limits.row_cap: Input should be a valid integer"),
        ({"functions": {"allow": ["pg_sleep()"]}}, "functions.allow.0"),
        ({"roles": {"reader": "x", "owner": "x"}}, "reader and owner must be different"),
        ({"limit": {}}, "limit: Extra inputs are not permitted"),
        ({"hardening": "yes please"}, "hardening: Input should be a valid boolean"),
    ],
)
def test_a_mistake_is_named_with_file_and_field(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = _write(tmp_path, {**SMALL, **change})
    with pytest.raises(PolicyFileError) as raised:
        load_policy(file)
    assert str(file) in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: [1", "is not YAML"),
        ("version: 1\nversion: 1\n", "the key 'version' is given twice"),
        ("tables:\n  a: {shared: true}\n  a: {shared: true}\n", "the key 'a' is given twice"),
        ("- a list", "should be a valid dictionary"),
        ("", "should be a valid dictionary"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PolicyFileError, match=r"policy\.yaml") as raised:
        load_policy(_write(tmp_path, text))
    assert words in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match=r"nowhere\.yaml: can't be read"):
        load_policy(tmp_path / "nowhere.yaml")


def test_joins_to_one_table_get_names_of_their_own() -> None:
    owners = [{"join": "shares", "on": "order_id", "subject_column": column} for column in ("buyer", "seller")]
    owners.append({"join": "crm.shares" + "x" * 40, "on": "y" * 30, "subject_column": "z"})
    tables = {f"t{n}": {"owned_by": owner} for n, owner in enumerate(owners)}
    policy = SqlPolicy.model_validate({**SMALL, "schemas": ["public", "crm"], "tables": tables})
    names = [name(policy, way) for way in policy.ways() for name in (assignment_view, keys_function)]
    assert len(set(names)) == 6
    assert names[:2] == ["shares_by_buyer", "caller_order_id_of_shares_by_buyer"]
    assert all(len(name) <= 63 for name in names)


def test_the_policy_file_of_the_readme_loads(tmp_path: Path) -> None:
    readme = (Path(__file__).resolve().parents[3] / "services" / "sql_executor" / "README.md").read_text()
    file = tmp_path / "policy.yaml"
    file.write_text(readme.split("```yaml\n")[1].split("```")[0])
    assert [table.name for table in load_policy(file).visible()] == ["devices", "users", "ships", "samples"]
