"""JSON objects as maps, many at once: Arrow's JSON reader knows structs only, of which every key would be a column.

In: framed records and a schema in which top-level fields may be maps with text keys. Out: parts whose tables have those
fields as Arrow maps, and the positions to be judged alone. What the compiled parser takes is done with it. Of the
others each object of such a field is taken out of the text before the parse and its number put in its place, under a
name that no record has; then the members of all objects are parsed as records of a key and a value, by the same reader,
so that a value in a map is read as it would be in a column. Keeps invariant 9: what is not surely an object with
different keys and values of the map's type is left to be judged alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints, Mask, no_rows, one_array
from framework.record.json.arrow import parse_framed, parse_left
from framework.record.json.compiled import most_odd, parse_plain
from framework.record.json.framing import JoinedRecords, ParsedRows, frame, only, record_starts, without
from framework.record.json.mixed_kinds import Leniency
from framework.record.value_buffer import JoinedValues

# Not a name that anybody gives a field; records that hold it nevertheless are judged alone.
_TAKEN = "floe.map:"
_DEPTH = 8
_SPACE = rb"[ \t\r]*"
_TEXT = rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'


def _balanced(opening: bytes, closing: bytes, depth: int) -> bytes:
    """Brackets that close, around text and further brackets; each part begins with a character of its own, so that no
    failure is tried twice."""
    plain = rb'[^"{}\[\]\n]*'
    inner = _TEXT if depth == 0 else _TEXT + rb"|" + _balanced(rb"[{\[]", rb"[}\]]", depth - 1)
    return opening + plain + rb"(?:(?:" + inner + rb")" + plain + rb")*" + closing


_OBJECT = _balanced(rb"\{", rb"\}", _DEPTH)
_VALUE = _TEXT + rb"|" + _balanced(rb"[{\[]", rb"[}\]]", _DEPTH - 1) + rb'|[^\s",\[\]{}:]+'
_MEMBER = re.compile(
    rb"[{,]" + _SPACE + rb"(" + _TEXT + rb")" + _SPACE + rb":" + _SPACE + rb"(" + _VALUE + rb")" + _SPACE + rb"(?=[,}])"
)
# Whole texts in turn, so that each is read once; also one that does not end, or each of its quotes would begin anew.
_ANY_TEXT = re.compile(rb"(" + _TEXT + rb"?)" + _SPACE + rb"(:?)")
_END = re.compile(rb"^\{?" + _SPACE + rb"\}$", re.MULTILINE)


def is_map(kind: pa.DataType | None) -> bool:
    """Whether a type, or one inside of it, is a map, which Arrow's reader does not take."""
    if kind is None:
        return False
    if pa.types.is_struct(kind):
        return any(is_map(child.type) for child in kind)
    return bool(pa.types.is_map(kind)) or (bool(pa.types.is_list(kind)) and is_map(kind.value_type))


def parse_with_maps(
    framed: JoinedRecords, schema: pa.Schema, leniency: Callable[[], Leniency], encode: bool = False
) -> tuple[list[ParsedRows], list[int]]:
    """As `parse_framed`, for a schema whose top-level fields may be maps; other fields are inferred.

    Args:
        leniency: is asked where the compiled parser leaves records.
        encode: text may be dictionaries (framework.record.rows.dictionary_text), in some parts and not in others.
    """
    records = len(framed.positions)
    if not records:
        return [], []
    plain = parse_plain(framed.data, records, schema, most_odd(records), encode)
    if plain is not None and not len(plain[1]):
        return [ParsedRows(framed.positions, plain[0])], []
    maps = {field.name: field.type for field in schema if pa.types.is_map(field.type)}
    if not maps:
        return parse_left(framed, plain, schema, True, leniency())
    if plain is None:
        return _by_their_text(framed, schema, maps, leniency())
    table, odd = plain
    parts = [ParsedRows(np.delete(framed.positions, odd), table)] if len(table) else []
    few, alone = _by_their_text(only(framed, record_starts(framed.data), odd), schema, maps, leniency())
    return [*parts, *few], alone


