"""Explains wrong values of kinds with a form of their own: durations, sizes, partition fields, table names, Iceberg
types.

In: the kind that the schema names as `x-floe-kind`, and a value that is not of it. Out: a code, what is wrong, a guess
and a remedy. Only the schema decides whether a value is right; this module only explains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from framework.config.names.metadata import NAMES, PREFIX
from framework.config.names.patterns import NOT_ONE, unfit
from framework.config.spec import EvolveMode
from framework.config.tree import ScalarValue
from framework.config.units import COLUMN, partition_field, quoted, unsaid, without_needless_quotes
from framework.config.values.envelopes import ENVELOPES
from framework.config.values.evolution import EVOLVE_SHORTHANDS
from framework.config.values.transforms import TRANSFORMS
from framework.config.values.type_text import structure
from framework.diagnose.suggest import listed, nearest

ICEBERG_TYPES = (
    "boolean", "int", "long", "float", "double", "decimal(10, 2)", "date", "time",
    "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "fixed[16]",
)  # fmt: skip
_TYPE_WORDS = {
    "bool": "boolean", "integer": "int", "bigint": "long", "smallint": "int", "number": "double", "real": "float",
    "varchar": "string", "text": "string", "str": "string", "datetime": "timestamptz", "timestamp_tz": "timestamptz",
    "timestamp_ltz": "timestamptz", "timestamp_ntz": "timestamp", "decimal": "decimal(10, 2)", "numeric": "decimal(10, 2)",
    "bytes": "binary", "blob": "binary", "fixed": "fixed[16]",
}  # fmt: skip


@dataclass(frozen=True)
class RefusedValue:
    code: str
    message: str
    remedy: str
    hint: str | None = None


def show(value: ScalarValue) -> str:
    """A value as it would be written, cut to a length that fits a line."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


