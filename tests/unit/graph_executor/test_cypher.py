"""Callers' Cypher: what is taken, what is refused and why, and that what is sent holds a filter for every node."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from services.graph_executor.cypher.statement import checked_statement
from services.graph_executor.policy import Access, GraphPolicy
from services.kit.identity.caller import Caller
from services.kit.tools.executor import ToolRefused

POLICY = GraphPolicy.model_validate(
    yaml.safe_load("""
version: 1
labels:
  Ticket:
    properties:
      summary: {type: string, max_length: 20}
      status: {type: string, values: [open, closed]}
      points: {type: integer}
      weight: {type: number}
  User: {properties: {name: {type: string}}, required: [name]}
  Secret: {}
edges:
  REPORTS: {from: [User], to: [Ticket], properties: {since: {type: integer}}}
  BLOCKS: {from: [Ticket], to: [Ticket]}
  KNOWS: {from: [User], to: [Secret]}
roles:
  "*": {read: [Ticket, User]}
  keeper: {read: "*"}
  graph_writer: {write: "*"}
""")
)
PARAMETERS: dict[str, object] = {"key": "k", "since": 1, "name": "x"}


def sent(query: str, *roles: str, write: bool = False) -> str:
    access = Access(POLICY, Caller("27", frozenset(roles)))
    return checked_statement(query, PARAMETERS, POLICY, access, write=write).text


READS = (
    "MATCH (t:Ticket) RETURN t",
    "match (t:Ticket) return t.key // all of them",
    "MATCH (t:Ticket) /* of any kind */ RETURN count(t);",
    "MATCH (:Ticket) RETURN count(*)",
    "MATCH (t:Ticket {key: $key}) RETURN t",
    "MATCH (t:`Ticket`) RETURN t",
    "MATCH (u:User)-[:REPORTS]->(t)<-[:BLOCKS]-(o) RETURN o",
    "MATCH (t)<-[:REPORTS]-() RETURN t.key",
    "MATCH (u:User)-[:REPORTS]->(t:Ticket)<-[:BLOCKS*1..3]-(o:Ticket) RETURN o",
    "MATCH (t:Ticket) WITH *, 1 AS one MATCH (t)--(o:User) RETURN o",
    "MATCH (t:Ticket) WITH DISTINCT t ORDER BY t.key SKIP 1 LIMIT 3 MATCH (t)-[:BLOCKS]->(o) RETURN *",
    "MATCH (t:Ticket) WITH collect(t) AS all UNWIND all AS one MATCH (one)-[:BLOCKS]->(o) RETURN o",
    "MATCH (t:Ticket) WHERE t.key STARTS WITH 'a' RETURN size([(t)-[:BLOCKS]-(o:Ticket) | o.key])",
    "MATCH p = (t:Ticket)-[:BLOCKS]->(o) RETURN nodes(p)",
    "MATCH (t:Ticket) WHERE NOT (t)<-[:REPORTS]-(:User) RETURN t.key ORDER BY t.key DESC",
    "MATCH (t:Ticket) WHERE (t.points) < -1 OR (t.points)-(1) > 2 RETURN t",
    "MATCH (t:Ticket) WHERE (t:Ticket OR t.points > 3) AND t.status IS NOT NULL RETURN t",
    "MATCH (t:Ticket) RETURN {match: t.key, count: 1, `let`: [1, 2][0]} AS show_me",
    "RETURN CASE WHEN (1) > 0 THEN 'a' ELSE 'b' END",
    "MATCH (t:Ticket) RETURN t.status, count(*) ORDER BY count(*) DESC LIMIT 3",
    "MATCH (t:Ticket) WITH collect(t.key) AS keys RETURN [key IN keys WHERE key <> 'a' | toUpper(key)]",
    "MATCH (t:Ticket) RETURN any(x IN [1, 2] WHERE x = t.points), t.points IN [1, 2, 3]",
    "MATCH (t:Ticket) RETURN t.key AS k UNION ALL MATCH (u:User) RETURN u.key AS k",
    "MATCH (u:User) OPTIONAL MATCH (u)-[r:REPORTS]->(t:Ticket) WHERE r.since > 1 RETURN u.name, type(r)",
)
WRITES = (
    "CREATE (:Ticket {key: 'x', status: 'open'})",
    "MERGE (t:Ticket {key: 'x'}) ON CREATE SET t.points = 1 SET t.status = 'open' RETURN t",
    "MATCH (t:Ticket {key: $key}) SET t.points = t.points + 1, t.summary = $name",
    "MATCH (t:Ticket) SET t += {status: 'closed', points: -3} REMOVE t.summary",
    "MATCH (t:Ticket), (u:User) CREATE (u)-[:REPORTS {since: $since}]->(t)",
    "MATCH (t:Ticket), (u:User) MERGE (u)-[r:REPORTS]->(t) SET r.since = 3 RETURN r.since",
    "FOREACH (x IN [1] | CREATE (:Ticket {key: 'x'}))",
    "MATCH (t:Ticket {key: 'x'}) DETACH DELETE t",
)
REFUSED = (
    ("MATCH (n) RETURN n", "unlabelled_node"),
    ("MATCH (n) RETURN count(n)", "unlabelled_node"),
    ("MATCH (t:Ticket)--(n) RETURN properties(n)", "unlabelled_node"),
    ("MATCH (t:Ticket)-[:REPORTS|KNOWS]-(n) RETURN n", "unlabelled_node"),
    ("MATCH (t:Ticket)-[:BLOCKS*1..2]->(n) RETURN n", "unlabelled_node"),
    ("MATCH (n), (n:Ticket) RETURN n", "unlabelled_node"),
    ("MATCH (t:Ticket) WITH 1 AS one MATCH (t) RETURN t", "unlabelled_node"),
    ("MATCH (t:Ticket) RETURN t UNION MATCH (t) RETURN t", "unlabelled_node"),
    ("RETURN [(n)-[e]->(m:Ticket) | n.key]", "unlabelled_node"),
    ("MATCH (n:Nothing) RETURN n", "unknown_label"),
    ("MATCH (t:Ticket)-[:HATES]->(u:User) RETURN t", "unknown_label"),
    ("MATCH (t:Ticket) WHERE t:Nothing RETURN t", "unknown_label"),
    ("MATCH (t:Ticket) RETURN other", "unknown_name"),
    ("MATCH (t:Ticket) WHERE (t)<-[:REPORTS]-(u:User) RETURN t", "unknown_name"),
    ("RETURN $other", "unknown_parameter"),
    ("WITH 1 AS signalbox_x RETURN 1", "reserved_name"),
    ("MATCH (t:Ticket) RETURN replace(t.summary, 'a', 'b')", "function_refused"),
    ("MATCH (t:Ticket) RETURN outDegree(t)", "function_refused"),
    ("CALL db.labels()", "procedure_refused"),
    ("MATCH (t:Ticket)-[:BLOCKS*]->(o:Ticket) RETURN o", "path_too_long"),
    ("RETURN range(0, 100000)", "range_too_long"),
    ("RETURN " + "(" * 9 + "1" + ")" * 9, "too_deep"),
    ("RETURN " + "NOT " * 300 + "true", "too_deep"),
    ("RETURN " + "1, " * 600 + "1", "too_long"),
    ("RETURN [x IN [1] | [y IN [2] | x * y]]", "nested_loops"),
    ("WITH [1] AS r RETURN [x IN r WHERE NOT (-x-1) IN r]", "nested_loops"),
    ("WITH [1] AS r RETURN [x IN [r] WHERE x = r]", "nested_loops"),
    ("RETURN " + "1 + " * 8 + "1", "too_much_growth"),
    ("WITH [1] AS s " + "WITH s + s AS s " * 4 + "RETURN size(s)", "too_much_growth"),
    (r"RETURN '\u0027'", "odd_character"),
    ("  // nothing", "unparsable"),
    ("   ", "empty"),
    ("RETURN 1; RETURN 2", "unparsable"),
    ("MATCH (t:Ticket) WHERE EXISTS { MATCH (n) } RETURN t", "unparsable"),
    ("CALL { MATCH (n) RETURN n } RETURN n", "unparsable"),
    ("RETURN COUNT { (n) }", "unparsable"),
    ("MATCH (a:Ticket)((b)-[:BLOCKS]->(c))+(d) RETURN a", "unparsable"),
    ("MATCH (t IS Ticket) RETURN t", "unparsable"),
    ("LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row", "unparsable"),
    ("SHOW DATABASES", "unparsable"),
    ("MATCH (t:Ticket) SET t.points = 1", "write_refused"),
    ("FOREACH (x IN [1] | CREATE (:Ticket {key: 'x'}))", "write_refused"),
)
NEVER_WRITTEN = (
    ("MATCH (t:Ticket {key:'T-1'}) REMOVE t.summary, t:Ticket", "unsupported"),
    ("MATCH (t:Ticket) SET t.points = 1, t:Secret", "unsupported"),
    ("MATCH (a:Ticket), (b:Ticket) SET a = b", "unsupported"),
    ("MATCH (t:Ticket) SET t.status = 'whatever'", "invalid_properties"),
    ("MATCH (t:Ticket) SET t.evil = 'x'", "invalid_properties"),
    ("MATCH (t:Ticket) SET t.evil = null", "invalid_properties"),
    ("MATCH (t:Ticket) SET t.summary = 'twenty-one letters are'", "invalid_properties"),
    ("MATCH (t:Ticket) SET t.points = 1.5", "invalid_properties"),
    ("MATCH (t:Ticket) SET t += {evil: 1}", "invalid_properties"),
    ("MATCH (u:User) REMOVE u.name", "invalid_properties"),
    ("MATCH (u:User) SET u.name = null", "invalid_properties"),
    ("CREATE (:User {key: 'u'})", "invalid_properties"),
    ("MATCH (t:Ticket) SET t.summary = t.key", "value_undecided"),
    ("MATCH (t:Ticket) SET t += $name", "value_undecided"),
    ("MATCH (t:Ticket) WITH collect(t) AS all UNWIND all AS one SET one.points = 1", "value_undecided"),
    ("MATCH p = (t:Ticket)-[:BLOCKS]->(:Ticket) DELETE p", "value_undecided"),
    ("MATCH (t:Ticket) SET t.key = null", "key_refused"),
    ("MATCH (t:Ticket) SET t.key = 'a '", "key_refused"),
    ("MATCH (t:Ticket) REMOVE t.key", "key_refused"),
    ("CREATE (:Ticket {status: 'open'})", "key_refused"),
    ("CREATE (:Ticket {key: 'a' + 'b'})", "key_refused"),
    ("UNWIND [' '] AS x CREATE (:Ticket {key: x})", "key_refused"),
    ("CREATE ()", "node_without_label"),
    ("MATCH (t:Ticket) CREATE (t)-[:BLOCKS]->(u)", "node_without_label"),
    ("MATCH (t:Ticket), (u:User) CREATE (t)-[:REPORTS]->(u)", "edge_refused"),
    ("MATCH (t:Ticket), (u:User) CREATE (t)-[:BLOCKS]->(u)", "edge_refused"),
    ("MATCH (t:Ticket) CREATE (t)-[:BLOCKS]-(t)", "edge_refused"),
    ("MATCH (t:Ticket), (u:User) CREATE (u)-[:REPORTS {since: 'x'}]->(t)", "invalid_properties"),
    ("MERGE (t:Ticket {key: 'x'}) ON MATCH SET t.points = 1", "unsupported"),
    ("MATCH (u:User) MERGE (u)-[:REPORTS]->(t:Ticket {key: 'x'})", "unsupported"),
    ("RETURN 1 AS x UNION MATCH (t:Ticket) DELETE t RETURN 1 AS x", "unsupported"),
    ("SET t.points = 1", "unknown_name"),
    ("WHERE true MATCH (t:Ticket) SET t.points = 1", "unparsable"),
    (", 2 AS x MATCH (t:Ticket) SET t.points = 1", "unparsable"),
    ("CREATE INDEX FOR (t:Ticket) ON (t.points)", "unparsable"),
)


@pytest.mark.parametrize(("queries", "write"), [(READS, False), (WRITES, True)], ids=["reads", "writes"])
def test_what_is_taken_holds_none_of_the_callers_names(queries: tuple[str, ...], write: bool) -> None:
    for query in queries:
        written = sent(query, "graph_writer", write=write)
        assert not {"one", "keys", "show_me", "u.", "t."} & set(written.replace("(", " ").split()), written


@pytest.mark.parametrize(("queries", "write"), [(REFUSED, False), (NEVER_WRITTEN, True)], ids=["reads", "writes"])
def test_what_is_refused_says_why(queries: tuple[tuple[str, str], ...], write: bool) -> None:
    found = {}
    for query, reason in queries:
        with pytest.raises(ToolRefused) as raised:
            sent(query, "graph_writer", write=write)
        if raised.value.reason != reason:
            found[query] = str(raised.value)
    assert not found


def test_a_node_is_found_by_labels_that_its_caller_may_read() -> None:
    of_all, of_some = sent("MATCH (t:Ticket) RETURN t", "keeper"), sent("MATCH (t:Ticket) RETURN t")
    assert "v1l IN ['Secret', 'Ticket', 'User']" in of_all
    assert "v1l IN ['Ticket', 'User']" in of_some
    for pattern in ("(s:Secret)", "(:User)-[:KNOWS]->(s)", "(s:Ticket:Secret)"):
        with pytest.raises(ToolRefused, match="no label 'Secret'"):
            sent(f"MATCH {pattern} RETURN s")


def test_the_nodes_of_a_long_path_are_filtered_like_its_ends() -> None:
    written = sent("MATCH (t:Ticket)-[*1..3]->(o:Ticket) RETURN o.key")
    assert "IN nodes(v" in written
    assert "[:BLOCKS|KNOWS|REPORTS*1..3]" in written


def test_columns_have_the_names_that_the_caller_reads() -> None:
    access = Access(POLICY, Caller("27", frozenset()))
    query = "MATCH (t:Ticket) RETURN t.key, count(t) AS `how many`,  t.points  + 1"
    assert checked_statement(query, {}, POLICY, access, write=False).columns == ("t.key", "how many", "t.points + 1")


def test_a_refusal_names_the_place_and_a_way() -> None:
    for query, told in (
        ("MATCH (n)-[:BLOCKS|REPORTS]->(t:Ticket) RETURN n", "such as (n:Ticket)"),
        ("MATCH (t:Ticket) WHERE EXISTS { (t) } RETURN t", "WHERE (a)-[:TYPE]->(:Label)"),
        ("MATCH (t:Ticket) RETURN t WHERE", "from 'WHERE' on"),
    ):
        with pytest.raises(ToolRefused) as raised:
            sent(query)
        assert told in raised.value.message


NAMES = st.sampled_from(["a", "b", "c", ""])
NODES = st.builds("({}{})".format, NAMES, st.sampled_from(["", ":Ticket", ":User", ":Secret", ":Ticket:User"]))
EDGES = st.sampled_from(["-->", "<--", "--", "-[:BLOCKS]->", "<-[:REPORTS]-", "-[e:KNOWS|REPORTS*1..2]->", "-[*..3]-"])
PATHS = st.builds(
    lambda first, more: first + "".join(edge + node for edge, node in more),
    NODES,
    st.lists(st.tuples(EDGES, NODES), max_size=2),
)
CONDITIONS = st.one_of(PATHS, st.sampled_from(["a.key = b.key", "any(x IN [1] WHERE x = a.points)", "a:Ticket"]))
CLAUSES = st.one_of(
    st.builds("MATCH {} WHERE {}".format, PATHS, CONDITIONS),
    st.builds("OPTIONAL MATCH p = {}, {}".format, PATHS, PATHS),
    st.builds("WITH *, [{} | 1] AS c".format, PATHS),
    st.builds("MATCH {}".format, PATHS),
    st.sampled_from(["WITH a", "WITH a AS b", "UNWIND [1, null] AS a", "WITH collect(a) AS c", "RETURN a.key UNION"]),
)


@given(st.lists(CLAUSES, min_size=1, max_size=4))
def test_whatever_patterns_say_they_are_sent_with_their_filters_or_refused(clauses: list[str]) -> None:
    # One that was written without its filter is a RuntimeError.
    with suppress(ToolRefused):
        assert sent(" ".join([*clauses, "RETURN *"]))


@given(st.text(alphabet="MATCHRETURN(:)[]{}-><=.,'\"`$|*;/ \\tTicket\n1", max_size=60))
def test_no_text_is_more_than_refused(text: str) -> None:
    for query in (text, f"MATCH (t:Ticket) {text} RETURN t", f"MATCH (t:Ticket) RETURN {text}"):
        with suppress(ToolRefused):
            sent(query)


def _hostile() -> list[dict[str, Any]]:
    return [
        {"text": "x" * 4000}, {"text": "(" * 1900}, {"text": "[x IN " * 600}, {"text": "CASE WHEN " * 400},
        {"text": "RETURN " + "1+" * 900 + "1"}, {"text": "MATCH " + "(:Ticket)--" * 300 + "(:Ticket) RETURN 1"},
    ]  # fmt: skip


@pytest.mark.parametrize("given_", _hostile(), ids=lambda each: json.dumps(each)[:24])
def test_long_texts_are_refused_and_not_recursed_into(given_: dict[str, Any]) -> None:
    with pytest.raises(ToolRefused):
        sent(given_["text"])
