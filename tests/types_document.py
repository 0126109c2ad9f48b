"""docs/types.md, made from the table the tests use. `python -m tests.types_document` writes it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

from tests.type_cases import CASES, TypeCase

DOCUMENT = Path(__file__).parent.parent / "docs" / "types.md"
MATRIX = Path(__file__).parent / "unit" / "record" / "type_matrix.golden"

HEAD = """# Types and values

This page shows what happens to a JSON value in a column of each Iceberg type. A value is converted exactly (to the nearest value
for `float` and `double`), or its record is an error with the code shown. Nothing is cut, rounded or defaulted. Every line of
these tables is a test, in columns and record by record.

- Numbers and booleans written as text are read like real ones, unless they would lose something: `"007"`, `"+49"` and `"1e3"`
  are codes, and errors in a number column (`float` and `double` accept exponents). With `values.text_as_number: refuse`, no text is
  accepted. A `string` column accepts numbers, booleans, objects and arrays as their JSON text.
- A whole number that a `double` would change, such as `9007199254740993`, is an error (FLOE-D303), unless the field is declared
  `double`: then it becomes the nearest double.
- `[]`, `{}` and values that contain nothing else, such as `[null]`, are null in a column of another kind, and also if there is no
  column yet. They are errors if `evolve.data_type` refuses values that do not fit, as in these tables, and with
  `values.empty: refuse`. Where null is forbidden, they are values that do not fit.
- Both settings apply everywhere: to columns from formats with a schema, and to what `transform.sql` reads, where they come from
  `tables.defaults`.
- A number in a `date`, `time` or timestamp column needs a declared `unit` (`d`, `s`, `ms`, `us`, `ns`). In a timestamp column a
  number written as text is read by the same rules as in a number column. `"20240104"` is an error there: it is a count or a date.
- `%f` in a `format` takes one to nine digits. Those that the column cannot hold must be zeros.
- A `timestamptz` needs a time zone, in the text or declared. A `timestamp` has none, so text with a zone is refused unless a
  declared `zone` says whose local time to keep. A local time that occurs twice or never in a zone is refused.
- Text is ISO 8601 (calendar, ordinal and week dates, basic or extended), or has the declared `format`. If the format is itself an
  ISO form, every ISO form is accepted. Digits beyond the column's unit must be zeros, or are cut off
  where the field says `on_extra_precision: truncate`. Where a format has numbers that touch
  (`%H%M%S`), each has all its digits. A weekday must be that of the date.
- `binary` and `fixed[n]` are base64 with padding, or hexadecimal with `format: hex`.
- A decimal with `format: base64` is the Base64 of the bytes of its digits without the point, as Kafka Connect and Debezium write
  decimals into JSON; the column's scale says where the point is. With `envelope: debezium` and no `format`, text that may be
  digits or Base64 (`"1234"`) is an error: declare `format: base64`, or `digits`.
- Dates and timestamps are in the years 1 to 9999, those in nanoseconds in 1677 to 2262; others are out of range.
- Lists, structs and maps convert element by element; JSON objects become structs or maps, as the table says.
  Records with a map inside a struct or list, a map whose keys are not text, or a rule that looks into a map are converted
  one by one, more slowly.
- Fields that a record lacks are null. Keys that differ only in case are one field under `case: insensitive`. A record that has
  two of them is an error (FLOE-D306), as is one that has the same key twice (FLOE-D103).

## Types of new columns

A field without a declared type gets `boolean`, `double` or `string`; objects become structs, arrays become lists. Text stays
`string`, even if it looks like a time: declare it.

Declare what arrays and objects become with `list<double>`, `map<string, long>` and `struct<name: string, at: timestamptz>`, nested
as needed. An object becomes a map only if you declare it. Fields that a declared struct does not name become new columns like any
others. `format`, `unit` and `zone` apply to the values in lists and maps; for a field of a struct, give them under its own path:
`items: "list<struct<at: timestamptz>>"` beside `items.at: {type: timestamptz, zone: UTC}`. A struct's field name that is more than a
word needs backquotes.

Null, empty objects and empty lists add no column until a value comes. If values are of different kinds, the first kind wins. It
makes no difference where a batch ends.

**Whole numbers become `double`**, since JSON cannot tell a count from a measurement that happens to be whole. Of 48 such fields in
the data sets of vega, 18 get fractions later, half of them after a whole number, and a column cannot change from `long` to
`double`. A double holds every whole number up to 9,007,199,254,740,992. The exceptions:

- A declared type, always: `store_id: long` under `source.schema`. `floe init --from-file` and `--from-topic` propose `long` for
  fields that are whole in every record they see.
- `values: {whole_numbers: long}` for tables whose producers write fractions as fractions.
- Fields that `create.identifier_fields` or `create.partition_by` name: a float cannot identify rows or go into buckets.
- A field whose first value is a whole number that a double cannot hold: `long`, or `decimal(38, 0)` beyond 64 bits.

## Names

