"""The check of queries: what stands in FROM and WITH, what each part of a SELECT sees, and which tables are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused
from services.sql_executor import grammar
from services.sql_executor.catalog import Catalog
from services.sql_executor.columns import GROWN, cte_relation, either, function_columns, recursive_size
from services.sql_executor.expressions import Expressions
from services.sql_executor.fences import fence_cte, fence_derived_table
from services.sql_executor.origins import Origin, any_of
from services.sql_executor.output_names import output_name
from services.sql_executor.plans import Plan, grouping_sets
from services.sql_executor.samples import check_sample, is_sample, table_in
from services.sql_executor.scopes import (
    Column,
    Columns,
    Cte,
    Equality,
    Frame,
    Relation,
    Result,
    Scope,
    Source,
    equal_columns,
    equalities,
    merged,
    rows_are_read,
    same_named,
)
from services.sql_executor.sizes import VALUE, Size, size_of_type, whole_number
from services.sql_executor.table_uses import Place, TableUse, places
from services.sql_executor.tables import check_cte_name, visible_table

_MAX_STORED_COLUMNS = 1000
_MAX_PASSES = 20


class Selects:
    """Checks the queries of one statement, and notes the tables they read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._plan = Plan()
        self._expressions = Expressions(catalog, self._plan, self.query)
        self.uses: list[TableUse] = []
        # Whether a table stands in what has been checked so far; one in a WITH query counts where that is read from.
        self.reads_tables = False
        self._passes = 0

    @property
    def parts(self) -> int:
        """The parts of the statement's plan that may each hold `work_mem`."""
        return self._plan.parts

    def statement(self, select: pb.SelectStmt) -> Columns:
        """Checks a whole statement; returns its columns. Raises ToolRefused."""
        columns = self.query(select, None, None).columns
        if sum(column.size.stored for column in columns) > _MAX_STORED_COLUMNS:
            raise ToolRefused("too_large", "The query has too many columns of text; name the columns you need.")
        return columns

    def query(
        self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None, *, of: Cte | None = None
    ) -> Result:
        """Checks a query; returns what is known of its result. `of` is the recursive WITH query that it is."""
        around, self._expressions.reads = self._expressions.reads, False
        self._expressions.fields(select)
        if select.HasField("with_clause"):
            frame = self._with(select.with_clause, outer, frame)
        if select.op != pb.SETOP_NONE:
            columns, rows, rows_read = self._set_operation(select, outer, frame, of)
            scope = Scope((), outer, frame, outputs={column.name for column in columns})
        elif select.values_lists:
            columns, rows = self._values(select, outer, frame)
            scope = Scope((), outer, frame, outputs={column.name for column in columns})
            rows_read = False
        else:
            columns, scope = self._select(select, outer, frame)
            rows, rows_read = 1, scope.rows_read
        self._sorted(select.sort_clause, scope)
        self._plan.hold(bool(select.sort_clause) + bool(select.distinct_clause))
        self._plan.hold(grouping_sets(select.group_clause) if select.group_clause else 0)
        for limit in (select.limit_offset, select.limit_count):
            self._expressions.node(limit, Scope((), outer, frame))
        count = whole_number(select.limit_count)
        of_tables, self._expressions.reads = self._expressions.reads, around
        rows *= scope.rows  # a set that it is sorted by makes more of them
        rows_read = rows_read and not scope.unfolds and not scope.regroups
        return Result(columns, rows if count is None or count < 0 else min(rows, count), of_tables, rows_read)

    def _select(self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None) -> tuple[Columns, Scope]:
        source = self._from(select, outer, frame)
        scope = Scope(source.relations, outer, frame, columns=source.columns, rows=source.rows)
        read = self._expressions
        read.reads |= scope.of_tables
        read.node(select.where_clause, scope)
        scope.is_aggregated = False
        scope.regroups = any(group.WhichOneof("node") == "grouping_set" for group in select.group_clause)
        columns = self._targets(select.target_list, scope)
        scope.outputs = {column.name for column in columns}
        read.node(select.having_clause, scope)
        self._grouped(select.group_clause, scope)
        for each in select.distinct_clause:
            self._sorted([each], scope)
        read.nodes(select.window_clause, scope)
        self._plan.hold(len(select.window_clause))
        if scope.unfolds and select.group_clause:  # a group has as many rows as each of them was unfolded to
            columns = [column._replace(origin=Origin.STATED) for column in columns]
        if scope.is_aggregated and not select.group_clause and not scope.unfolds:
            scope.rows = 1
        return columns, scope

    def _targets(self, targets: Iterable[pb.Node], scope: Scope) -> Columns:
        columns: list[Column] = []
        for target in targets:
            found = self._target(target.res_target, scope)
            self._plan.list_columns(len(found), width=len(columns) + len(found))
            columns += found
        return columns

    def _target(self, target: pb.ResTarget, scope: Scope) -> Columns:
        self._expressions.fields(target)
        if target.val.WhichOneof("node") == "column_ref" and (
            target.val.column_ref.fields[-1].WhichOneof("node") == "a_star"
        ):
            return self._star(target.val.column_ref, scope)
        size, origin = self._expressions.value(target.val, scope)
        return [Column(target.name or output_name(target.val, self._first_name), size, origin)]

    def _first_name(self, select: pb.SelectStmt) -> str:
        while select.op != pb.SETOP_NONE:
            select = select.larg
        if select.values_lists:
            return "column1"
        target = select.target_list[0].res_target if select.target_list else pb.ResTarget()
        if target.name or target.val.column_ref.fields[-1:] != [pb.Node(a_star=pb.A_Star())]:
            return target.name or output_name(target.val, self._first_name)
        return "?column?"

    def _star(self, reference: pb.ColumnRef, scope: Scope) -> Columns:
        self._expressions.fields(reference)
        names = [part.string.sval for part in reference.fields[:-1]]
        if not names:
            return scope.columns
        self._plan.step(scope.breadth / 4)
        relation = scope.relation(names[-1], names[0] if len(names) == 2 else "") if len(names) < 3 else None
        if relation is None:
            raise ToolRefused("unknown_table", f"{'.'.join(names)[:100]}.* names no table or alias here.")
        return relation.columns

    def _grouped(self, groups: Sequence[pb.Node], scope: Scope) -> None:
        for group in groups:
            if group.WhichOneof("node") == "grouping_set":
                self._expressions.fields(group.grouping_set)
                self._grouped(group.grouping_set.content, scope)
            elif not self._is_output(group, scope, first=False):
                self._expressions.node(group, scope)

    def _sorted(self, orders: Iterable[pb.Node], scope: Scope) -> None:
        for order in orders:
            inner = order.sort_by.node if order.WhichOneof("node") == "sort_by" else order
            if not self._is_output(inner, scope, first=True):
                self._expressions.node(order, scope)
            elif inner is not order:
                self._expressions.fields(order.sort_by)

    def _is_output(self, node: pb.Node, scope: Scope, *, first: bool) -> bool:
        """Whether a plain name means an output column: before a column of FROM in ORDER BY, after it in GROUP BY."""
        if node.WhichOneof("node") != "column_ref" or len(node.column_ref.fields) != 1:
            return False
        name = node.column_ref.fields[0].string.sval
        is_output = name in scope.outputs and (first or scope.column(name) is None)
        if is_output:
            self._expressions.fields(node.column_ref)
        return is_output

    def _values(self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None) -> tuple[Columns, float]:
        scope = Scope((), outer, frame)
        rows = [
            [Column("", *self._expressions.value(item, scope)) for item in row.list.items]
            for row in select.values_lists
        ]
        widest = max(len(row) for row in rows)
        self._plan.list_columns(sum(map(len, rows)), width=widest)
        columns = [
            merged(f"column{place + 1}", [row[place] for row in rows if place < len(row)]) for place in range(widest)
        ]
        return columns, len(rows)

    def _set_operation(
        self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None, of: Cte | None
    ) -> tuple[Columns, float, bool]:
        self._plan.hold(not select.all)
        first = self.query(select.larg, outer, frame)
        self._expressions.reads |= first.of_tables
        if of is not None:
            self._plan.hold(2)
            return (*self._recursion(select, outer, frame, of, first), False)
        second = self.query(select.rarg, outer, frame)
        self._expressions.reads |= second.of_tables
        self._plan.list_columns(len(first.columns))
        columns = [
            either(column, second.columns[place : place + 1], select.op) for place, column in enumerate(first.columns)
        ]
        rows_read = first.rows_read and (second.rows_read or select.op != pb.SETOP_UNION)
        return columns, first.rows + second.rows, rows_read

    def _recursion(
        self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None, of: Cte, begun: Result
    ) -> tuple[Columns, float]:
        """Checks the part of a recursive query that reads what was made before.

        A column that begins as a number is taken to stay one, and is read again as a text when it does not; so is one
        that begins as read from a table.
        """
        first = begun.columns
        texts = {place for place, column in enumerate(first) if column.size != VALUE}
        origins = [column.origin for column in first]
        while True:
            self._passes += 1
            if self._passes > _MAX_PASSES:
                raise ToolRefused("too_deep", "The query has too many recursive CTEs in one another.")
            uses, built, mark = len(self.uses), self._expressions.effort.built, self._plan.mark()
            self._plan.list_columns(2 * len(first))
            before = [
                Column(column.name, Size(recursive=1) if place in texts else VALUE, origins[place])
                for place, column in enumerate(first)
            ]
            of.relation = cte_relation(of.node, Result(before, math.inf, begun.of_tables))
            second = self.query(select.rarg, outer, frame)
            self._expressions.reads |= second.of_tables
            after = [column.size for column in second.columns] + [VALUE] * len(first)
            grown = {place for place in range(len(first)) if place not in texts and not after[place].is_value}
            then = [column.origin for column in second.columns]
            found = [any_of([origin, *then[place : place + 1]]) for place, origin in enumerate(origins)]
            if not grown and found == origins:
                break
            texts |= grown
            origins = found
            del self.uses[uses:]
            self._expressions.effort.built = built
            self._plan.go_back(mark)
        columns = [
            Column(
                column.name,
                recursive_size(column.name, column.size, after[place]),
                origins[place],
            )
            for place, column in enumerate(first)
        ]
        return columns, math.inf

    def _with(self, clause: pb.WithClause, outer: Scope | None, frame: Frame | None) -> Frame:
        self._expressions.fields(clause)
        inner = Frame({}, frame)
        ctes = [Cte(node.common_table_expr, inner, outer) for node in clause.ctes]
        for cte in ctes:
            self._expressions.fields(cte.node)
            check_cte_name(cte.node.ctename, self._catalog)
        if clause.recursive:
            inner.ctes.update((cte.node.ctename, cte) for cte in ctes)
        for cte in ctes:
            self._cte(cte, is_recursive=clause.recursive)
            inner.ctes[cte.node.ctename] = cte
        return inner

    def _cte(self, cte: Cte, *, is_recursive: bool = True) -> Relation:
        if cte.relation is not None:
            return cte.relation
        query = cte.node.ctequery
        if query.WhichOneof("node") != "select_stmt":
            raise ToolRefused("write_refused", "Only reading is possible here, in CTEs too; nothing can be changed.")
        if cte.is_being_read:
            raise ToolRefused("unsupported_syntax", f"The CTE {cte.node.ctename!r} reads itself outside of a UNION.")
        cte.is_being_read = True
        recursive = cte if is_recursive and query.select_stmt.op == pb.SETOP_UNION else None
        around, self.reads_tables = self.reads_tables, False
        self._plan.hold()
        result = self.query(query.select_stmt, cte.outer, cte.frame, of=recursive)
        fence_cte(cte.node)
        cte.reads_tables, self.reads_tables = self.reads_tables, around
        cte.relation = cte_relation(cte.node, result._replace(columns=[*result.columns, *self._search_columns(cte)]))
        return cte.relation

    def _search_columns(self, cte: Cte) -> Columns:
        names = []
        for part in ("search_clause", "cycle_clause"):
            if cte.node.HasField(part):
                self._expressions.message(getattr(cte.node, part), Scope((), None, None))
        if cte.node.HasField("search_clause"):
            names.append(cte.node.search_clause.search_seq_column)
        if cte.node.HasField("cycle_clause"):
            names += [cte.node.cycle_clause.cycle_mark_column, cte.node.cycle_clause.cycle_path_column]
        return [Column(name, Size(GROWN)) for name in names]

    def _from(self, select: pb.SelectStmt, outer: Scope | None, frame: Frame | None) -> Source:
        source = Source([], [], 1, frozenset())
        equal = list(equalities(select.where_clause)) if len(select.from_clause) > 1 else []
        for node in select.from_clause:
            part = self._source(node, source, outer, frame, Place(select))
            source = self._joined(source, part, equal) if source.relations else part
        return source

    def _joined(self, left: Source, right: Source, equal: Sequence[Equality], names: Sequence[str] = ()) -> Source:
        """Joins two sources; `names` are the columns that they share."""
        self._plan.hold()
        self._plan.list_columns(len(left.columns) + len(right.columns))
        self._plan.step((len(equal) + len(names)) * (len(left.relations) + len(right.relations)) * 8)
        return left.joined(right, [*equal_columns(equal, left, right), *same_named(left, right, names)], names)

    def _source(self, node: pb.Node, before: Source, outer: Scope | None, frame: Frame | None, place: Place) -> Source:
        """Checks one part of FROM; `before` is what stands left of it, which only LATERAL and functions see."""
        kind = node.WhichOneof("node")
        if kind == "range_var":
            return Source.of(self._table(node, frame, place))
        if is_sample(node):
            sample = node.range_table_sample
            self._expressions.fields(sample)
            check_sample(node)
            for constant in (*sample.args, sample.repeatable):
                self._expressions.node(constant, Scope((), None, None))
            return Source.of(self._table(node, frame, place))
        if kind == "join_expr":
            return self._join(node.join_expr, before, outer, frame, place)
        lateral = Scope(before.relations, outer, frame, rows=before.rows)
        if kind == "range_subselect":
            self._expressions.fields(node.range_subselect)
            seen = lateral if node.range_subselect.lateral else outer
            result = self.query(node.range_subselect.subquery.select_stmt, seen, frame)
            fence_derived_table(node.range_subselect)
            self._plan.list_columns(len(result.columns))
            relation = Relation.of(result)
            return Source.of(relation.called(self._alias(node.range_subselect.alias)))
        if kind == "range_function":
            return Source.of(self._function(node.range_function, lateral))
        self._expressions.node(node, lateral)  # says what it is, and that it is not supported
        raise ToolRefused("unsupported_syntax", "This can't stand in FROM; use tables, subqueries and functions.")

    def _alias(self, alias: pb.Alias) -> pb.Alias:
        self._expressions.fields(alias)
        return alias

    def _table(self, node: pb.Node, frame: Frame | None, place: Place) -> Relation:
        named = table_in(node)
        if named.catalogname:
            raise ToolRefused("unknown_table", f"Name the table {named.relname!r} without a database.")
        self._expressions.fields(named)
        if not named.inh:
            raise ToolRefused("unsupported_syntax", "ONLY is not supported here; write the query without it.")
        cte = frame.find(named.relname) if frame is not None and not named.schemaname else None
        if cte is not None and is_sample(node):
            raise ToolRefused("unsupported_syntax", f"TABLESAMPLE is for tables, and {named.relname!r} is a query.")
        if cte is not None:
            found = self._cte(cte)
            self.reads_tables |= cte.reads_tables
            self._plan.list_columns(len(found.columns))
            relation = replace(found, name=named.relname)
        else:
            table = visible_table(named.schemaname, named.relname, self._catalog)
            self.uses.append(TableUse(table, node, place))
            self.reads_tables = True
            # The caller's filter is a subquery.
            self._plan.hold(self._catalog.rules[table].owned_by is not None)
            stored = self._catalog.columns[table]
            self._plan.list_columns(len(stored))
            columns = [Column(column.name, size_of_type(column.type), Origin.READ) for column in stored]
            unique = frozenset(column.name for column in stored if column.is_unique)
            rows = self._catalog.rows.get(table, 1000.0)
            relation = Relation(
                table.name, columns, schema=table.schema, rows=rows, unique=unique, of_tables=True, rows_read=True
            )
        return relation.called(self._alias(named.alias)) if named.HasField("alias") else relation

    def _function(self, ranged: pb.RangeFunction, scope: Scope) -> Relation:
        self._expressions.fields(ranged)
        call = ranged.functions[0].list.items[0]
        if len(ranged.functions) > 1 or call.WhichOneof("node") != "func_call":
            raise ToolRefused("unsupported_syntax", "This can't stand in FROM; use tables, subqueries and functions.")
        name = call.func_call.funcname[-1].string.sval
        if name in grammar.FUNCTIONS - grammar.SETS:  # the planner would put its value in the place of its name
            raise ToolRefused("unsupported_syntax", f"{name} makes no rows; in FROM write (SELECT {name}(…) AS x).")
        inner = Scope(scope.relations, scope.outer, scope.frame)
        self._plan.hold()
        size, origin = self._expressions.value(call, inner)
        alias = self._alias(ranged.alias) if ranged.HasField("alias") else pb.Alias(aliasname=name)
        columns = [column._replace(origin=origin) for column in function_columns(call.func_call, name, alias, size)]
        if ranged.ordinality:
            columns.append(Column("ordinality", VALUE))
        rows = inner.rows if name in grammar.FUNCTIONS else math.inf
        rows_read = origin is Origin.READ
        return Relation("", columns, rows=rows, of_tables=origin.is_read, rows_read=rows_read).called(alias)

    def _join(
        self, join: pb.JoinExpr, before: Source, outer: Scope | None, frame: Frame | None, place: Place
    ) -> Source:
        self._expressions.fields(join)
        if join.jointype not in grammar.JOINS:
            raise ToolRefused("unsupported_syntax", "Only INNER, LEFT, RIGHT, FULL and CROSS JOIN are supported.")
        left_place, right_place = places(join, place)
        left = self._source(join.larg, before, outer, frame, left_place)
        seen = Source([*before.relations, *left.relations], [], before.rows * left.rows, before.keys)
        right = self._source(join.rarg, seen, outer, frame, right_place)
        self._expressions.node(join.quals, Scope([*left.relations, *right.relations], outer, frame))
        names = [name.string.sval for name in join.using_clause]
        if join.is_natural:
            of_right = {column.name for column in right.columns}
            names = [column.name for column in left.columns if column.name in of_right]
        joined = self._joined(left, right, list(equalities(join.quals)), names)
        if not join.HasField("alias"):
            return joined
        of_tables = any(relation.of_tables for relation in joined.relations)
        relation = Relation(
            "",
            joined.columns,
            rows=joined.rows,
            of_tables=of_tables,
            rows_read=rows_are_read(joined.relations),
        )
        return Source.of(relation.called(self._alias(join.alias)))
