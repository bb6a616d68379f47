"""Where patterns begin, read from the text: what finds records of calls is refused, what does not is taken."""

from __future__ import annotations

import re

import pytest

from services.graph_executor.cypher_patterns import check_patterns
from services.kit.tools.executor import ToolRefused

TAKEN = (
    "MATCH (t:Ticket) RETURN t",
    "MATCH (:Ticket) RETURN count(*)",
    "MATCH (t:Ticket {key: $key}) RETURN t",
    "MATCH (t:`Ticket`) RETURN t",
    "MATCH (t:Ticket WHERE t.points > 3) RETURN t",
    "MATCH (n)-[e]->(t:Ticket) RETURN n",
    "MATCH (u:User)-[:REPORTS]->(t)<-[:BLOCKS*1..3]-(o) RETURN o",
    "MATCH (t:Ticket), (t)-[:BLOCKS]->(o) RETURN o",
    "MATCH (t:Ticket) MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket)--(o) MATCH (o)-->(p) RETURN p",
    "MATCH (t:Ticket) WITH t MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket) WITH *, 1 AS one MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket) WITH DISTINCT t ORDER BY t.key LIMIT 3 MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket) WITH t LIMIT 3 MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket) WITH t SKIP 1 MATCH (t)--(o) RETURN o",
    "MATCH (t:Ticket) SET t.points = [1, 2][0] + 2",
    "MATCH (t:Ticket) WITH collect(t) AS all UNWIND all AS one MATCH (one)--(o) RETURN o",
    "MATCH (t:Ticket) WHERE t.key STARTS WITH 'a' AND t.key ENDS WITH 'b' RETURN size([(t)--(o) | o.key])",
    "MATCH p = (t:Ticket)--(o) RETURN nodes(p)",
    "MATCH (t:Ticket), (u:User) RETURN shortestPath((t)-[*..3]->(u))",
    "MATCH (t:Ticket), (u:User) MATCH p = shortestPath((t)-[*..3]->(u)) RETURN p",
    "MATCH (t:Ticket) WHERE (t)-[:BLOCKS]->(:Ticket) RETURN t",
    "MATCH (t:Ticket) WHERE (t.points) < -1 OR (t.points)-(1) > 2 RETURN t",
    "MATCH (t:Ticket) WHERE t.points IS NOT NULL AND t.status IS NULL RETURN t",
    "MERGE (t:Ticket {key: 'x'}) ON CREATE SET t.points = 1 ON MATCH SET t.points = 2 RETURN t",
    "MATCH (t:Ticket) MERGE (t)-[e:BLOCKS]->(t) SET e.since = 1",
    "MATCH (t:Ticket), (u:User) CREATE (u)-[:REPORTS {since: $since}]->(t)",
    "FOREACH (x IN [1] | CREATE (:Ticket {key: 'x'}))",
    "MATCH (t:Ticket) FOREACH (x IN [1] | CREATE (u:User) CREATE (u)-[:REPORTS]->(t)) MERGE (t)-[:BLOCKS]->(t)",
    "MATCH (t:Ticket) RETURN {match: t.key, count: 1, `let`: [1, 2][0]} AS show_me",
    "UNWIND range(1, 3) AS x RETURN x * (2) - (1)",
    "RETURN CASE WHEN (1) > 0 THEN 'a' ELSE 'b' END",
    "MATCH (t:Ticket) RETURN t.key AS k UNION MATCH (u:User) RETURN u.key AS k",
)
UNLABELLED = (
    "MATCH (n) RETURN n",
    "MATCH () RETURN count(*)",
    "MATCH (n {key: 'x'}) RETURN n",
    "MATCH (`n`) RETURN `n`",
    "MATCH (n WHERE n:Ticket) RETURN n",
    "MATCH (n) WHERE n:Ticket RETURN n",
    "MATCH (n IS Ticket) RETURN n",
    "MATCH (t:Ticket), (n) RETURN n",
    "MATCH (n), (n:Ticket) RETURN n",
    "MATCH (t:Ticket) OPTIONAL MATCH (n) RETURN n",
    "MATCH (t:Ticket) WITH 1 AS one MATCH (t) RETURN t",
    "MATCH (t:Ticket) WITH t.key AS key MATCH (t) RETURN t",
    "MATCH (t:Ticket) WITH count(t) AS n MATCH (t)-->(o) RETURN o",
    "MATCH (t:Ticket) RETURN t UNION MATCH (t) RETURN t",
    "MATCH ()-[e]->() RETURN e",
    "FOREACH (x IN [1] | MERGE (n:Ticket {key: 'x'})) MATCH (n) DETACH DELETE n",
    "FOREACH (x IN [1] | FOREACH (y IN [1] | CREATE (n:Ticket)) MERGE (n))",
    "MATCH (n)-[:REPORTS]->(m) RETURN n",
    "MATCH p = (n) RETURN p",
    "MATCH p = shortestPath((a)-[*..3]->(b)) RETURN p",
    "RETURN [(n)-[e]->(m) | n.key]",
    "RETURN size([(n)--() | 1])",
    "RETURN size([(n)<-[:REPORTS]-() | 1])",
    "MERGE (n) RETURN n",
    "MERGE (n {key: 'turn'}) SET n.taken = 0",
)
UNSUPPORTED = (
    "MATCH ((a:Ticket)-[:BLOCKS]->(b)){1,99} RETURN a",
    "MATCH (a:Ticket)((b)-[:BLOCKS]->(c))+(d) RETURN a",
    "MATCH (a:Ticket)-[:BLOCKS]->+(b) RETURN b",
    "MATCH (a:Ticket)-[:BLOCKS]->{1,99}(b) RETURN b",
    "MATCH (a:Ticket)-[:BLOCKS]->*(b) RETURN b",
    "MATCH ANY SHORTEST (a:Ticket)-->(b) RETURN b",
    "MATCH REPEATABLE ELEMENTS (a:Ticket)-->(b) RETURN b",
    "RETURN COUNT { (n) }",
    "RETURN COUNT { MATCH (n) RETURN n }",
    "RETURN COLLECT { MATCH (n) RETURN n.key }",
    "INSERT (:Ticket {key: 'x'})",
    "MATCH (t:Ticket) INSERT (:Unknown)",
    "MATCH (t:Ticket) SET t IS Unknown",
    "MATCH (t:Ticket) WHERE t IS Unknown RETURN t",
    "MATCH (t:Ticket) SET t.points = 1, t['key'] = 2",
    "MATCH (t:Ticket) SET t.points = 1, t[$name] = 2",
    "MATCH (t:Ticket) SET t.points = 1, t[$name] += {key: 2}",
    "MATCH (t:Ticket) RETURN t NEXT RETURN 1",
    "SHOW DATABASES",
    "SHOW USERS YIELD user RETURN user",
    "TERMINATE TRANSACTIONS 'neo4j-transaction-1'",
    "CREATE USER eve SET PASSWORD 'x'",
    "CREATE DATABASE other",
    "ALTER USER neo4j SET PASSWORD 'x'",
    "GRANT ROLE admin TO eve",
    "COMMIT",
    "ROLLBACK",
    "MATCH (t:Ticket) USING INDEX t:Ticket(key) RETURN t",
)


