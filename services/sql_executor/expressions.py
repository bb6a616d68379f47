"""The check of expressions: nodes, fields, functions, operators and types by the allow-lists, names by their scopes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused
from services.sql_executor import costs, grammar
from services.sql_executor.catalog import Catalog
from services.sql_executor.effort import Effort
from services.sql_executor.expression_origins import counts_own_rows, origin_of
from services.sql_executor.origins import Origin, any_of
from services.sql_executor.plans import Plan
from services.sql_executor.refusals import check_path, check_pattern, no_column, syntax_refused
from services.sql_executor.result_sizes import set_rows, size_of_cast, size_of_constant, size_of_operation
from services.sql_executor.scopes import Column, Frame, Result, Scope
from services.sql_executor.sizes import (
    BUILT,
    VALUE,
    Size,
    collected,
    is_literal,
    longest,
    shortened,
    sorted_length,
    together,
    whole_number,
)
from services.sql_executor.syntax import POSITIONS

# Reads a subquery in a scope.
ReadQuery = Callable[[pb.SelectStmt, Scope | None, Frame | None], Result]

_ALLOWED: Final = frozenset(
    getattr(pb, name).DESCRIPTOR.fields_by_name[field] for name, fields in grammar.FIELDS.items() for field in fields
)
_BOOLEANS: Final = frozenset({"BoolExpr", "NullTest", "BooleanTest"})


class Expressions:
    """Checks expressions of one statement, and counts their effort."""

    def __init__(self, catalog: Catalog, plan: Plan, read_query: ReadQuery) -> None:
        self._catalog = catalog
        self._read_query = read_query
        allowed = catalog.policy.functions.allow
        self._costs = {**{name: catalog.costs.get(name, costs.READING) for name in allowed}, **costs.FUNCTIONS}
        self.effort = Effort()
        self._plan = plan
        # Whether what has been checked since this was last set to False takes any value from a table.
        self.reads = False
        # Where the values are from of the expressions that the one being checked has been found to be made of.
        self._parts: list[Origin] = []
        self._depth = 0
        self._own: dict[str, Callable[..., Size]] = {
            "ColumnRef": self._column, "FuncCall": self._call, "A_Expr": self._operation, "TypeCast": self._cast,
            "SubLink": self._subquery, "A_Const": self._constant, "SQLValueFunction": self._value_function,
            "SortBy": self._order, "NamedArgExpr": self._named, "CollateClause": self._collation,
            "RowExpr": self._together, "A_ArrayExpr": self._together, "A_Indirection": self._element,
            "CaseExpr": self._case, "MinMaxExpr": self._greatest,
            "SelectStmt": self._refuse_query,
        }  # fmt: skip

    def node(self, node: pb.Node, scope: Scope, *, may_be_row: bool = False) -> Size:
        """Checks an expression; returns the size of its value. Raises ToolRefused."""
        kind = node.WhichOneof("node")
        if kind is None:
            return Size()
        if kind == "column_ref":
            return self._column(node.column_ref, scope, may_be_row=may_be_row)
        self._depth += 1
        if self._depth > self._catalog.policy.limits.depth:
            raise ToolRefused("too_deep", "The query nests too deep; use CTEs, or IN (…) for long chains of OR.")
        around, self._parts = self._parts, []
        size = self.message(getattr(node, kind), scope)
        origin = self._parts[-1] if kind == "sub_link" else self._origin(node, scope)
        around.append(origin)
        self._parts = around
        self._depth -= 1
        return size

    def _origin(self, node: pb.Node, scope: Scope) -> Origin:
        if node.WhichOneof("node") != "func_call":
            return origin_of(node, self._parts)
        rows_read = scope.rows_read and (counts_own_rows(node.func_call) or not scope.adds_rows)
        if node.func_call.HasField("over"):
            rows_read = rows_read and not scope.regroups
        origin = origin_of(node, self._parts, rows_read=rows_read)
        scope.unfolds |= origin is not Origin.READ and node.func_call.funcname[-1].string.sval in grammar.SETS
        return origin

    def value(self, node: pb.Node, scope: Scope) -> tuple[Size, Origin]:
        """Checks an expression; returns the size of its value, and where that is from."""
        around, self._parts = self._parts, []
        size = self.node(node, scope)
        origin = any_of(self._parts)
        self._parts = around
        return size, origin

    def nodes(self, nodes: Iterable[pb.Node], scope: Scope) -> list[Size]:
        """Checks some expressions."""
        return [self.node(node, scope) for node in nodes]

    def message(self, message: Message, scope: Scope) -> Size:
        """Checks any part of an expression, all its fields included."""
        name = message.DESCRIPTOR.name
        if (own := self._own.get(name)) is not None:
            return own(message, scope)
        self.fields(message)
        sizes = []
        for field, value in message.ListFields():
            if field.message_type is not None:
                children = value if field.is_repeated else (value,)
                sizes += [self._child(child, scope) for child in children]
        return VALUE if name in _BOOLEANS else longest(sizes)

    def _child(self, child: Message, scope: Scope) -> Size:
        return self.node(child, scope) if isinstance(child, pb.Node) else self.message(child, scope)

    def fields(self, message: Message) -> None:
        """Checks that a message and all its fields are allowed, and takes its positions in the text out."""
        self._plan.visit()
        for field, _ in message.ListFields():
            if field not in _ALLOWED:
                if field.name not in POSITIONS:
                    raise syntax_refused(message.DESCRIPTOR.name, field.name)
                message.ClearField(field.name)
        if message.DESCRIPTOR.name not in grammar.FIELDS:
            raise syntax_refused(message.DESCRIPTOR.name)

    def _column(self, reference: pb.ColumnRef, scope: Scope, *, may_be_row: bool = False) -> Size:
        self.fields(reference)
        names = [part.string.sval for part in reference.fields if part.WhichOneof("node") == "string"]
        if len(names) < len(reference.fields):
            raise ToolRefused("whole_row", f"{'.'.join([*names, '*'])} can't stand here; name the columns you need.")
        if len(names) > 3:
            raise ToolRefused("unknown_table", f"Name the column {names[-1]!r} without a database.")
        if len(names) == 1:
            return self._plain_column(names[0], scope, may_be_row)
        self._plan.step(scope.breadth / 4)
        relation = scope.relation(names[-2], names[0] if len(names) == 3 else "")
        if relation is None:
            shown = ".".join(names)[:100]
            raise ToolRefused("unknown_table", f"{shown} names {names[-2][:63]!r}, which is no table or alias here.")
        if names[-1] not in relation.named:
            raise no_column(names[-1], relation.named)
        return self._taken(relation.named[names[-1]])

    def _taken(self, column: Column) -> Size:
        self._takes(column.origin)
        return column.size

    def _takes(self, origin: Origin) -> None:
        """Notes a value that comes from elsewhere in the statement, and where it is from."""
        self.reads |= origin.is_read
        self._parts.append(origin)

    def _plain_column(self, name: str, scope: Scope, may_be_row: bool) -> Size:
        self._plan.step(scope.breadth / 4)
        column = scope.column(name)
        if column is not None:
            return self._taken(column)
        relation = scope.relation(name)
        if relation is None:
            raise no_column(name, scope.names())
        if not may_be_row:
            raise ToolRefused("whole_row", f"{name[:63]!r} is a whole row here; name the columns you need.")
        self._plan.list_columns(len(relation.columns))
        self._takes(any_of([each.origin for each in relation.columns]))
        return together(each.size for each in relation.named.values())

    def _call(self, call: pb.FuncCall, scope: Scope) -> Size:
        self.fields(call)
        name = self._called(call)
        sizes = [self.node(node, scope, may_be_row=name in grammar.OF_ROWS) for node in call.args]
        self.node(call.agg_filter, scope)
        reads = self.reads
        sizes += self.nodes(call.agg_order, scope)
        if call.agg_order or call.agg_distinct:
            self._plan.sort(sorted_length(sizes), scope.most_rows())
        if call.HasField("over"):
            self._plan.hold(not call.over.name)
            self.message(call.over, scope)
        elif name in grammar.AGGREGATES:
            scope.is_aggregated = True
        # What the rows are sorted by gives no value, but in WITHIN GROUP, where it is what the value is made from.
        self.reads = (self.reads if call.agg_within_group else reads) or (name in grammar.COUNTING and scope.of_tables)
        nodes = list(call.args)
        if name in grammar.REGULAR_EXPRESSIONS:
            check_pattern(nodes[1] if len(nodes) > 1 else pb.Node())
        if name == "jsonb_path_query_first":
            check_path(nodes[1:])
        self.effort.spend(name, self._costs[name], sizes)
        if name in grammar.SETS:
            scope.rows *= set_rows(name, sizes, nodes)
        return self._result(name, sizes, nodes, scope)

    def _result(self, name: str, sizes: Sequence[Size], nodes: Sequence[pb.Node], scope: Scope) -> Size:
        if name in grammar.COLLECTORS:
            return self.effort.build(collected(name, sizes, scope.most_rows()))
        if name in BUILT:
            return self.effort.build(BUILT[name](sizes, nodes))
        return VALUE if name in grammar.NUMBERS else shortened(name, sizes, nodes)

    def _called(self, call: pb.FuncCall) -> str:
        """Returns the name of a function that may be called."""
        parts = [part.string.sval for part in call.funcname]
        name: str = parts[-1]
        if parts[:-1] not in ([], ["pg_catalog"]):
            raise ToolRefused("function_refused", f"{'.'.join(parts)[:100]}: call functions without a schema.")
        if name not in self._costs or (len(parts) > 1 and name not in grammar.FUNCTIONS):
            raise ToolRefused("function_refused", f"The function {name[:63]} may not be called here; use another way.")
        return name

    def _operation(self, operation: pb.A_Expr, scope: Scope) -> Size:
        self.fields(operation)
        left, right = _copies(operation)
        with self._plan.copied(left):
            sizes = [self.node(operation.lexpr, scope)]
        with self._plan.copied(right):
            sizes.append(self.node(operation.rexpr, scope))
        # Each member of a list, and each end of a range, is compared by itself.
        times = max(1, len(operation.rexpr.list.items))
        self.effort.spend("A comparison", costs.READING, [sizes[0].times(times), sizes[1]])
        if operation.kind in _BETWEENS:
            return VALUE
        name = self._operator(operation.name)
        if name != "-" or not any(size.is_number for size in sizes):
            self.effort.spend(name, costs.OPERATORS[name], sizes)
        if operation.kind in _OF_ANY and name not in _EQUALITIES:  # each member is compared with all that stands left
            self.effort.spend("ANY", costs.BY_MEMBER, sizes)
        if operation.kind == pb.AEXPR_SIMILAR or name in grammar.MATCHES:
            pattern = operation.rexpr
            if operation.kind == pb.AEXPR_SIMILAR:  # its pattern stands in a call of its own
                pattern = pattern.func_call.args[0] if pattern.func_call.args else pb.Node()
            check_pattern(pattern)
        size = size_of_operation(operation.kind, name, sizes)
        return self.effort.build(size) if name == "||" else size

    def _operator(self, parts: Iterable[pb.Node]) -> str:
        names = [part.string.sval for part in parts]
        if len(names) != 1 or names[0] not in grammar.OPERATORS:
            shown = ".".join(names)[:60]
            raise ToolRefused(
                "unsupported_syntax",
                f"The operator {shown} is not supported here; write the condition another way, with LIKE or ILIKE for "
                "patterns.",
            )
        return str(names[0])

    def _cast(self, cast: pb.TypeCast, scope: Scope) -> Size:
        self.fields(cast)
        size = self.node(cast.arg, scope)
        name, limit = self._type(cast.type_name)
        self.effort.spend("A cast", costs.READING_JSON if name in ("json", "jsonb") else costs.READING, [size])
        made = size_of_cast(cast, name, limit, size)
        is_padded = name == "bpchar" and limit and not cast.type_name.array_bounds
        return self.effort.build(made) if is_padded or made.fixed > size.fixed else made

    def _type(self, kind: pb.TypeName) -> tuple[str, int]:
        """Returns a type's name and the length that it declares, if any."""
        self.fields(kind)
        names = [part.string.sval for part in kind.names]
        for node in kind.typmods:
            self.message(node.a_const, _NOWHERE)
        lengths = [whole_number(node) for node in kind.typmods]
        if names[:-1] not in ([], ["pg_catalog"]) or names[-1] not in grammar.TYPES or None in lengths:
            shown = ".".join(names)[:60]
            raise ToolRefused("cast_refused", f"The type {shown} is not supported here; use a plain type such as text.")
        return names[-1], (lengths[0] or 0) if lengths and names[-1] != "interval" else 0

    def _subquery(self, link: pb.SubLink, scope: Scope) -> Size:
        self.fields(link)
        self._plan.hold()
        test = self.node(link.testexpr, scope)
        tested = list(self._parts)
        found = self._read_query(link.subselect.select_stmt, scope, scope.frame)
        columns, rows = found.columns, found.rows
        first = columns[0].size if columns else VALUE
        is_value = link.sub_link_type in (pb.EXPR_SUBLINK, pb.ARRAY_SUBLINK)
        if is_value:
            origin = any_of([column.origin for column in columns[:1]])
            is_counted = link.sub_link_type == pb.EXPR_SUBLINK or found.rows_read
            self._takes(origin if is_counted or not origin.is_read else Origin.MIXED)
        else:
            is_found = found.of_tables or any(origin.is_read for origin in tested)
            self._takes(Origin.READ if is_found else Origin.STATED)
        if link.oper_name:
            name = self._operator(link.oper_name)
            if name in grammar.MATCHES:
                check_pattern(pb.Node())
            self.effort.spend(name, costs.OPERATORS[name], [test, first])
        if link.sub_link_type == pb.ARRAY_SUBLINK:
            return self.effort.build(collected("array_agg", [first], rows))
        return first if link.sub_link_type == pb.EXPR_SUBLINK else VALUE

    def _constant(self, constant: pb.A_Const, _scope: Scope) -> Size:
        self.fields(constant)
        return size_of_constant(constant)

    def _value_function(self, function: pb.SQLValueFunction, _scope: Scope) -> Size:
        self.fields(function)
        if function.op not in grammar.VALUE_FUNCTIONS:
            name = pb.SQLValueFunctionOp.Name(function.op).removeprefix("SVFOP_").lower()
            raise ToolRefused("function_refused", f"{name} may not be called here; the caller is known already.")
        return VALUE

    def _order(self, order: pb.SortBy, scope: Scope) -> Size:
        self.fields(order)
        if order.sortby_dir not in grammar.SORT_DIRECTIONS:
            raise syntax_refused("SortBy", "use_op")
        return self.node(order.node, scope)

    def _named(self, argument: pb.NamedArgExpr, scope: Scope) -> Size:
        self.fields(argument)
        if not _PLAIN_NAME.fullmatch(argument.name):  # the deparser does not quote it
            raise ToolRefused("unsupported_syntax", f"{argument.name[:63]!r} is no name of an argument.")
        return self.node(argument.arg, scope)

    def _collation(self, clause: pb.CollateClause, scope: Scope) -> Size:
        self.fields(clause)
        if len(clause.collname) > 1:
            raise ToolRefused("unsupported_syntax", "Name the collation without a schema.")
        return self.node(clause.arg, scope)

    def _together(self, listed: pb.RowExpr | pb.A_ArrayExpr, scope: Scope) -> Size:
        self.fields(listed)
        elements = listed.args if isinstance(listed, pb.RowExpr) else listed.elements
        return self.effort.build(together(self.nodes(elements, scope)))

    def _case(self, case: pb.CaseExpr, scope: Scope) -> Size:
        self.fields(case)
        subject = self.node(case.arg, scope)
        self.effort.spend("CASE", costs.READING, [subject.times(len(case.args))])
        results = [self._when(branch.case_when, scope) for branch in case.args]
        return longest([*results, self.node(case.defresult, scope)])

    def _when(self, when: pb.CaseWhen, scope: Scope) -> Size:
        self.fields(when)
        self.node(when.expr, scope)
        return self.node(when.result, scope)

    def _greatest(self, greatest: pb.MinMaxExpr, scope: Scope) -> Size:
        self.fields(greatest)
        sizes = self.nodes(greatest.args, scope)
        self.effort.spend("GREATEST", costs.READING, sizes)
        return longest(sizes)

    def _element(self, element: pb.A_Indirection, scope: Scope) -> Size:
        self.fields(element)
        of = element.arg.column_ref.fields
        if len(of) == len(element.indirection) == 1 and element.indirection[0].WhichOneof("node") == "string":
            self.fields(element.arg.column_ref)
            if of[0].WhichOneof("node") == "string" and scope.column(of[0].string.sval) is None:  # (row).column
                return self._column(pb.ColumnRef(fields=[*of, *element.indirection]), scope)
        for step in element.indirection:
            if step.WhichOneof("node") != "a_indices":
                raise ToolRefused("unsupported_syntax", "(…).name is supported of tables only; write table.column.")
            self.message(step.a_indices, scope)
        size = self.node(element.arg, scope)
        self.effort.spend("An element", costs.READING, [size])
        return size

    def _refuse_query(self, _select: pb.SelectStmt, _scope: Scope) -> Size:
        raise syntax_refused("SelectStmt")


def _copies(operation: pb.A_Expr) -> tuple[int, int]:
    """Returns how often Postgres writes the operands of one operator that it writes as several."""
    if operation.kind == pb.AEXPR_IN:  # x = a OR x = b, for what is no literal
        return max(sum(not is_literal(item) for item in operation.rexpr.list.items), 1), 1
    if operation.kind in _BETWEENS:  # x >= a AND x <= b; both ways where a and b may be in either order
        return (2, 1) if operation.kind in (pb.AEXPR_BETWEEN, pb.AEXPR_NOT_BETWEEN) else (4, 2)
    return 1, 1


_PLAIN_NAME: Final = re.compile(r"[a-z_]+")
_NOWHERE: Final = Scope((), None, None)
_BETWEENS: Final = frozenset({pb.AEXPR_BETWEEN, pb.AEXPR_NOT_BETWEEN, pb.AEXPR_BETWEEN_SYM, pb.AEXPR_NOT_BETWEEN_SYM})
_OF_ANY: Final = frozenset({pb.AEXPR_OP_ANY, pb.AEXPR_OP_ALL})
# Values of different lengths are not read to be found different.
_EQUALITIES: Final = frozenset({"=", "<>", "!="})