def _by_their_text(
    framed: JoinedRecords, schema: pa.Schema, maps: dict[str, pa.DataType], leniency: Leniency
) -> tuple[list[ParsedRows], list[int]]:
    """Each object of a field is taken out of the text, and their members are parsed for themselves."""
    if _TAKEN.encode() in framed.data:
        return [], framed.positions.tolist()
    escaped = _with_escaped_keys(framed.data, maps)
    left: list[int] = framed.positions[escaped].tolist()
    if left:
        framed = without(framed, record_starts(framed.data), escaped)
    data, objects = framed.data, {}
    for name in maps:
        data, objects[name] = _take_out(data, name)
    longest = int(np.diff(record_starts(data)).max(initial=1))
    framed = replace(framed, data=data, longest=longest)
    # What is no object is left where it stood: it is wrong there, or says true or false; either way it is judged alone.
    fields = [field.with_type(pa.bool_()) if field.name in maps else field for field in schema]
    wanted = pa.schema([*fields, *(pa.field(_TAKEN + name, pa.int64()) for name in maps)])
    while True:
        parts, alone = parse_framed(framed, wanted, True, leniency)
        found: list[ParsedRows] = []
        bad: list[int] = []
        for part in parts:
            whole, wrong = _with_maps(part, maps, objects, leniency.reads_text)
            found.append(whole)
            bad += part.positions[wrong].tolist()
        if not bad:
            return found, left + alone
        # The others are parsed again: rows of inferred columns, which Arrow may make wrongly, are never copied.
        left += bad
        framed = without(framed, record_starts(framed.data), np.flatnonzero(np.isin(framed.positions, bad)))


def _with_escaped_keys(data: bytes, maps: dict[str, pa.DataType]) -> Ints:
    """The records in which a map's field has its name with escapes: beside the plain name it would not be seen as the
    same key, where one of them is null."""
    if b"\\" not in data:
        return np.empty(0, np.int64)
    rows = [
        row
        for row, record in enumerate(data.split(b"\n"))
        if b"\\" in record
        and any(key and b"\\" in text and _unescaped(text) in maps for text, key in _ANY_TEXT.findall(record))
    ]
    return np.array(rows, np.int64)


def _unescaped(key: bytes) -> str | None:
    try:
        return str(json.loads(key))
    except ValueError:
        return None


def _take_out(data: bytes, name: str) -> tuple[bytes, list[bytes]]:
    """The records with numbers in place of a field's objects, and those objects' texts."""
    objects: list[bytes] = []
    taken = json.dumps(_TAKEN + name, ensure_ascii=False).encode("utf-8") + b":"

    def number(match: re.Match[bytes]) -> bytes:
        if match[1] == b"null":
            return taken + b"null"  # under the same name, so that a key that comes twice is seen
        objects.append(match[1])
        return taken + b"%d" % (len(objects) - 1)

    return _field(name).sub(number, data), objects


@lru_cache(maxsize=1024)
def _field(name: str) -> re.Pattern[bytes]:
    # The key as a whole: behind a backslash it would be the end of another one. It begins with plain characters, which
    # makes the search fast.
    key = re.escape(json.dumps(name, ensure_ascii=False).encode("utf-8"))
    return re.compile(
        key + rb"(?<!\\" + key + rb")" + _SPACE + rb":" + _SPACE + rb"(null|" + _OBJECT + rb")(?=" + _SPACE + rb"[,}])"
    )


def _with_maps(
    part: ParsedRows, maps: dict[str, pa.DataType], objects: dict[str, list[bytes]], reads_text: bool
) -> tuple[ParsedRows, Mask]:
    """The part with its maps in their fields' places, and which rows must be judged alone."""
    table = part.table
    bad: Mask = np.zeros(len(table), dtype=bool)
    for field in table.schema:
        if field.name in maps or _holds_taken(field.type):
            # No object where a map is to be, or an object taken out of another field, where nobody would look for it.
            bad |= table.column(field.name).is_valid().to_numpy()
    for name, kind in maps.items():
        numbers = one_array(table.column(_TAKEN + name))
        # An object taken out of this field's, whose keys are not looked at for that: it counts as no JSON.
        texts = [b"" if _TAKEN.encode() in text else text for text in objects[name]]
        column, wrong = _maps(numbers, texts, kind, reads_text)
        bad |= wrong
        table = table.set_column(table.schema.get_field_index(name), pa.field(name, kind), column)
    return ParsedRows(part.positions, table.drop_columns([_TAKEN + name for name in maps])), bad


