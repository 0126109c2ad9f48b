"""What `transform.sql` may contain: listed functions, relations and expressions, as Spark's own parser reads them.

In: the text. Out: nothing, or an error that names what is refused. This check comes before Spark analyses the text,
since the analysis itself already opens files and resolves functions. Invariant: a pipeline file reads the rows of
`source`, one by one, and nothing else; it cannot reach code, files, the session or other records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.adapters.spark.sql_lengths import endless
from framework.adapters.spark.sql_patterns import refused_pattern


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED = _words(
    """
    ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ abs acos acosh add_months aes_decrypt aggregate and
    approx_top_k_estimate array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove array_size array_sort
    array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh base64 between bigint bin binary bit_count
    bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim cardinality case cast
    cbrt ceil ceiling char char_length character_length chr coalesce collate collation concat concat_ws contains conv
    convert_timezone cos cosh cot crc32 csc curdate current_date current_time current_timestamp date date_add date_diff
    date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
    dayofweek dayofyear decimal decode degrees div double e element_at elt encode endswith equal_null exists exp expm1
    extract factorial filter find_in_set flatten float floor forall format_number format_string from_csv from_json
    from_unixtime from_utc_timestamp get get_json_object getbit greatest hash hex hll_sketch_estimate hll_union hour
    hypot if ifnull ilike in initcap instr int is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length
    json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
    kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float last_day lcase least left len length levenshtein like ln localtimestamp locate log log10
    log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname
    months_between named_struct nanvl negative next_day not now nullif nullifzero nvl nvl2 octet_length or overlay
    parse_json parse_url pi pmod position positive pow power printf quarter quote radians reduce regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr replace reverse right rint
    rlike round rpad rtrim schema_of_csv schema_of_json schema_of_variant sec second sentences sha sha1 sha2 shiftleft
    shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex split split_part sqrt
    st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map string struct substr substring
    substring_index tan tanh theta_difference theta_intersection theta_sketch_estimate theta_union time time_diff
    time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary to_char to_csv to_date
    to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
    to_varchar to_variant_object to_xml transform transform_keys transform_values translate trim trunc try_add
    try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date
    try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_get typeof ucase unbase64
    unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode validate_utf8
    variant_get weekday weekofyear when width_bucket xxhash64 year zeroifnull zip_with | || ~
    """
)
REFUSED = {
    name: why
    for why, names in {
        "it calls code of the JVM": """
        java_method reflect try_reflect
        """,
        "it depends on the session and the machine, not on the record": """
        collations current_catalog current_database current_schema current_timezone current_user input_file_block_length
        input_file_block_start input_file_name python_worker_logs session_user sql_keywords user version
        """,
        "it may read files": """
        from_avro from_protobuf from_xml schema_of_avro schema_of_xml to_avro to_protobuf xpath xpath_boolean xpath_double
        xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
        """,
        "it gives a different value each time": """
        aes_encrypt monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
        """,
        "it stops the pipeline at a record": """
        assert_true raise_error
        """,
        "a small number makes a huge value": """
        array_repeat range repeat sequence space
        """,
        "it needs more than one row": """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
        array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list
        collect_set corr count count_if count_min_sketch covar_pop covar_samp cume_dist dense_rank every explode
        explode_outer first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg inline
        inline_outer json_tuple kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
        kll_sketch_agg_double kll_sketch_agg_float kurtosis lag last last_value lead listagg max max_by mean median min
        min_by mode nth_value ntile percent_rank percentile percentile_approx percentile_cont percentile_disc posexplode
        posexplode_outer rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
        row_number schema_of_variant_agg session_window skewness some stack std stddev stddev_pop stddev_samp string_agg sum
        theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum var_pop var_samp variance variant_explode
        variant_explode_outer window window_time
        """,
    }.items()
    for name in _words(names)
}
# Names that Spark reads as functions where no column has them.
_WITHOUT_PARENTHESES = _words(
    "current_catalog current_database current_schema current_user session_user user grouping__id"
)
_NODES = _words("Project Filter SubqueryAlias UnresolvedRelation")
# What the parser makes of operators, of CASE, of casts, and of functions that have a syntax of their own.
_EXPRESSIONS = _words(
    """
    Add Alias And Between BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Collate Concat CreateNamedStruct
    CreateStruct CurrentDate CurrentTime CurrentTimestamp Divide EqualNullSafe EqualTo Extract GreaterThan GreaterThanOrEqual
    ILike In IntegralDivide IsNotNull IsNull LambdaFunction LessThan LessThanOrEqual Like LikeAll LikeAny Literal LocalTimestamp
    MakeDTInterval MakeInterval MakeYMInterval Multiply Not NotLikeAll NotLikeAny Now Or Overlay RLike Remainder ShiftLeft
    ShiftRight ShiftRightUnsigned StringLocate StringTrim StringTrimLeft StringTrimRight Substring Subtract TimestampAdd
    TimestampDiff UnaryMinus UnaryPositive UnresolvedAlias UnresolvedAttribute UnresolvedCollation UnresolvedExtractValue
    UnresolvedFunction UnresolvedNamedLambdaVariable UnresolvedStar UnresolvedStarExceptOrReplace
    """
)
SOURCE = "source"


def refusal(parsed: Any, columns: frozenset[str]) -> str | None:
    """Why a parsed text is refused, in words; None where it is not.

    Args:
        parsed: Spark's unresolved plan.
        columns: the names of the columns of `source`, in lower case.
    """
    try:
        return _first_refusal(parsed, columns) or endless(parsed)
    except RecursionError:
        return "it is nested too deeply"


def _first_refusal(parsed: Any, columns: frozenset[str]) -> str | None:
    for node in _nodes(parsed):
        name = _class(node)
        if name not in _NODES:
            return f"it may only project and filter rows of `source`, but it uses {name}"
        if name == "UnresolvedRelation" and (table := _dotted(node.multipartIdentifier())).lower() != SOURCE:
            return f"it may read `source` alone, but it names {table}"
        for expression in _inside(items(node.expressions())):
            if (why := _refused(expression, columns)) is not None:
                return why
    return None


def _refused(expression: Any, columns: frozenset[str]) -> str | None:
    name = _class(expression)
    if name not in _EXPRESSIONS:
        return f"it may only work on the columns of one row, but it uses {name}"
    if name == "UnresolvedAttribute":
        column = _dotted(expression.nameParts()).lower()
        return f"it may not ask for {column}" if column in _WITHOUT_PARENTHESES - columns else None
    if name == "UnresolvedFunction":
        function = _dotted(expression.nameParts()).lower()
        if function not in ALLOWED:
            why = REFUSED.get(function, "it is not on the list of allowed functions")
            return f"it may not call {function}(): {why}"
    return refused_pattern(name, expression)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _nodes(child)


def _inside(expressions: Iterator[Any]) -> Iterator[Any]:
    for expression in expressions:
        yield expression
        yield from _inside(items(expression.children()))


def items(sequence: Any) -> Iterator[Any]:
    """What a sequence of Scala's holds."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _dotted(parts: Any) -> str:
    return ".".join(map(str, items(parts)))


def _class(value: Any) -> str:
    return str(value.getClass().getSimpleName()).removesuffix("$")
