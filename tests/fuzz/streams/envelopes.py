"""Change events in the envelopes of several systems, by every way, beside the oracle.

In: a seed. Out: a Report of one block. The oracle reads the whole record strictly, follows the paths of docs/formats.md to the
row and to what happened, and judges the row with them as a document of its own.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

from framework.config.spec import Envelope, EnvelopePaths, FormatSpec, Truncates, Updates
from framework.config.values.envelopes import ENVELOPES
from tests.fuzz.documents import Writer
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import as_json
from tests.fuzz.report import Report
from tests.fuzz.streams.images import Upserting, change_of, drawn_words, image, keyed_shape
from tests.fuzz.streams.stream import Change, Stream, Wanted, check_stream
from tests.fuzz.strict import MOST_LEVELS, Number, Refused, levels, read

SIZES = (1, 2, 3, 5, 8, 13, 30, 60)
ABSENT = object()


@dataclass(frozen=True)
class Described:
    """An envelope as its system's documentation has it. `words` are Debezium's letters with the system's own."""

    name: str
    form: FormatSpec
    operation: str
    after: str
    before: str | None
    words: dict[str, tuple[str, ...]]
    ignored: tuple[str, ...]
    kept: tuple[tuple[str, str, Kind], ...]  # path, column, and what the column holds


LONG, TEXT = Kind("long"), Kind("string")
OWN_WORDS = {"c": ("opened", "I"), "u": ("changed",), "d": ("closed", "gone"), "r": ("there",)}
USUAL = {
    "c": ("c", "create", "INSERT", "i"),
    "u": ("u", "update"),
    "d": ("d", "Delete"),
    "r": ("r", "read", "load", "snapshot"),
}
_SYSTEMS: dict[str, tuple[str, dict[str, tuple[str, ...]], tuple[str, ...], dict[str, Kind]]] = {
    "maxwell": (
        "type",
        {"c": ("insert",), "u": ("update",), "d": ("delete",), "r": ("bootstrap-insert",)},
        ("bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop", "database-create"),
        {"database": TEXT, "table": TEXT, "ts": LONG, "xid": LONG, "xoffset": LONG},
    ),
    "canal": (
        "type",
        {"c": ("INSERT",), "u": ("UPDATE",), "d": ("DELETE",)},
        ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY", "GTID", "XACOMMIT", "MHEARTBEAT"),
        {"database": TEXT, "table": TEXT, "es": LONG, "ts": LONG, "id": LONG},
    ),
    "dms": (
        "metadata.operation",
        {"c": ("insert",), "u": ("update",), "d": ("delete",), "r": ("load",)},
        ("create-table", "drop-table", "add-column", "drop-column"),
        {"metadata.timestamp": TEXT, "metadata.schema-name": TEXT, "metadata.table-name": TEXT, "metadata.transaction-id": LONG},
    ),
}  # fmt: skip
PATHS = (
    ("op", "after", "before"),
    ("header.action", "current", "previous"),
    ("h.a.b", "body.row", None),
    ("Kind", "row", None),
)


def column(path: str) -> str:
    return "__" + re.sub(r"[^A-Za-z0-9_]", "_", path)


def described(chance: random.Random) -> Described:
    """One of the systems, or an envelope of nobody's."""
    name = chance.choice((*_SYSTEMS, "debezium", "debezium", "own", "own"))
    if name in _SYSTEMS:
        operation, words, ignored, fields = _SYSTEMS[name]
        explode = "data" if name == "canal" or chance.random() < 0.1 else None
        form = FormatSpec(envelope=Envelope.FIELDS, envelope_paths=ENVELOPES[name], explode=explode)
        kept = tuple((path, column(path), kind) for path, kind in fields.items())
        return Described(name, form, operation, "data", None, words, ignored, kept)
    if name == "debezium":
        asked = chance.choice(((), ("ts_us",), ("source.version", "ts_us")))
        ignores = chance.choice(list(Truncates))
        form = FormatSpec(envelope=Envelope.DEBEZIUM, envelope_fields=asked, on_truncate=ignores)
        fields = {"source.table": TEXT, "source.lsn": LONG, "ts_ms": Kind("timestamptz", unit="ms")}
        fields |= {path: TEXT if path == "source.version" else LONG for path in asked}
        kept = tuple((path, column(path), kind) for path, kind in fields.items())
        ignored = ("t",) if ignores is Truncates.IGNORE else ()
        return Described(name, form, "op", "after", "before", {letter: (letter,) for letter in "cudr"}, ignored, kept)
    operation, after, before = chance.choice(PATHS)
    words = chance.choice((USUAL, OWN_WORDS))
    ignored = chance.choice(((), ("heartbeat", "Begin")))
    fields = chance.choice(({}, {"header.by": TEXT, "n": LONG}))
    kept = tuple((path, column(path), kind) for path, kind in fields.items())
    own = {} if words is USUAL else {"operations": tuple(sorted(words.items()))}
    paths = EnvelopePaths(operation, after, before, ignore=ignored, fields=tuple(fields), **own)
    form = FormatSpec(envelope=Envelope.FIELDS, envelope_paths=paths)
    return Described(name, form, operation, after, before, words, ignored, kept)


