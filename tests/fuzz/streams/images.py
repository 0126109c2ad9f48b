"""What one document does to an upsert table: the other opinion, written from docs/tutorials/change-streams.md alone.

In: a document's fields as `tests.fuzz.strict` reads them, and the words of the table. Out: a Change, or Refused. The document
is the whole row, or an update that lacks values: Debezium's placeholder is in their place, or they are not there at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from framework.config.spec import DeleteWhen, TablePolicy, UnavailableValues, Updates, WriteMode, WritePolicy
from tests.fuzz.documents import Writer
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import as_json, column_of, in_files, judge, renamed
from tests.fuzz.streams.stream import DELETE, ROW, UPSERT, Change
from tests.fuzz.strict import Number, Refused
from tests.fuzz.ways import IGNORED, fixed_policy

# Of most names files have another spelling.
KEYS = ("pk", "pk", "order-id", "@id", "1st", "é", "a b", "Key")
GONE = "gone"
_WORD = "__debezium_unavailable_value"
_BYTES = _WORD.encode()
_BASE64, _HEX = base64.b64encode(_BYTES).decode(), _BYTES.hex()
_UUID = str(UUID(bytes=hashlib.md5(_BYTES).digest(), version=3))
_NUMBERS = "[" + ",".join(map(str, _BYTES)) + "]"
# As JSON texts; the last ones only look like one.
PLACEHOLDERS = (
    *map(json.dumps, (_WORD, _BASE64, _HEX, [_WORD], [_UUID], {_WORD: _WORD}, json.dumps({_WORD: _WORD}))),
    _NUMBERS,
)
LOOK_ALIKE = (json.dumps(_WORD + " "), json.dumps([_WORD, _WORD]), json.dumps({_WORD: 1}), json.dumps([[_WORD]]))


@dataclass(frozen=True)
class Upserting:
    """The words of an upsert table. `by_op`: an envelope says what happened, otherwise a field says that a row is gone."""

    updates: Updates = Updates.FULL
    unavailable: UnavailableValues = UnavailableValues.KEEP
    by_op: bool = False
    key: str = KEYS[0]

    def policy(self, shape: Shape) -> TablePolicy:
        when = None if self.by_op else DeleteWhen(GONE, True)
        words = {"updates": self.updates, "unavailable": self.unavailable}
        return replace(fixed_policy(shape), write=WritePolicy(WriteMode.UPSERT, (self.key,), delete_when=when, **words))


def drawn_words(chance: random.Random, by_op: bool = False) -> Upserting:
    updates, unavailable = chance.choice(list(Updates)), chance.choice(list(UnavailableValues))
    return Upserting(updates, unavailable, by_op, chance.choice(KEYS))


def keyed_shape(shape: Shape, chance: random.Random, key: str) -> Shape:
    """The same columns behind a key; none is required, since whether a row has a value is known to whoever writes it."""
    taken = in_files(key) | {GONE}
    columns = {name: kind for name, kind in shape.columns.items() if taken.isdisjoint({name.lower(), *in_files(name)})}
    if chance.random() < 0.6:  # such a table may be made, and read by Spark
        no_types = ("time", "timestamp_ns", "timestamptz_ns")
        columns = {
            name: kind
            for name, kind in columns.items()
            if renamed(name, [], True) == name and kind.name not in no_types
        }
    return replace(
        shape, columns={key: Kind("long"), **columns}, needed=frozenset(), whole=shape.whole & columns.keys()
    )


def image(writer: Writer, shape: Shape, words: Upserting, is_update: bool, is_delete: bool = False) -> str:
    """A row as a database's log has it."""
    chance = writer.later
    writer.odd = 1.0 if chance.random() < 0.03 else 0.0
    key = (
        str(chance.randint(1, 4))
        if chance.random() < 0.97
        else chance.choice(("null", '"x"', '"3"', "1.0", PLACEHOLDERS[0]))
    )
    fields = [(words.key, key)] if chance.random() < 0.98 else []
    share = 0.5 if is_update and words.updates is Updates.PARTIAL else 0.95
    for name, kind in shape.columns.items():
        if name == words.key or chance.random() > share:
            continue
        what = chance.random()
        odd = PLACEHOLDERS if what < 0.12 else LOOK_ALIKE if what < 0.14 else None
        fields.append((name, writer.value(kind) if odd is None else chance.choice(odd)))
    if is_delete and not words.by_op:
        fields.append((GONE, "true" if chance.random() < 0.9 else chance.choice(('"true"', "false", "null", "1"))))
    if chance.random() < 0.2:
        chance.shuffle(fields)
    return "{" + ",".join(f"{writer.key(name)}:{text}" for name, text in fields) + "}"


def is_placeholder(value: Any) -> bool:
    if isinstance(value, Number):
        return False
    if isinstance(value, str):
        return value in (_WORD, _BASE64, _HEX) or value in (json.dumps({_WORD: _WORD}), f'{{"{_WORD}":"{_WORD}"}}')
    if isinstance(value, list):
        return as_json(value) == _NUMBERS or value in ([_WORD], [_BASE64], [_HEX], [_UUID])
    return bool(value == {_WORD: _WORD})


def change_of(
    fields: dict[str, Any], shape: Shape, words: Upserting | None, about: frozenset[str] = frozenset()
) -> Change:
    """What a document does; `about` are columns that tell of the change and are none of the row's.

    Raises:
        Refused: it must be a dead letter.
    """
    if words is None:
        return Change(ROW, judge(as_json(fields).encode(), shape, IGNORED))
    said = "__op" if words.by_op else GONE
    found = next((value for name, value in fields.items() if name.lower() == said), None)
    if not words.by_op and isinstance(found, str) and not isinstance(found, Number) and found.lower() == "true":
        raise Refused("a text says that the row is gone")
    if found == "d" if words.by_op else found is True:
        key = Shape(
            {words.key: shape.columns[words.key]}, reads_text=shape.reads_text, empty_is_null=shape.empty_is_null
        )
        return Change(
            DELETE, _with_key(judge(as_json(_without_placeholders(fields)).encode(), key, IGNORED), words.key)
        )
    columns = list(shape.columns)
    named = {name: column_of(name, columns, True, True).lower() for name in fields}
    lacking = {named[name] for name, value in fields.items() if is_placeholder(value)}
    if lacking and words.unavailable is UnavailableValues.DEAD_LETTER:
        raise Refused("a value that the database did not log")
    row = _with_key(judge(as_json(_without_placeholders(fields)).encode(), shape, IGNORED), words.key)
    is_partial = words.updates is Updates.PARTIAL and (not words.by_op or found == "u")
    absent = {name for name in columns if name.lower() not in named.values()} if is_partial else set()
    if words.unavailable is UnavailableValues.KEEP:
        absent |= {name for name in columns if name.lower() in lacking}
    return Change(UPSERT, row, frozenset(absent - about - {words.key}))


def _with_key(row: dict[str, Any], key: str) -> dict[str, Any]:
    if row[key] is None:
        raise Refused("no key")
    return row


def _without_placeholders(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: None if is_placeholder(value) else value for name, value in fields.items()}
