"""What a query may be made of: an allow-list of syntax with its fields, of functions, operators and types.

Names of messages and fields are those of Postgres's parse tree. What is not here is refused.
"""

from __future__ import annotations

from typing import Final

from postgast import pg_query_pb2 as pb

from services.sql_executor import costs

# Each message with the fields that it may have; positions in the text are taken out before.
FIELDS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "SelectStmt": "distinct_clause target_list from_clause where_clause group_clause group_distinct having_clause "
        "window_clause values_lists sort_clause limit_offset limit_count limit_option with_clause op all larg rarg",
        "ResTarget": "name val",
        "ColumnRef": "fields",
        "A_Star": "",
        "String": "sval",
        "List": "items",
        "RangeVar": "schemaname relname inh relpersistence alias",
        "RangeSubselect": "lateral subquery alias",
        "RangeFunction": "lateral ordinality functions alias",
        "RangeTableSample": "relation method args repeatable",
        "JoinExpr": "jointype is_natural larg rarg using_clause quals alias",
        "Alias": "aliasname colnames",
        "WithClause": "ctes recursive",
        "CommonTableExpr": "ctename aliascolnames ctematerialized ctequery search_clause cycle_clause",
        "CTESearchClause": "search_col_list search_breadth_first search_seq_column",
        "CTECycleClause": "cycle_col_list cycle_mark_column cycle_mark_value cycle_mark_default cycle_path_column",
        "SortBy": "node sortby_dir sortby_nulls",
        "WindowDef": "name refname partition_clause order_clause frame_options start_offset end_offset",
        "GroupingSet": "kind content",
        "GroupingFunc": "args",
        "FuncCall": "funcname args agg_order agg_filter over agg_within_group agg_star agg_distinct funcformat",
        "NamedArgExpr": "arg name argnumber",
        "A_Const": "ival fval sval boolval isnull",
        "Integer": "ival",
        "Float": "fval",
        "Boolean": "boolval",
        "A_Expr": "kind name lexpr rexpr",
        "BoolExpr": "boolop args",
        "NullTest": "arg nulltesttype",
        "BooleanTest": "arg booltesttype",
        "CaseExpr": "arg args defresult",
        "CaseWhen": "expr result",
        "CoalesceExpr": "args",
        "MinMaxExpr": "op args",
        "SubLink": "sub_link_type testexpr oper_name subselect",
        "A_ArrayExpr": "elements",
        "RowExpr": "args row_format",
        "A_Indirection": "arg indirection",
        "A_Indices": "is_slice lidx uidx",
        "CollateClause": "arg collname",
        "TypeCast": "arg type_name",
        "TypeName": "names typmods typemod array_bounds",
        "SQLValueFunction": "op typmod",
    }.items()
}

WRITES: Final = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "IntoClause"})
SORT_DIRECTIONS: Final = frozenset({pb.SORTBY_DEFAULT, pb.SORTBY_ASC, pb.SORTBY_DESC})
JOINS: Final = frozenset({pb.JOIN_INNER, pb.JOIN_LEFT, pb.JOIN_FULL, pb.JOIN_RIGHT})
# Words that are calls without parentheses: what time it is. Who asks is not for the query to know.
VALUE_FUNCTIONS: Final = {
    pb.SVFOP_CURRENT_DATE: "current_date", pb.SVFOP_CURRENT_TIME: "current_time",
    pb.SVFOP_CURRENT_TIME_N: "current_time", pb.SVFOP_CURRENT_TIMESTAMP: "current_timestamp",
    pb.SVFOP_CURRENT_TIMESTAMP_N: "current_timestamp", pb.SVFOP_LOCALTIME: "localtime",
    pb.SVFOP_LOCALTIME_N: "localtime", pb.SVFOP_LOCALTIMESTAMP: "localtimestamp",
    pb.SVFOP_LOCALTIMESTAMP_N: "localtimestamp",
}  # fmt: skip

