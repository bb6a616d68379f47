"""Words of Cypher, in upper case, and what is made of them here."""

from typing import Final

# What begins a clause that reaches files, the network, other queries or the graph's own schema.
REFUSED: Final = frozenset(
    {
        "LOAD", "CSV", "CYPHER", "EXPLAIN", "PROFILE", "INDEX", "CONSTRAINT", "DROP", "USE", "EXISTS",
    }
)  # fmt: skip
# Functions that go through a list.
LOOPS: Final = frozenset({"ALL", "ANY", "NONE", "SINGLE"})
# What gives at most as much as it is given. Others can make a gigabyte of a kilobyte, and while one expression is
# evaluated the server heeds neither its timeout nor its bound of memory: replace, reduce and string.join among them.
FUNCTIONS: Final = LOOPS | frozenset(
    {
        "COUNT", "SUM", "AVG", "MIN", "MAX", "COLLECT", "STDEV", "STDEVP", "PERCENTILECONT", "PERCENTILEDISC",
        "SIZE", "LENGTH", "KEYS", "LABELS", "HASLABELS", "TYPE", "ID", "PROPERTIES", "COALESCE", "HEAD", "LAST",
        "TAIL", "NODES", "RELATIONSHIPS", "STARTNODE", "ENDNODE", "INDEGREE", "OUTDEGREE", "SHORTESTPATH",
        "ALLSHORTESTPATHS", "TOLOWER", "TOUPPER", "TRIM", "LTRIM", "RTRIM", "LEFT", "RIGHT", "SUBSTRING",
        "SPLIT", "REVERSE", "TOINTEGER", "TOFLOAT", "TOSTRING", "TOBOOLEAN", "TYPEOF", "ABS", "CEIL", "FLOOR",
        "ROUND", "SIGN", "SQRT", "EXP", "LOG", "LOG10", "RANGE", "TIMESTAMP", "DATE", "LOCALTIME",
        "LOCALDATETIME", "DURATION",
    }
)  # fmt: skip
# Keywords that a bracket may follow.
KEYWORDS: Final = frozenset(
    {
        "MATCH", "WHERE", "AND", "OR", "XOR", "NOT", "IN", "RETURN", "WITH", "UNWIND", "CASE", "WHEN", "THEN",
        "ELSE", "BY", "LIMIT", "SKIP", "DISTINCT", "CREATE", "MERGE", "DELETE", "CONTAINS", "FOREACH", "SET",
        "ON", "AS",
    }
)  # fmt: skip
# Where what was added up so far can be added up again.
SEGMENTS: Final = frozenset({"WITH", "RETURN", "UNION"})
# What may stand first: anything else would go on with the clause that is put before a query.
FIRST: Final = frozenset(
    {
        "MATCH", "OPTIONAL", "CREATE", "MERGE", "UNWIND", "WITH", "CALL", "RETURN", "FOREACH",
    }
)  # fmt: skip
CLAUSES: Final = FIRST | frozenset(
    {
        "SET", "DELETE", "DETACH", "REMOVE", "ON", "ORDER", "UNION", "WHERE",
    }
)  # fmt: skip
