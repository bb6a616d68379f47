"""TABLESAMPLE: a share of a table's rows, drawn before the caller's filter leaves some of them out."""

from __future__ import annotations

from typing import Final

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused

_METHODS: Final = frozenset({"system", "bernoulli"})
_MOST_PERCENT: Final = 100


def table_in(node: pb.Node) -> pb.RangeVar:
    """Returns the table that a part of FROM is, or is a sample of."""
    return node.range_table_sample.relation.range_var if is_sample(node) else node.range_var


def is_sample(node: pb.Node) -> bool:
    """Tells whether a part of FROM is a sample."""
    return bool(node.HasField("range_table_sample"))


def check_sample(node: pb.Node) -> None:
    """Raises ToolRefused for a sample of anything but a table, by another method, or of a share that is no constant."""
    sample = node.range_table_sample
    methods = [each.string.sval for each in sample.method]
    share = _constant(sample.args[0]) if len(sample.args) == 1 else None
    repeats = not sample.HasField("repeatable") or _constant(sample.repeatable) is not None
    is_table = sample.relation.WhichOneof("node") == "range_var"
    is_known = len(methods) == 1 and methods[0] in _METHODS
    if not is_table or not is_known or not repeats or share is None or not 0 <= share <= _MOST_PERCENT:
        raise ToolRefused(
            "unsupported_syntax",
            "TABLESAMPLE takes a share of a table, SYSTEM or BERNOULLI with a number from 0 to 100.",
        )


def sampled(limited: pb.SelectStmt, node: pb.Node) -> pb.SelectStmt:
    """Returns the query that stands in a table's place, with the sample of the table inside it, if it is one."""
    if not is_sample(node):
        return limited
    [table] = limited.from_clause
    made = pb.SelectStmt()
    made.CopyFrom(limited)
    made.from_clause[0].CopyFrom(node)
    made.from_clause[0].range_table_sample.relation.CopyFrom(table)
    return made


def _constant(node: pb.Node) -> float | None:
    """Returns a constant that is a number; None for anything else."""
    value = node.a_const
    if node.WhichOneof("node") != "a_const" or value.WhichOneof("val") not in ("ival", "fval"):
        return None
    return float(value.ival.ival if value.HasField("ival") else value.fval.fval)
