"""How long what `transform.sql` makes can be: lengths that are asked for are small literals, and nothing doubles.

In: Spark's unresolved plan. Out: nothing, or a sentence that says what may grow without end. Invariant: a value is at
most MOST_FACTOR times as long as the square of what goes into it, however often expressions and statements are nested; a
function for which nobody said how long its result can be is not allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_LENGTH = 10_000
MOST_FACTOR = 1_000.0
MOST_DEGREE = 2


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Numbers, truths, times and texts of at most some dozen characters.
FIXED = _words(
    """
    ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ abs acos acosh add_months and approx_top_k_estimate array_contains
    array_position array_size arrays_overlap ascii asin asinh atan atan2 atanh between bigint bin bit_count bit_get
    bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround cardinality cbrt ceil ceiling char
    char_length character_length chr collation contains conv convert_timezone cos cosh cot crc32 csc curdate current_date
    current_time current_timestamp date date_add date_diff date_from_unix_date date_part date_sub date_trunc dateadd
    datediff datepart day dayname dayofmonth dayofweek dayofyear decimal degrees div double e endswith equal_null exists
    exp expm1 extract factorial find_in_set float floor forall from_utc_timestamp getbit hash hll_sketch_estimate hour
    hypot ilike in instr int is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float last_day len length levenshtein like ln
    localtimestamp locate log log10 log1p log2 luhn_check make_date make_dt_interval make_interval make_time
    make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval map_contains_key md5 minute mod month monthname
    months_between negative next_day not now octet_length or pi pmod position positive pow power quarter radians regexp
    regexp_count regexp_instr regexp_like rint rlike round sec second sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned sign signum sin sinh size smallint soundex sqrt st_srid startswith tan tanh theta_sketch_estimate
    time time_diff time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_date to_number
    to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_add try_divide
    try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_subtract
    try_to_date try_to_number try_to_time try_to_timestamp typeof unix_date unix_micros unix_millis unix_seconds
    unix_timestamp weekday weekofyear width_bucket xxhash64 year zeroifnull nullifzero |
    ~
    """
)
# At most as long as the longest argument.
LONGEST = _words(
    """
    aes_decrypt array_compact array_distinct array_except array_intersect array_max array_min array_remove array_sort
    btrim case cast coalesce collate decode elt element_at filter flatten get greatest if ifnull lcase least left lower
    ltrim make_valid_utf8 map_filter map_from_entries map_keys map_values mask nanvl nullif nvl nvl2 regexp_extract
    regexp_substr reverse right rtrim slice sort_array split_part string substr substring substring_index translate trim
    try_aes_decrypt try_element_at try_parse_url try_url_decode try_validate_utf8 ucase unbase64 unhex upper url_decode
    validate_utf8 parse_url get_json_object initcap when
    """
)
# At most some fixed number of times as long as all arguments together.
TOGETHER = _words(
    """
    array array_append array_prepend array_union arrays_zip base64 binary concat date_format encode from_csv from_json
    from_unixtime hex hll_union json_object_keys kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
    kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
    kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
    kll_sketch_to_string_double kll_sketch_to_string_float map map_concat map_entries map_from_arrays named_struct overlay
    parse_json quote regexp_extract_all schema_of_csv schema_of_json schema_of_variant sentences split st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid str_to_map struct theta_difference theta_intersection theta_union to_binary
    to_char to_csv to_json to_varchar to_variant_object to_xml try_parse_json try_to_binary try_variant_get url_encode
    variant_get ||
    """
)
# As long as two arguments multiplied: one stands in the result once for each piece of the other.
MULTIPLIED = _words("array_join concat_ws regexp_replace replace")
# A body is in the result once for each element.
FOR_EACH = _words("map_zip_with transform transform_keys transform_values zip_with")
FOLDED = _words("aggregate reduce")
# Of a length that an argument says: which one. It is a literal.
ASKED = {"array_insert": 1, "format_number": 1, "format_string": 0, "lpad": 1, "printf": 0, "rpad": 1}
LENGTHS: dict[str, frozenset[str]] = {
    "fixed": FIXED,
    "longest": LONGEST,
    "together": TOGETHER,
    "multiplied": MULTIPLIED,
    "for each": FOR_EACH,
    "folded": FOLDED,
    "asked": frozenset(ASKED),
}
_FIXED_NODES = _words(
    """
    Add And Between BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CurrentDate CurrentTime CurrentTimestamp Divide
    EqualNullSafe EqualTo Extract GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull LessThan
    LessThanOrEqual Like LikeAll LikeAny LocalTimestamp MakeDTInterval MakeInterval MakeYMInterval Multiply Not NotLikeAll
    NotLikeAny Now Or RLike Remainder ShiftLeft ShiftRight ShiftRightUnsigned StringLocate Subtract TimestampAdd
    TimestampDiff UnaryMinus UnaryPositive
    """
)
_LONGEST_NODES = _words(
    "CaseWhen Cast Collate StringTrim StringTrimLeft StringTrimRight Substring UnresolvedExtractValue Alias UnresolvedAlias"
)


@dataclass(frozen=True)
class _Growth:
    """At most `factor` times what goes in, to the power of `degree`."""

    factor: float = 1.0
    degree: int = 1


# Columns whose name Spark makes, and fields that become columns.
_UNNAMED = ""


class _Endless(Exception):
    pass


def endless(parsed: Any) -> str | None:
    """Why a plan is refused for the length of what it makes, in words; None where it is not."""
    try:
        _columns(parsed)
    except _Endless as found:
        return str(found)
    return None


def _columns(plan: Any) -> dict[str, _Growth]:
    """How the columns of a plan may grow, by name in lower case; those that are not there are as the record has them."""
    below: dict[str, _Growth] = {}
    for child in _items(plan.children()):
        below |= _columns(child)
    made = dict(below)
    for expression in _items(plan.expressions()):
        growth = _growth(expression, made)
        if _class(expression) == "Alias":
            made[str(expression.name()).lower()] = growth
        elif _class(expression).startswith("UnresolvedStar"):
            made[_UNNAMED] = _longest(list(made.values()))  # fields of a struct become columns of any name
        elif _class(expression) == "UnresolvedAlias":
            made[_UNNAMED] = _longest([growth, made.get(_UNNAMED, growth)])
    return made


def _growth(expression: Any, known: Mapping[str, _Growth]) -> _Growth:
    growth = _grown(expression, known)
    if growth.factor > MOST_FACTOR or growth.degree > MOST_DEGREE:
        raise _Endless("it makes a value that may grow without end: it is put together from itself again and again")
    return growth


def _grown(expression: Any, known: Mapping[str, _Growth]) -> _Growth:
    name = _class(expression)
    children = list(_items(expression.children()))
    if name == "Literal":
        return _Growth(0.0, 0)
    if name in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
        parts = [str(part).lower() for part in _items(expression.nameParts())]
        named = [known[part] for part in parts if part in known]
        return _longest(named) if named else known.get(_UNNAMED, _Growth())
    if name == "LambdaFunction":
        return _growth(expression.function(), known)
    if name != "UnresolvedFunction":
        found = [_growth(child, known) for child in children]
        return _fixed() if name in _FIXED_NODES else _longest(found) if name in _LONGEST_NODES else _together(found)
    parts = list(_items(expression.nameParts()))
    function = str(parts[-1]).lower()
    if function in ASKED:
        _check_asked(function, children)
    if function in FOLDED:
        return _folded(function, children, known)
    if function in FOR_EACH:
        arrays = _together([_growth(child, known) for child in children if _class(child) != "LambdaFunction"])
        inner = dict(known)
        for child in children:
            inner |= {each: _Growth(1.0, 0) for each in _arguments(child)}
        body = _together([_growth(child, inner) for child in children if _class(child) == "LambdaFunction"])
        return _Growth(max(arrays.factor, 1.0) * max(body.factor, 1.0), arrays.degree + body.degree)
    inner = dict(known)
    for child in children:
        inner |= {each: _Growth() for each in _arguments(child)}
    found = [_growth(child, inner) for child in children]
    if function in FIXED:
        return _fixed()
    if function in MULTIPLIED:
        return _multiplied(function, children, found)
    return _longest(found) if function in LONGEST else _together(found)


def _multiplied(function: str, children: list[Any], found: list[_Growth]) -> _Growth:
    """`replace(text, search, by)`, or `array_join(array, between)` and `concat_ws(between, ...)`."""
    if function == "concat_ws":
        between, pieces, searched = children[:1], found[1:], 1
    elif function == "array_join":
        between, pieces, searched = children[1:], found[:1], 1
    else:
        between, pieces = children[2:3], found[:1]
        searched = max(1, len(_text(children[1]) or "")) if function == "replace" and len(children) > 1 else 1
    whole = _together(pieces)
    texts = [_text(each) for each in between]
    if all(text is not None for text in texts):
        longest = max((len(text or "") for text in texts), default=0)
        grown = max(1.0, longest / searched) if function in ("replace", "regexp_replace") else 1.0 + longest
        # A long text may be put in once; what does that again is as long as two multiplied.
        return _Growth(whole.factor * (grown if grown > MOST_LENGTH else min(grown, MOST_FACTOR)), whole.degree)
    by = _together(found)
    return _Growth(max(1.0, by.factor), 2 * max(1, by.degree))


def _folded(function: str, children: list[Any], known: Mapping[str, _Growth]) -> _Growth:
    """What is kept from element to element stands in the next one at most once."""
    given = [_growth(child, known) for child in children[:2]]
    merge = children[2] if len(children) > 2 else None
    if merge is None or _class(merge) != "LambdaFunction":
        return _together(given)
    names = _arguments(merge)
    kept, rest = names[:1], dict.fromkeys(names[1:], _Growth(1.0, 0))
    without = _growth(merge, {**known, **rest, **dict.fromkeys(kept, _Growth(0.0, 0))})
    once = _growth(merge, {**known, **rest, **dict.fromkeys(kept, _Growth(1.0, 0))})
    if once.factor - without.factor > 1.0 or once.degree > without.degree:
        raise _Endless(f"{function}() may double what it keeps with each element, so that it grows without end")
    step = _Growth(max(1.0, once.factor), given[0].degree + once.degree)
    finish = children[3:]
    inner = {**known, **{each: step for child in finish for each in _arguments(child)}}
    if finish:
        return _together([_growth(child, inner) for child in finish])
    return _together([step, *given])


def _check_asked(function: str, children: list[Any]) -> None:
    place = ASKED[function]
    if place >= len(children):
        return
    text = _text(children[place])
    if text is None:
        raise _Endless(f"the length in {function}() must be a literal, so that no record can ask for a huge value")
    numbers = [int(each) for each in re.findall(r"\d{1,18}", text)]
    if sum(numbers) > MOST_LENGTH or len(text) > MOST_LENGTH:
        raise _Endless(f"{function}() makes a value that is longer than {MOST_LENGTH:,} characters")


def _fixed() -> _Growth:
    return _Growth(0.0, 0)


def _longest(found: list[_Growth]) -> _Growth:
    return _Growth(max((g.factor for g in found), default=0.0), max((g.degree for g in found), default=0))


def _together(found: list[_Growth]) -> _Growth:
    return _Growth(sum(g.factor for g in found), max((g.degree for g in found), default=0))


def _arguments(expression: Any) -> list[str]:
    if _class(expression) != "LambdaFunction":
        return []
    return [".".join(map(str, _items(each.nameParts()))).lower() for each in _items(expression.arguments())]


def _text(expression: Any) -> str | None:
    """Of a literal, also a negative one; None where it is none."""
    while _class(expression) in ("UnaryMinus", "UnaryPositive"):
        [expression] = list(_items(expression.children()))
    if _class(expression) != "Literal":
        return None
    value = expression.value()
    return "" if value is None else str(value.toString() if hasattr(value, "toString") else value)


def _items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _class(value: Any) -> str:
    return str(value.getClass().getSimpleName()).removesuffix("$")