def enveloped(seed: int, most: int) -> Stream:
    writer = Writer(seed)
    chance = writer.later
    envelope = described(chance)
    words = drawn_words(chance, by_op=True) if chance.random() < 0.6 else None
    rows = keyed_shape(writer.shape(), chance, (words or Upserting()).key)
    columns = {"__op": TEXT, **{name: kind for _, name, kind in envelope.kept}}
    columns = {name: kind for name, kind in columns.items() if chance.random() < 0.8}
    shape = Shape(rows.columns | columns, reads_text=rows.reads_text, whole=rows.whole)
    has_cells = (
        words is not None
        and words.updates is Updates.PARTIAL
        and envelope.form.explode is None
        and chance.random() < 0.15
    )
    sent, wanted = list[bytes](), list[Wanted]()
    for _ in range(min(most, chance.choice(SIZES))):
        record = _record(writer, envelope, rows, words or Upserting(), has_cells)
        sent.append(record.encode("utf-8", "surrogatepass"))
        wanted.append(_wanted(sent[-1], envelope, shape, words))
    key, policy = ((), None) if words is None else ((words.key,), words.policy(shape))
    name = f"{envelope.name}{'' if words is None else ' upserted'}{' cells' if has_cells else ''}"
    return Stream(name, shape, sent, wanted, envelope.form, (), key, policy)


def check_enveloped(seed: int, most: int) -> Report:
    return check_stream(enveloped(seed, most), seed)


# ---- records -----------------------------------------------------------------------------------------------------


def _record(writer: Writer, envelope: Described, rows: Shape, words: Upserting, has_cells: bool) -> str:
    chance = writer.later
    letter = chance.choice(("c", "u", "u", "u", "d", "r"))
    said = json.dumps(chance.choice(envelope.words.get(letter, ("x",))))
    what = chance.random()
    if what < 0.05 and envelope.ignored:
        said = json.dumps(chance.choice(envelope.ignored))
    elif what < 0.1:
        said = chance.choice(("5", "null", '"purge"', '""', '"t"', '"İ"', '{"a":"c"}', said.upper(), said.title()))

    def row() -> str:
        text = image(writer, rows, words, letter == "u", letter == "d")
        if has_cells:
            text = _cells(text)
        odd = chance.random()
        if odd < 0.02:
            return chance.choice(("null", "[]", '"no row"', "1", '"{"', '" {} "'))
        as_text = json.dumps(text, ensure_ascii=chance.random() < 0.5)
        return as_text if odd < 0.07 and text.encode("utf-8", "replace").decode() == text else text

    tree: dict[str, Any] = {}
    is_delete = letter == "d" and envelope.before is not None
    place = envelope.before if is_delete and envelope.before else envelope.after
    images = [row() for _ in range(chance.choice((0, 1, 1, 2, 3)))] if envelope.form.explode else [row()]
    if chance.random() < 0.98:
        _put(tree, place, "[" + ",".join(images) + "]" if envelope.form.explode else images[0])
    if envelope.form.explode and chance.random() < 0.05:
        _put(tree, place, "null")
    if chance.random() < 0.98:
        _put(tree, envelope.operation, said)
    for path, _, kind in envelope.kept:
        if chance.random() < 0.8:
            writer.odd = 1.0 if chance.random() < 0.02 else 0.0
            _put(tree, path, writer.value(kind))
    if chance.random() < 0.5:
        _put(tree, chance.choice(("old", "more.x", "isDdl", "sql")), chance.choice(("null", "false", '{"a":1}', '"x"')))
    if place != envelope.before and envelope.before is not None and chance.random() < 0.5:
        _put(tree, envelope.before, chance.choice(("null", f"{{{json.dumps(words.key)}:9}}")))
    text = _text(tree, chance)
    if MOST_LEVELS < levels(text) <= MOST_LEVELS + 4:
        return "{}"  # each part counts by itself: the oracle, which counts the record, knows no better
    return (
        text
        if chance.random() < 0.98
        else chance.choice((text[:-1], f" {text} ", f"[{text}]", text + text, "null", "{}"))
    )