A column is called as its field, unless Spark or Iceberg's Java library could then not read the table: for names that Iceberg keeps
(`_file`), those of partition fields (`ts_day`), empty ones, and those that are one in files (`a.b`, `a_x2Eb`). Such a field's column
has an underscore more: `_file_`, `ts_day_`, `_`. `evolve.names` says so, or leaves the value out, or makes the record an error; see
[names that no column can have](concepts.md#names-that-no-column-can-have).

A column whose values stand in a table's partitions (`partition_by: [hash]`) is never `fixed`: Iceberg's Java library cannot read them
there (FLOE-T115). Its `bucket` is a number. Of whole numbers and decimals that partitions truncate, the few least have no partition and
are errors (FLOE-D302).

## Wider values

If `evolve.data_type` is `widen` (the default) and a value fits a wider type that Iceberg can promote to, the column is widened
instead: `int` to `long`, `float` to `double`, a decimal to more digits of the same scale.

## What only format version 3 has

New tables have format version 2 unless `create.properties` says `format-version: "3"`. An existing table keeps its own version,
and the following depends on that. Version 3 gives every row an id: `_row_id` and `_last_updated_sequence_number`, for engines that
support them. Nothing that version 3 adds is silently rounded or dropped:

| version 3 | in floe |
|---|---|
| `timestamp_ns`, `timestamptz_ns` | exact, from 1677-09-21 to 2262-04-11; other times are errors (FLOE-D302). They come from a declared type and from formats with nanoseconds. In a table of an older version the same column has microseconds, and a time with nanoseconds is an error (FLOE-D303). Partition tables by their year, month, day, hour or bucket, not by the timestamp itself, which PyIceberg could not read. Spark 4.1 cannot read a table that has such a column |
| `initial-default` of a column | read by every reader for files from before the column came |
| `write-default` of a column | not used: a value that a record lacks is null, and an error if the column is required (FLOE-D305), since otherwise a value that was never sent would look like one that was. Other writers' rows keep theirs |
| `variant`, `unknown`, `geometry`, `geography` | a table that has such a column is refused (FLOE-R131), and none can be declared; a `string` column accepts objects and arrays as their JSON text |
| deletion vectors | those of other writers stay in effect; floe writes them for [upsert tables](concepts.md#upsert-tables), and elsewhere only adds rows |
| encrypted tables | refused (FLOE-R131) |
"""  # noqa: E501 (a row of a table is one line)


def render() -> str:
    """The document's text."""
    parts = [HEAD]
    for kind in dict.fromkeys(case.type for case in CASES):
        parts += [f"\n## {kind}\n", "| JSON value | declared | result |", "|---|---|---|"]
        parts += [
            f"| {_code(case.json)} | {_declared(case)} | {_result(case)} |" for case in CASES if case.type == kind
        ]
    return "\n".join([*parts, *_matrix()]) + "\n"


def _matrix() -> list[str]:
    """Every kind of value in every type, undeclared; errors by the last digits of their code."""
    cells = [line.split(" | ") for line in MATRIX.read_text(encoding="utf-8").splitlines()]
    kinds = list(dict.fromkeys(kind for kind, _, _ in cells))
    found = {(kind, value): result for kind, value, result in cells}
    parts = [
        "\n## Every kind of value in every type\n",
        "Without a declared format, zone or unit. Dnnn is the error FLOE-Dnnn.",
        "",
    ]
    parts += [f"| JSON value | {' | '.join(kinds)} |", f"|---{'|---' * len(kinds)}|"]
    for value in dict.fromkeys(value for _, value, _ in cells):
        results = [found[kind, value].strip("'").removeprefix("FLOE-") for kind in kinds]
        parts.append(
            f"| {_code(value)} | {' | '.join(r if r[:1] == 'D' and r[1:].isdigit() else _code(r) for r in results)} |"
        )
    return parts


def _declared(case: TypeCase) -> str:
    settings = (("format", case.format), ("zone", case.zone), ("unit", case.unit))
    return ", ".join(f"{name}: {_code(value)}" for name, value in settings if value)


def _result(case: TypeCase) -> str:
    if case.is_error:
        return f"error {case.result}"
    value = case.result
    if isinstance(value, int) and not isinstance(value, bool):
        if case.type == "date":
            value = date(1970, 1, 1) + timedelta(days=value)
        elif case.type == "time":
            value = (datetime(1970, 1, 1) + timedelta(microseconds=value)).time()
        elif case.type.startswith("timestamp") and value >= 0:
            value = _moment(case.type, value)
    return _code("null" if value is None else repr(value) if isinstance(value, (str, bytes)) else str(value))


def _moment(kind: str, value: int) -> str:
    per_second = 1_000_000_000 if kind.endswith("_ns") else 1_000_000
    seconds, rest = divmod(value, per_second)
    text = (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat(" ")
    fraction = f".{rest:0{len(str(per_second)) - 1}d}" if rest else ""
    return text + fraction + (" UTC" if "tz" in kind else "")


def _code(text: object) -> str:
    return f"`{str(text).replace('|', chr(92) + '|')}`"


if __name__ == "__main__":
    DOCUMENT.write_text(render(), encoding="utf-8")