def _holds_taken(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(child.name.startswith(_TAKEN) or _holds_taken(child.type) for child in kind)
    return bool(pa.types.is_list(kind)) and _holds_taken(kind.value_type)


def _maps(numbers: pa.Array, objects: list[bytes], kind: pa.DataType, reads_text: bool) -> tuple[pa.Array, Mask]:
    """The objects of these numbers as maps, and the rows whose object is none."""
    rows = np.flatnonzero(numbers.is_valid().to_numpy(zero_copy_only=False))
    bad = np.zeros(len(numbers), dtype=bool)
    texts = [objects[i] for i in numbers.drop_null().to_pylist()]
    lines, ends = _lines(texts)
    if len(ends) != len(texts):
        # An object that is no JSON; one by one shows which.
        sound = np.array([len(_lines([text])[1]) == 1 for text in texts], dtype=bool)
        bad[rows[~sound]] = True
        rows = rows[sound]
        lines, ends = _lines([text for text, fits in zip(texts, sound.tolist(), strict=True) if fits])
    keys, items, failed = _entries(lines, kind, reads_text)
    # Line by line: which object it is of. The line that ends an object holds nothing.
    count = int(ends[-1]) + 1 if len(ends) else 0
    object_of = np.searchsorted(ends, np.arange(count))
    inside = np.ones(count, dtype=bool)
    inside[ends] = False
    bad[rows[object_of[np.flatnonzero(failed & inside)]]] = True
    entries = pa.array(np.flatnonzero(inside))
    keys, items = keys.take(entries).fill_null(""), items.take(entries)
    bad[rows[_repeated(keys, object_of[inside])]] = True
    sizes = np.zeros(len(numbers), np.int64)
    sizes[rows] = np.diff(ends, prepend=-1) - 1
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    mask = numbers.is_null() if numbers.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask), bad


def _lines(texts: list[bytes]) -> tuple[bytes, Ints]:
    """A line for each member of the objects and an empty object behind each object's last; where those are."""
    if not texts:
        return b"", np.empty(0, np.int64)
    lines = _END.sub(b"{}", _MEMBER.sub(_line, b"\n".join(texts)))
    starts = record_starts(lines)
    short = np.flatnonzero(np.diff(starts) == len(b"{}\n"))
    octets = np.frombuffer(lines, dtype=np.uint8)
    return lines, short[(octets[starts[short]] == 0x7B) & (octets[starts[short] + 1] == 0x7D)]


def _line(member: re.Match[bytes]) -> bytes:
    return b'{"k":%b,"v":%b}\n' % member.groups()


def _entries(lines: bytes, kind: pa.DataType, reads_text: bool) -> tuple[pa.Array, pa.Array, Mask]:
    """Key and value of each line, null where it is none of the map's type; these are marked."""
    starts = record_starts(lines) if lines else np.zeros(1, np.int64)
    count = len(starts) - 1
    schema = pa.schema([("k", kind.key_type), ("v", kind.item_type)])
    failed: Mask = np.ones(count, dtype=bool)
    if not count:
        return pa.nulls(0, kind.key_type), pa.nulls(0, kind.item_type), failed
    framed = frame(JoinedValues(lines, starts, None, 0), np.arange(count))
    parts, _ = parse_with_maps(framed, schema, lambda: _leniency(kind.item_type, reads_text))
    # A struct with more fields than are known has to be looked at with its record.
    parts = [part for part in parts if part.table.schema.equals(schema)]
    order = np.full(count, -1)
    whole = pa.concat_tables([no_rows(schema), *(part.table for part in parts)]).combine_chunks()
    for part, first in zip(parts, np.cumsum([0, *map(len, parts)]).tolist(), strict=False):
        order[part.positions] = np.arange(first, first + len(part))
    failed = order < 0
    rows = pa.array(order, mask=failed)
    # A part's records need not come in their order: those that one parser left to another stand behind the others.
    if np.array_equal(order, np.arange(len(whole))):
        return one_array(whole.column("k")), one_array(whole.column("v")), failed
    return one_array(whole.column("k")).take(rows), one_array(whole.column("v")).take(rows), failed


def _leniency(kind: pa.DataType, reads_text: bool) -> Leniency:
    """Numbers may stand for their text in a map of text, as in a column, and text for the number it is."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return Leniency(
        text=frozenset(["v"] if pa.types.is_string(kind) else []),
        number=frozenset(["v"] if number else []),
        never=frozenset(["k", "v"]),
        reads_text=reads_text,
    )


def _repeated(keys: pa.Array, object_of: Ints) -> Ints:
    """The objects in which a key comes twice."""
    encoded = keys.dictionary_encode()
    places = object_of * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy().astype(np.int64)
    found, counts = np.unique(places, return_counts=True)
    if len(found) == len(places):
        return np.empty(0, np.int64)
    repeated: Ints = np.unique(found[counts > 1] // max(1, len(encoded.dictionary)))
    return repeated


__all__ = ["is_map", "parse_with_maps"]