def _put(tree: dict[str, Any], path: str, value: str) -> None:
    *above, name = path.split(".")
    for step in above:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            return
    tree[name] = value


def _text(tree: dict[str, Any], chance: random.Random) -> str:
    members = list(tree.items())
    if chance.random() < 0.3:
        chance.shuffle(members)
    gap = chance.choice(("", "", " "))
    written = (f"{json.dumps(n)}{gap}:{gap}{_text(v, chance) if isinstance(v, dict) else v}" for n, v in members)
    return "{" + gap + f",{gap}".join(written) + gap + "}"


def _cells(text: str) -> str:
    """The row as YugabyteDB's connector writes it."""
    try:
        fields = read(text.encode("utf-8", "surrogatepass"))
    except Refused:
        return text
    made = (f'{json.dumps(name)}:{{"value":{as_json(value)},"set":true}}' for name, value in fields.items())
    return "{" + ",".join(made) + "}"


# ---- what they are -----------------------------------------------------------------------------------------------


def _wanted(data: bytes, envelope: Described, shape: Shape, words: Upserting | None) -> Wanted:
    try:
        whole = read(data)
        if envelope.form.explode is None:
            found = _change(whole, envelope, shape, words)
            return [] if found is None else [found]
        elements = _at(whole, envelope.after)
        if elements is None:
            return []
        if not isinstance(elements, list):
            raise Refused("no array")
        changes = [_change(whole | {"data": each}, envelope, shape, words) for each in elements]
        return [each for each in changes if each is not None]
    except Refused as refused:
        return refused


def _at(fields: Any, path: str) -> Any:
    """What stands at a path; null where null stands on the way."""
    for step in path.split("."):
        if fields is None:
            return None
        if not isinstance(fields, dict):
            return ABSENT
        names = [step] if step in fields else [name for name in fields if name.lower() == step.lower()]
        if not names:
            return ABSENT
        fields = fields[names[0]]
    return fields


def _change(whole: dict[str, Any], envelope: Described, shape: Shape, words: Upserting | None) -> Change | None:
    said = _at(whole, envelope.operation)
    if not isinstance(said, str) or isinstance(said, Number):
        raise Refused("no word")
    if envelope.name == "debezium":  # whose letters are what they are
        letter = said if said in envelope.words else None
        is_ignored = said in envelope.ignored
    else:
        letter = next((one for one, each in envelope.words.items() if said.lower() in map(str.lower, each)), None)
        is_ignored = said.lower() in map(str.lower, envelope.ignored)
    if letter is None and is_ignored:
        return None
    if letter is None:
        raise Refused("no such word")
    row = _at(whole, envelope.before if letter == "d" and envelope.before is not None else envelope.after)
    if isinstance(row, str) and not isinstance(row, Number):
        row = read(row.encode())
    if not isinstance(row, dict):
        raise Refused("no row")
    if words is not None and words.updates is Updates.PARTIAL:
        row = _of_cells(row)
    about = {"__op": letter}
    for path, name, _ in envelope.kept:
        value = _at(whole, path)
        if value is not ABSENT:
            about[name] = value
    if row.keys() & about.keys():
        raise Refused("a name comes twice")
    return change_of(row | about, shape, words, frozenset(("__op", *(name for _, name, _ in envelope.kept))))


def _of_cells(row: dict[str, Any]) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if value is not None}
    if not cells or not all(isinstance(value, dict) and value.keys() == {"value", "set"} for value in cells.values()):
        return row
    return {name: value["value"] for name, value in cells.items()}
