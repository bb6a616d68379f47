"""What a query may be made of: an allow-list of syntax, of functions and of types. What is not here is refused."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

# Syntax that is no function. Names of classes are sqlglot's.
NODES: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.With, exp.CTE, exp.RecursiveWithSearch,
        exp.From, exp.Join, exp.Lateral, exp.Table, exp.TableAlias, exp.Values, exp.Where, exp.Group, exp.Having,
        exp.Order, exp.Ordered, exp.Limit, exp.LimitOptions, exp.Fetch, exp.Offset, exp.Distinct, exp.Cube, exp.Rollup,
        exp.GroupingSets, exp.Window, exp.WindowSpec, exp.WithinGroup, exp.Filter, exp.Alias, exp.Column,
        exp.Identifier, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Var, exp.Interval,
        exp.DataType, exp.DataTypeParam, exp.AtTimeZone, exp.Between, exp.Bracket, exp.Slice, exp.In, exp.Is, exp.Like,
        exp.ILike, exp.Escape, exp.Not, exp.Neg, exp.All, exp.Any, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv,
        exp.Mod, exp.DPipe, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ,
        exp.Overlaps, exp.Kwarg, exp.JSONPath, exp.JSONPathKey, exp.JSONPathRoot, exp.JSONPathSubscript,
        exp.PropertyEQ, exp.IntervalSpan,
    }
)  # fmt: skip

# Syntax that sqlglot counts among the functions.
SYNTAX_FUNCTIONS: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.And, exp.Or, exp.Case, exp.If, exp.Cast, exp.Exists, exp.Array, exp.Collate, exp.CurrentDate,
        exp.CurrentTimestamp, exp.Localtimestamp, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract,
        exp.JSONBExtractScalar, exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps, exp.Unnest,
    }
)  # fmt: skip

# Which parts these may have; anything else (locks, INTO, samples, hints) is refused.
_SELECT_PARTS = "with_ expressions distinct from_ where group having windows order limit offset joins laterals"
PARTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: frozenset(_SELECT_PARTS.split()),
    exp.SetOperation: frozenset({"with_", "this", "expression", "distinct", "order", "limit", "offset"}),
    exp.Subquery: frozenset({"this", "alias", "order", "limit", "offset", "joins", "with_"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "ordinality", "joins"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.Lateral: frozenset({"this", "alias", "ordinality"}),
}

WRITES: Final = (
    exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.TruncateTable, exp.Copy,
    exp.Into, exp.Returning,
)  # fmt: skip

_FUNCTION_NAMES = """
    count sum avg min max every bool_and bool_or string_agg array_agg json_agg jsonb_agg json_object_agg
    jsonb_object_agg mode percentile_cont percentile_disc stddev stddev_pop stddev_samp variance var_pop var_samp corr
    covar_pop covar_samp regr_slope regr_intercept regr_r2 regr_count regr_avgx regr_avgy any_value grouping
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
    coalesce nullif greatest least
    abs ceil ceiling floor round trunc sign sqrt cbrt power exp ln log mod div gcd lcm width_bucket random pi degrees
    radians sin cos tan asin acos atan atan2
    lower upper initcap length char_length character_length octet_length trim btrim ltrim rtrim left right substring
    substr position strpos replace split_part concat concat_ws reverse starts_with translate overlay ascii md5
    string_to_array array_to_string array_length array_position array_append array_remove cardinality unnest
    date_trunc date_part date_bin extract age make_date make_time make_timestamp make_timestamptz make_interval to_char
    to_date to_timestamp to_number justify_days justify_hours justify_interval isfinite
    json_build_object jsonb_build_object json_build_array jsonb_build_array to_json to_jsonb json_array_length
    jsonb_array_length json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text
    json_typeof jsonb_typeof generate_series
"""
# Functions by the name that reaches the database. Left out on purpose: whatever sleeps, locks, reads settings, files,
# catalogs or the network, runs SQL held in a string, or can make a huge value or outlast the statement's time limit
# from a small one (regular expressions, XML, `repeat`, `lpad`, `format`).
FUNCTIONS: Final = frozenset(_FUNCTION_NAMES.split())

# Words that are functions without parentheses, or columns that every table has.
SPECIAL_NAMES: Final = frozenset(
    {"user", "current_user", "session_user", "system_user", "current_role", "current_catalog", "current_schema"}
)
SYSTEM_COLUMNS: Final = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"})

_T = exp.DataType.Type
TYPES: Final = frozenset(
    {
        _T.BOOLEAN, _T.SMALLINT, _T.INT, _T.BIGINT, _T.DECIMAL, _T.FLOAT, _T.DOUBLE, _T.TEXT, _T.VARCHAR, _T.CHAR,
        _T.BPCHAR, _T.DATE, _T.TIME, _T.TIMETZ, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPNTZ, _T.INTERVAL, _T.UUID,
        _T.JSON, _T.JSONB, _T.ARRAY,
    }
)  # fmt: skip