_NUMBERS = """
    count bool_and bool_or every stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp
    regr_slope regr_intercept regr_r2 regr_count regr_avgx regr_avgy regr_sxx regr_syy regr_sxy row_number rank
    dense_rank percent_rank cume_dist ntile bit_and bit_or ceil ceiling floor sign sqrt cbrt width_bucket random pi
    degrees radians sin cos tan asin acos atan atan2 sinh cosh tanh length char_length character_length octet_length
    bit_length position strpos starts_with ascii array_length array_position array_ndims array_lower array_upper
    cardinality date_trunc date_part date_bin extract age make_date make_time make_timestamp make_timestamptz
    make_interval to_date to_timestamp justify_days justify_hours justify_interval isfinite now timezone overlaps
    statement_timestamp transaction_timestamp clock_timestamp date_add date_subtract json_array_length
    jsonb_array_length json_typeof jsonb_typeof scale min_scale regexp_count regexp_instr regexp_like
    num_nulls num_nonnulls md5 chr gen_random_uuid
"""
_AGGREGATES = """
    string_agg array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg json_agg_strict jsonb_agg_strict
    count sum avg min max bool_and bool_or every stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop
    covar_samp mode percentile_cont percentile_disc any_value bit_and bit_or
"""
_SETS = """
    generate_series generate_subscripts unnest json_array_elements json_array_elements_text jsonb_array_elements
    jsonb_array_elements_text json_each json_each_text jsonb_each jsonb_each_text json_object_keys jsonb_object_keys
    regexp_matches regexp_split_to_table string_to_table
"""
# Functions by their names in pg_catalog. Left out on purpose: whatever sleeps, locks, reads settings, files, catalogs
# or the network, or runs SQL held in a string.
# Those whose value is a number or as short as one.
NUMBERS: Final = frozenset(_NUMBERS.split())
# Aggregates: a query with one and without GROUP BY has one row. The value of some grows with the number of rows.
AGGREGATES: Final = frozenset(_AGGREGATES.split())
COLLECTORS: Final = frozenset(_AGGREGATES.split()[:8])
# What counts rows, or numbers them: its value comes from them, whatever it is called with.
COUNTING: Final = frozenset(
    {"count", "sum", "regr_count", "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
)
FUNCTIONS: Final = frozenset(costs.FUNCTIONS)
SETS: Final = frozenset(_SETS.split())
# Columns of functions in FROM, by their own names.
FUNCTION_COLUMNS: Final = {
    **dict.fromkeys(["json_each", "jsonb_each", "json_each_text", "jsonb_each_text"], ("key", "value")),
    **dict.fromkeys(
        ["json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text"],
        ("value",),
    ),
}
# Functions that may take a whole row: they show the columns that the row's relation has here, and no others.
OF_ROWS: Final = frozenset({"row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg", "count"})
# Functions whose second argument is a regular expression.
REGULAR_EXPRESSIONS: Final = frozenset(name for name in FUNCTIONS if name.startswith("regexp_"))

COMPARISONS: Final = frozenset({"=", "<>", "!=", "<", ">", "<=", ">="})
LIKES: Final = frozenset({"~~", "!~~", "~~*", "!~~*"})
MATCHES: Final = frozenset({"~", "!~", "~*", "!~*"})
CONTAINMENTS: Final = frozenset({"@>", "<@", "&&"})
OPERATORS: Final = frozenset(costs.OPERATORS)

# Types by their names in pg_catalog.
NUMBER_TYPES: Final = frozenset({"int2", "int4", "int8", "float4", "float8", "bool", "smallint", "integer", "bigint"})
TIME_TYPES: Final = frozenset({"date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid"})
TEXT_TYPES: Final = frozenset({"text", "varchar", "bpchar", "json", "jsonb"})
TYPES: Final = NUMBER_TYPES | TIME_TYPES | TEXT_TYPES | {"numeric"}

# Columns that every table has, and that no query may read.
SYSTEM_COLUMNS: Final = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"})