@pytest.mark.parametrize("query", TAKEN)
def test_what_begins_at_a_label_is_taken(query: str) -> None:
    check_patterns(query, writes=True)


@pytest.mark.parametrize(
    ("query", "reason"),
    [(query, "unlabelled_node") for query in UNLABELLED] + [(query, "unsupported") for query in UNSUPPORTED],
)
def test_what_does_not_is_refused(query: str, reason: str) -> None:
    with pytest.raises(ToolRefused) as raised:
        check_patterns(query, writes=True)
    assert raised.value.reason == reason, raised.value


@pytest.mark.parametrize("query", [query for query in TAKEN if re.search("MERGE|CREATE|SET", query)])
def test_a_query_that_reads_has_no_clause_that_writes(query: str) -> None:
    with pytest.raises(ToolRefused) as raised:
        check_patterns(query, writes=False)
    assert raised.value.reason == "write_refused"


@pytest.mark.parametrize("query", [query for query in TAKEN if not re.search("MERGE|CREATE|SET", query)])
def test_a_query_that_reads_is_taken(query: str) -> None:
    check_patterns(query, writes=False)


@pytest.mark.parametrize("query", [r"RETURN '\u0027'", r"MATCH (n:\u0054icket) RETURN n", r"RETURN '\\u0027'"])
def test_a_sign_that_is_written_by_its_number_is_refused(query: str) -> None:
    with pytest.raises(ToolRefused) as raised:
        check_patterns(query, writes=True)
    assert raised.value.reason == "odd_character"
