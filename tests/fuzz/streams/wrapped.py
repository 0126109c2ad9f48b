"""Several documents in one record, and documents inside of texts, by every way, beside the oracle.

In: a seed. Out: a Report of one block. The oracle judges each document by itself: a record that holds several is the rows of
all of them, or a dead letter if one of them must be; a document in a text is what it is without the text around it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

from framework.config.spec import FormatSpec
from tests.fuzz.documents import Block, Writer
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.report import Report
from tests.fuzz.streams.images import Upserting, change_of, drawn_words, image, keyed_shape
from tests.fuzz.streams.stream import ROW, Change, Stream, Wanted, check_stream
from tests.fuzz.strict import Number, Refused, read
from tests.fuzz.ways import judged

SIZES = (0, 1, 1, 2, 2, 3, 5, 9)
SPACES = ("", "", " ", "\n", "\t ")
ARRAY, LINES = "$", "$lines"
PATHS = ("items", "order.items", "Items", "a b")
_DECODER = json.JSONDecoder(parse_int=Number)


def wrapped(seed: int, most: int) -> Stream:
    """Of odd seeds texts, of even ones several documents in a record."""
    writer = Writer(seed)
    drawn = writer.block(min(most, 250))
    if seed % 2:
        return _in_texts(drawn)
    chance = writer.later
    path = chance.choice((ARRAY, LINES, *PATHS))
    if chance.random() < 0.4:
        drawn, words = _keyed(writer, drawn)
        return _in_records(drawn, chance, path if path in (ARRAY, LINES) else ARRAY, words)
    return _in_records(drawn, chance, path, None)


def check_wrapped(seed: int, most: int) -> Report:
    return check_stream(wrapped(seed, most), seed)


def is_one(data: bytes) -> bool:
    """Whether it is one JSON value, as far as its end is concerned."""
    try:
        json.loads(data.decode(), parse_int=Number)
    except (ValueError, RecursionError):
        return False
    return True


def _keyed(writer: Writer, drawn: Block) -> tuple[Block, Upserting]:
    words = drawn_words(writer.later)
    shape = keyed_shape(drawn.shape, writer.later, words.key)
    values = []
    for _ in drawn.values:
        is_delete = writer.later.random() < 0.2
        values.append(image(writer, shape, words, not is_delete, is_delete).encode("utf-8", "surrogatepass"))
    return Block(shape, values, routed=False), words


def _in_records(drawn: Block, chance: random.Random, path: str, words: Upserting | None) -> Stream:
    shape, steps = drawn.shape, path.split(".")
    if path not in (ARRAY, LINES):
        inner = _inner(drawn.shape)
        for step in reversed(steps):
            inner = Kind("struct", (inner,), (step,))
        shape = Shape({"n": Kind("long"), steps[0]: inner.inner[0]}, reads_text=drawn.shape.reads_text)
    sent, wanted = list[bytes](), list[Wanted]()
    judge_by = Block(shape, [], routed=drawn.routed and path in (ARRAY, LINES))
    left = list(drawn.values)
    while left:
        size = chance.choice(SIZES)
        documents, left = left[:size], left[size:]
        if path == LINES:
            record = chance.choice(SPACES[1:]).encode().join(documents)
            split = list(_split(record))
            wanted.append(
                Refused("no documents") if None in split else _wanted([each for each in split if each], judge_by, words)
            )
        else:
            comma = f"{chance.choice(SPACES)},{chance.choice(SPACES)}".encode()
            record = b"[" + comma.join(documents) + chance.choice(SPACES).encode() + b"]"
            if not all(map(is_one, documents)) and is_one(record):
                continue  # what is broken here is whole beside its neighbours
            whole, made = _around(record, documents, steps, chance) if path != ARRAY else (record, documents)
            record = whole
            wanted.append(made if isinstance(made, Refused) else _wanted(made, judge_by, words))
        sent.append(record)
    key, policy = ((), None) if words is None else ((words.key,), words.policy(shape))
    form = FormatSpec(explode=path)
    name = f"{'explode' if words is None else 'upserted explode'} {path}"
    return Stream(name, shape, sent, wanted, form, (), key, policy, len(drawn.values), judge_by.routed)


def _around(
    array: bytes, documents: Sequence[bytes], steps: Sequence[str], chance: random.Random
) -> tuple[bytes, Sequence[bytes] | Refused]:
    """The record with the array where the path leads, and each document as if it stood there alone."""
    odd = chance.random()
    if odd < 0.05:
        return b'{"n":1}', Refused("no array")
    if odd < 0.1:
        array, documents = b"null", ()
    elif odd < 0.15:
        return b'{"n":1,"%s":{"x":[]}}' % steps[0].encode(), Refused("no array")
    before = b'{"n":%d,' % chance.randint(0, 9) if chance.random() < 0.5 else b"{"
    after = chance.choice((b"", b"", b',"other":[1,"x"]', b',"m":{"items":[]}', b',"big":' + b"9" * 5000))
    opening = b":{".join(json.dumps(step).encode() for step in steps) + b":"
    closing = b"}" * (len(steps) - 1) + after + b"}"
    return before + opening + array + closing, [before + opening + each + closing for each in documents]


def _split(record: bytes) -> Iterator[bytes | None]:
    """The documents that stand one behind the other; None where none begins."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        yield None
        return
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return
        try:
            _, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield None
            return
        yield text[at:end].encode()
        at = end


def _inner(shape: Shape) -> Kind:
    """The columns as those of a struct."""
    columns = {name: kind for name, kind in shape.columns.items() if name.strip() and not name.endswith("_")}
    needed = shape.needed & columns.keys()
    return Kind("struct", tuple(columns.values()), tuple(columns), needed) if columns else Kind("string")


def _in_texts(drawn: Block) -> Stream:
    """The documents as fields of records, as the oracle reads them and as they are sent."""
    shape = Shape({"t": _inner(drawn.shape)}, reads_text=drawn.shape.reads_text)
    sent, wanted = list[bytes](), list[Wanted]()
    judge_by = Block(shape, [], routed=False)
    for data in drawn.values:
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue  # no text holds it
        has_surrogates = text.encode("utf-8", "replace") != data
        sent.append(f'{{"t":{json.dumps(text, ensure_ascii=has_surrogates)}}}'.encode())
        wanted.append(_wanted([b'{"t":' + data + b"}" if is_one(data) else b""], judge_by, None))
    return Stream("parsed text", shape, sent, wanted, parsed=("t",), documents=len(drawn.values))


def _wanted(documents: Sequence[bytes], drawn: Block, words: Upserting | None) -> Wanted:
    found: list[Change] = []
    for data in documents:
        try:
            if not is_one(data):
                return Refused("it is not one document")
            if words is not None:
                found.append(change_of(read(data), drawn.shape, words))
                continue
        except Refused as refused:
            return refused
        row = judged(data, drawn)
        if isinstance(row, Refused):
            return row
        found.append(Change(ROW, row))
    return found
