"""What each function and operator that a query may use costs, by the lengths of what it is given: the one list of them.

Some never look at the time limit or at a cancel request while they work on one value. What is not here is refused; what
the policy allows beside it is classed by the types of its arguments (`sql/costs.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple


class Kind(Enum):
    """How the work on one row grows."""

    # Whatever the lengths: no argument has any.
    CONSTANT = auto()
    # Reads each argument from one end to the other.
    LINEAR = auto()
    # Looks for what is in one argument in the other as well.
    PRODUCT = auto()
    # Multiplies digits by digits.
    DIGITS = auto()


class Cost(NamedTuple):
    """What a function costs: for each character that it reads, and for each pair of them, beside comparing one."""

    kind: Kind
    reading: int = 25
    step: int = 1


READING: Final = Cost(Kind.LINEAR)
READING_JSON: Final = Cost(Kind.LINEAR, 80)
_MATCHING: Final = Cost(Kind.LINEAR, 120)
SEARCHING: Final = Cost(Kind.PRODUCT, 80, 16)
# Comparing a value with each member of an array.
BY_MEMBER: Final = Cost(Kind.PRODUCT)
_CONTAINING: Final = Cost(Kind.PRODUCT, 80, 8)
_MULTIPLYING: Final = Cost(Kind.DIGITS)


def _all(words: str, cost: Cost) -> dict[str, Cost]:
    return dict.fromkeys(words.split(), cost)


FUNCTIONS: Final[Mapping[str, Cost]] = {
    **_all("""
        acos age asin atan atan2 bool_and bool_or chr clock_timestamp corr cos cosh covar_pop covar_samp cume_dist
        date_bin degrees dense_rank every gen_random_uuid isfinite justify_days justify_hours justify_interval make_date
        make_interval make_time make_timestamp now ntile overlaps percent_rank pi radians rank regr_avgx regr_avgy
        regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number sin sinh statement_timestamp
        tan tanh transaction_timestamp
    """, Cost(Kind.CONSTANT)),
    **_all("""
        abs any_value array_agg array_append array_cat array_length array_lower array_ndims array_position array_prepend
        array_remove array_replace array_to_string array_upper ascii bit_and bit_length bit_or cardinality ceil ceiling
        char_length character_length concat concat_ws count date_add date_part date_subtract date_trunc extract
        first_value floor format generate_series generate_subscripts initcap lag last_value lead left length like_escape
        lower lpad make_timestamptz max md5 min min_scale mode nth_value num_nonnulls num_nulls octet_length overlay
        percentile_cont percentile_disc quote_literal quote_nullable random repeat reverse right round rpad scale sign
        similar_to_escape starts_with string_agg substr substring sum timezone to_char trim_array trim_scale trunc
        unnest upper
    """, READING),
    **_all("""
        array_to_json json_agg json_agg_strict json_array_elements json_array_elements_text json_array_length
        json_build_array json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
        json_object_agg json_object_keys json_strip_nulls json_typeof jsonb_agg jsonb_agg_strict jsonb_array_elements
        jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
        jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object_agg jsonb_object_keys
        jsonb_path_query_first jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof row_to_json to_json to_jsonb
    """, READING_JSON),
    **_all("""
        regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
        regexp_split_to_table regexp_substr
    """, _MATCHING),
    **_all("position replace split_part string_to_array string_to_table strpos", Cost(Kind.PRODUCT)),
    **_all("to_date to_number to_timestamp", Cost(Kind.PRODUCT, step=4)),
    **_all("btrim ltrim rtrim", Cost(Kind.PRODUCT, step=6)),
    **_all("translate", Cost(Kind.PRODUCT, step=12)),
    **_all("""
        avg cbrt div exp gcd lcm ln log log10 mod power sqrt stddev stddev_pop stddev_samp var_pop var_samp variance
        width_bucket
    """, _MULTIPLYING),
}  # fmt: skip
OPERATORS: Final[Mapping[str, Cost]] = {
    **_all("= <> != < > <= >= + || @ ^@", READING),
    **_all("-> ->> #> #>> ? #-", READING_JSON),
    **_all("~ !~ ~* !~*", _MATCHING),
    **_all("~~ !~~ ~~* !~~*", Cost(Kind.PRODUCT)),
    **_all("@> <@ &&", _CONTAINING),
    # of JSON; `-` of numbers and times only reads them
    **_all("?| ?& -", SEARCHING),
    **_all("* / % ^ |/ ||/", _MULTIPLYING),
}


def derived_cost(long: int, collections: int) -> Cost:
    """Returns the cost of what has so many arguments with a length, and so many collections among them."""
    if collections > 1:
        return SEARCHING
    return READING if long else Cost(Kind.CONSTANT)