def _duration(value: ScalarValue) -> RefusedValue:
    remedy = "write a whole number and a unit (ms, s, m, h or d), such as `90s`"
    if isinstance(value, int) and not isinstance(value, bool):
        return RefusedValue("FLOE-C205", f"{show(value)} has no unit", remedy, f"did you mean `{value}s`?")
    text = str(value)
    if re.match(r"0+(ms|s|m|h|d)\Z", text):
        return RefusedValue("FLOE-C205", f"{show(value)} is not a length of time", "write at least `1ms`")
    clock = re.match(r"(\d{1,3}):(\d\d)\Z", text)
    if clock:
        return RefusedValue(
            "FLOE-C205",
            f"{show(value)} is not a duration",
            remedy,
            f"did you mean `{int(clock[1]) * 60 + int(clock[2])}s`?",
        )
    fraction = re.match(r"(\d{1,6}\.\d{1,3})(s|m|h|d)\Z", text)
    if fraction:
        milliseconds = round(float(fraction[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[fraction[2]] * 1000)
        whole = f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
        return RefusedValue("FLOE-C205", f"{show(value)} is not a whole number", remedy, f"did you mean `{whole}`?")
    words = re.match(r"(\d+) *([A-Za-z]+)\Z", text)
    unit = _unit(words[2]) if words else None
    hint = f"did you mean `{int(words[1])}{unit}`?" if words and unit and int(words[1]) > 0 else None
    return RefusedValue("FLOE-C205", f"{show(value)} is not a duration", remedy, hint)


def _unit(word: str) -> str | None:
    word = word.lower()
    for unit, names in (("ms", "ms msec msecs millis milliseconds millisecond"), ("s", "s sec secs second seconds"),
                        ("m", "m min mins minute minutes"), ("h", "h hr hrs hour hours"), ("d", "d day days")):  # fmt: skip
        if word in names.split():
            return unit
    return None


def _size(value: ScalarValue) -> RefusedValue:
    remedy = "write bytes, or a whole number and a unit (KiB, MiB, GiB, TiB, kB, MB, GB, TB), such as `512MiB`"
    match = re.match(r"([1-9]\d*) *([kmgtKMGT])(?:i?[bB]?)\Z", str(value))
    hint = f"did you mean `{match[1]}{'K' if match[2] in 'kK' else match[2].upper()}iB`?" if match else None
    return RefusedValue("FLOE-C206", f"{show(value)} is not a size", remedy, hint)


def _partition(value: ScalarValue) -> RefusedValue:
    text = str(value)
    call = re.match(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*\Z", text)
    if call is None:
        return RefusedValue(
            "FLOE-C208",
            f"{show(value)} is not a partition field",
            "write a column, or a transform such as `day(ordered_at)` or `bucket(16, id)`",
        )
    name, inner = call[1], call[2].strip()
    if name not in TRANSFORMS:
        names = tuple(TRANSFORMS)
        guess = nearest(name, names)
        hint = f"did you mean `{guess}({inner})`?" if guess else None
        return RefusedValue(
            "FLOE-C208",
            f"there is no partition transform `{name}`",
            f"use {', '.join(names[:-1])} or {names[-1]}",
            hint,
        )
    if meaning := TRANSFORMS[name].counts:
        return RefusedValue(
            "FLOE-C208",
            f"`{name}` needs a number, {meaning}, and a column",
            f"write `{name}(16, column)`, with a number from 1 to 999,999,999",
        )
    column = quoted(inner) or "column"
    return RefusedValue("FLOE-C208", f"`{name}` takes one column and nothing else", f'write "{name}({column})"')


def _sort(value: ScalarValue) -> RefusedValue:
    text = str(value)
    words = re.match(r"(.+?)(?i:(?<! )( +)(asc|desc)(?:ending)?)?(?i:(?<! ) +nulls? +(first|last))?\Z", text)
    if words and partition_field(words[1]) and (words[3] or words[4]):
        guess = (
            words[1] + (f" {words[3].lower()}" if words[3] else "") + (f" nulls {words[4].lower()}" if words[4] else "")
        )
        return RefusedValue(
            "FLOE-C208",
            f"{show(value)} is not a sort field",
            "write `column`, `column desc` or `column asc nulls last`",
            f"did you mean `{guess}`?",
        )
    if re.match(r"\s*[A-Za-z_]+\s*\(.*\)\s*\Z", text):
        return _partition(value)
    return RefusedValue(
        "FLOE-C208",
        f"{show(value)} is not a sort field",
        "write a column or a transform, then `asc` or `desc`, then `nulls first` or `nulls last`: `ordered_at desc nulls last`",
    )


def _iceberg_type(value: ScalarValue) -> RefusedValue:
    text = str(value)
    if re.match(r"(variant|geo|unknown)", text):
        remedy = "declare `string`, which keeps any value as its JSON text"
        return RefusedValue("FLOE-C501", f"the type {show(value)} cannot be declared for a field", remedy)
    if nested := re.match(r" *(list|map|struct|array)\b *", text, re.I):
        return nested_type(text, nested[1])
    if re.match(r"decimal\s*\(", text):
        remedy = "write `decimal(p, s)` with a precision of 1 to 38 and a scale of 0 to 38"
        return RefusedValue("FLOE-C214", f"{show(value)} is not a valid Iceberg decimal", remedy)
    word = text.split("(")[0].strip().lower()
    guess = _TYPE_WORDS.get(word) or nearest(text, ICEBERG_TYPES)
    remedy = f"use an Iceberg type: {', '.join(ICEBERG_TYPES)}"
    return RefusedValue(
        "FLOE-C214",
        f"{show(value)} is not an Iceberg type",
        remedy,
        f"did you mean `{guess}`?" if guess and guess != text else None,
    )


def nested_type(text: str, word: str = "") -> RefusedValue:
    """What is wrong with the text of a list, map or struct."""
    kind = {"array": "list"}.get(word.lower(), word.lower())
    try:
        structure(text)
        reason = "write types in lower case, without line breaks"
    except ValueError as error:
        reason = str(error)
    if kind and kind != word:
        reason = f"it is called `{kind}`"
    return RefusedValue(
        "FLOE-C214",
        f"{show(text)} is not an Iceberg type: {reason}",
        "write `list<double>`, `map<string, long>` or `struct<name: string, at: timestamptz>`, nested as needed",
        f"did you mean `{kind}{text.strip()[len(word) :]}`?" if kind and kind != word else None,
    )


def _evolution(value: ScalarValue) -> RefusedValue:
    word = str(value)
    guess = nearest(word, EVOLVE_SHORTHANDS)
    known = word in {mode.value for mode in EvolveMode}
    remedy = "use `exception`, `evolve`, `try_evolve`, `lenient` or `ignore`, or a mapping with a word for each aspect"
    said = "is a word for one aspect of a table, not for all" if known else "is not a word for how tables may change"
    return RefusedValue("FLOE-C204", f"{show(value)} {said}", remedy, f"did you mean `{guess}`?" if guess else None)


def _write_order(value: ScalarValue) -> RefusedValue:
    return RefusedValue(
        "FLOE-C204",
        f"{show(value)} is not an order of records",
        "use `source`, or `{field: COLUMN}` where the larger value is newer",
        f"did you mean `{{field: {value}}}`?" if re.fullmatch(COLUMN, str(value)) else None,
    )


def _delete_when(value: ScalarValue) -> RefusedValue:
    guess = nearest(str(value), ("tombstone", "tombstones", "null", "deleted"))
    return RefusedValue(
        "FLOE-C204",
        f"{show(value)} does not say which records delete",
        "use `tombstone`, or `{field: op, equals: d}`",
        "did you mean `tombstone`?" if guess else None,
    )


def glob_of(template: str) -> str:
    """`shop.{kind}` as the pattern `shop.*`, in quotes where YAML wants them."""
    glob = re.sub(r"\{[^{}]*\}", "*", template)
    return f'"{glob}"' if "*" in glob else glob


def _table(value: ScalarValue) -> RefusedValue:
    text = str(value)
    if "{" in text:
        return RefusedValue(
            "FLOE-C212", f"{show(value)} is not the name of one table", "write it without `{}`, as `namespace.name`"
        )
    return _table_template(value)


_NAMESPACE_REMEDY = (
    "begin with a literal namespace, such as `events.{type}`, or with a part of the topic: "
    '`when: {topic: "^(?P<db>[^.]+)"}, table: "{topic.db}.events"`'
)


def _table_template(value: ScalarValue) -> RefusedValue:
    text = str(value)
    remedy = "write `namespace.name`, with letters, digits, `_` and `-`"
    catalog, colon, name = text.partition(":")
    if colon and re.fullmatch(r"[A-Za-z0-9_-]+", catalog) and "." in name:
        return RefusedValue(
            "FLOE-C212",
            f"{show(value)} names a catalog, but a table's catalog follows from its name",
            f"write `{name}`, and say `tables: {{overrides: [{{match: {glob_of(name)}, catalog: {catalog}}}]}}`",
        )
    if text.startswith("{"):
        return RefusedValue(
            "FLOE-C403",
            f"{show(value)} lets a record choose any namespace",
            _NAMESPACE_REMEDY,
        )
    if "." not in text:
        return RefusedValue("FLOE-C212", f"{show(value)} has no namespace", remedy)
    if text.count("{") != text.count("}"):
        return RefusedValue("FLOE-C212", f"a brace is not closed in {show(value)}", "write `{field}`")
    if "{" in text.split(".")[0]:
        return RefusedValue(
            "FLOE-C403",
            f"{show(value)} lets a record choose the namespace",
            _NAMESPACE_REMEDY,
        )
    return RefusedValue("FLOE-C212", f"{show(value)} is not a table name", remedy)


def _glob(value: ScalarValue) -> RefusedValue:
    catalog, colon, name = str(value).partition(":")
    if colon and "." in name:
        return RefusedValue(
            "FLOE-C209",
            f"{show(value)} is not a pattern for names: a table's catalog follows from its name",
            f'write `{name}`; `tables.overrides` says the catalog: `{{match: "{name}", catalog: {catalog}}}`',
        )
    return RefusedValue(
        "FLOE-C209",
        f"{show(value)} is not a pattern for names",
        "use letters, digits, `_`, `-`, `.`, and the wildcards `*` and `?`",
    )


def _name(value: ScalarValue) -> RefusedValue:
    return RefusedValue(
        "FLOE-C209",
        f"{show(value)} is not a name",
        "use up to 100 letters, digits, `_` and `-`, beginning with a letter or digit",
    )


def _topic(value: ScalarValue) -> RefusedValue:
    remedy = "use letters, digits, `.`, `_` and `-`"
    if re.search(r"[\^$*+?()\[\]|\\]", str(value)):
        remedy = "for a regular expression use `topic_pattern`"
    return RefusedValue("FLOE-C209", f"{show(value)} is not the name of a Kafka topic", remedy)


def _column(value: ScalarValue) -> RefusedValue:
    # `$.a` is how others write `a`.
    if not str(value).startswith("$.") and (way := quoted(str(value))) is not None:
        message = f"{show(value)} is the name of a field only in quotes"
        return RefusedValue("FLOE-C209", message, f"write {json.dumps(way, ensure_ascii=False)}")
    return RefusedValue(
        "FLOE-C209",
        f"{show(value)} is not the name of a field",
        "write `field`, or `outer.inner` for a field inside another",
    )


def _regex(value: ScalarValue) -> RefusedValue:
    if value == "":
        return RefusedValue("FLOE-C207", "the regular expression is empty", "write at least one character")
    found = unfit(str(value))
    if found is None:
        return RefusedValue("FLOE-C207", f"{show(value)} is not a regular expression", "write one as text")
    if found.code == NOT_ONE and "too large" in found.reason:
        return RefusedValue(found.code, f"{show(value)} is too large for a regular expression", found.remedy)
    what = "is not a regular expression" if found.code == NOT_ONE else "is a regular expression that floe does not run"
    meant = f".{value}" if isinstance(value, str) and value[:1] in ("*", "?") and unfit(f".{value}") is None else None
    hint = f"did you mean `{meant}`?" if meant else None
    return RefusedValue(found.code, f"{show(value)} {what}: {found.reason}", found.remedy, hint)


def _integer(value: ScalarValue) -> RefusedValue:
    digits = str(value).replace("_", "").replace(",", "")
    hint = f"did you mean `{digits}`?" if isinstance(value, str) and digits.isdecimal() and digits.isascii() else None
    return RefusedValue("FLOE-C203", f"a whole number is expected here, not {show(value)}", "write only digits", hint)


def _number(value: ScalarValue) -> RefusedValue:
    return RefusedValue("FLOE-C203", f"a number is expected here, not {show(value)}", "write a number, such as `0.01`")


def _percent(value: ScalarValue) -> RefusedValue:
    text = str(value).replace(" ", "")
    hint = f"did you mean `{text}%`?" if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", text) and float(text) >= 1 else None
    return RefusedValue(
        "FLOE-C203",
        f"a percentage is expected here, not {show(value)}",
        "write a number and `%`, such as `99.5%`",
        hint,
    )


def _boolean(value: ScalarValue) -> RefusedValue:
    text = str(value).lower()
    guess = (
        "true"
        if text in ("yes", "on", "y", "1")
        else "false"
        if text in ("no", "off", "n", "0")
        else nearest(text, ("true", "false"))
    )
    return RefusedValue(
        "FLOE-C203",
        f"`true` or `false` is expected here, not {show(value)}",
        "write `true` or `false`",
        f"did you mean `{guess}`?" if guess else None,
    )


def _metadata(value: ScalarValue) -> RefusedValue:
    guess = nearest(str(value).removeprefix(PREFIX), NAMES)
    return RefusedValue(
        "FLOE-C204",
        f"{show(value)} is not one of Kafka's fields",
        f"use {listed(NAMES)}, or `header.NAME` for one header",
        f"did you mean `{guess}`?" if guess else None,
    )


def _envelope_field(value: ScalarValue) -> RefusedValue:
    names = ("ts_us", "ts_ns", "transaction", "source")
    guess = nearest(str(value), names)
    return RefusedValue(
        "FLOE-C204",
        f"{show(value)} is not a field of Debezium's envelope that can be kept",
        f"use {listed(names)}, or `source.NAME` for one field of it; `op` and `ts_ms` are always kept",
        f"did you mean `{guess}`?" if guess else None,
    )


def _envelope(value: ScalarValue) -> RefusedValue:
    words = ("none", "debezium", "connect", *ENVELOPES)
    guess = nearest(str(value), words)
    return RefusedValue(
        "FLOE-C204",
        f"{show(value)} is not one of the values of `source.format.envelope`",
        f"use {listed(words)}, or describe it: `{{operation: type, after: data}}`",
        f"did you mean `{guess}`?" if guess else None,
    )


def _line(value: ScalarValue) -> RefusedValue:
    return RefusedValue(
        "FLOE-C203",
        f"{show(value)} is not one line of at most 200 characters",
        "write a short text, such as `team-orders`, in quotes where YAML reads it as a number",
    )


def _link(value: ScalarValue) -> RefusedValue:
    return RefusedValue(
        "FLOE-C209",
        f"{show(value)} is not the address of a page",
        "write it whole, such as `https://wiki.example.com/orders`",
    )


def _array_path(value: ScalarValue) -> RefusedValue:
    meant = re.sub(r"^\$\.|\[\*?\]\Z", "", str(value))
    hint = f"did you mean `{meant}`?" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", meant) else None
    return RefusedValue(
        "FLOE-C209",
        f"{show(value)} is not the path of an array",
        "write `$` where the record is the array, `$lines` where it is lines, or `data.items` for one inside the record",
        hint,
    )


def unsaid_name(value: str) -> RefusedValue | None:
    """Why a text that names fields is wrong for a quoted name in it, which no file can say or which needs no quotes; None
    where that is not what is wrong."""
    if (why := unsaid(value)) is None:
        plain = without_needless_quotes(value)
        needless = f"{show(value)} has backquotes around a name of letters, digits, `_` and `-`, which needs none"
        return RefusedValue("FLOE-C209", needless, f"write `{plain}`") if plain != value else None
    remedy = (
        "take it out: the field's values land as they come, in a column of that name; a view can give it another one"
    )
    return RefusedValue("FLOE-C209", f"{show(value)} holds {why}, which no file can say", remedy)


# What names fields, and may have them in quotes.
_OF_FIELDS = (
    "partition",
    "sort",
    "table-template",
    "column",
    "array-path",
    "write-order",
    "delete-when",
    "envelope-field",
)


def explained(kind: str, value: ScalarValue) -> RefusedValue:
    """What is wrong with a value that is not of its kind."""
    found = unsaid_name(value) if isinstance(value, str) and kind in _OF_FIELDS else None
    return found or EXPLAINERS[kind](value)


EXPLAINERS: dict[str, Callable[[ScalarValue], RefusedValue]] = {
    "evolution": _evolution,
    "write-order": _write_order,
    "delete-when": _delete_when,
    "duration": _duration,
    "duration-or-auto": _duration,
    "size": _size,
    "partition": _partition,
    "sort": _sort,
    "iceberg-type": _iceberg_type,
    "table": _table,
    "table-template": _table_template,
    "glob": _glob,
    "name": _name,
    "topic": _topic,
    "column": _column,
    "regex": _regex,
    "integer": _integer,
    "number": _number,
    "percent": _percent,
    "boolean": _boolean,
    "metadata": _metadata,
    "envelope-field": _envelope_field,
    "array-path": _array_path,
    "envelope": _envelope,
    "line": _line,
    "link": _link,
}
