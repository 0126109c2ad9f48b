"""Arrays of documents in one record, and documents inside of texts, by every way, beside the oracle.

In: a seed. Out: a Report of one block. The oracle judges each document by itself: a record that is an array is the rows of
all its documents, or a dead letter if one of them must be; a document in a text is what it is without the text around it.
"""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from framework.config.spec import FormatSpec, RouteRule
from framework.plan.model import Plan
from framework.record.model import BlockResult
from framework.record.rows.dictionary_text import plain_table
from testbed.record_samples import block, plan, target
from tests.fuzz.documents import Block, Writer
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import may_be_refused, same
from tests.fuzz.report import Report, plain_values
from tests.fuzz.strict import Refused
from tests.fuzz.ways import METADATA, OFFSET, ROUTES, UNFORESEEN, WAYS, fixed_policy, judged

INDEX = "_kafka_index"
KINDS = {**METADATA, INDEX: "int"}
SIZES = (0, 1, 1, 2, 2, 3, 5, 9)
SPACES = ("", "", " ", "\n", "\t ")
Wanted = list[dict[str, Any]] | Refused


def check_several(seed: int, most: int) -> Report:
    """Of even seeds arrays, of odd ones texts."""
    writer = Writer(seed)
    drawn = writer.block(min(most, 250))
    if seed % 2:
        drawn, sent = _in_texts(drawn)
        wanted = [_wanted([data], drawn) for data in drawn.values]
        return _checked(drawn, sent, wanted, seed, FormatSpec(), parsed=("t",))
    sent, wanted = _in_arrays(drawn, writer.chance)
    return _checked(drawn, sent, wanted, seed, FormatSpec(explode="$"))


def _is_one(data: bytes) -> bool:
    """Whether it is one JSON value, as far as its end is concerned."""
    try:
        json.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _in_arrays(drawn: Block, chance: random.Random) -> tuple[list[bytes], list[Wanted]]:
    left, sent, wanted = list(drawn.values), list[bytes](), list[Wanted]()
    while left:
        size = chance.choice(SIZES)
        documents, left = left[:size], left[size:]
        comma = f"{chance.choice(SPACES)},{chance.choice(SPACES)}".encode()
        record = b"[" + comma.join(documents) + chance.choice(SPACES).encode() + b"]"
        if not all(map(_is_one, documents)) and _is_one(record):
            continue  # what is broken here is whole beside its neighbours
        sent.append(record)
        wanted.append(_wanted(documents, drawn))
    return sent, wanted


def _in_texts(drawn: Block) -> tuple[Block, list[bytes]]:
    """The documents as fields of records, as the oracle reads them and as they are sent."""
    columns = {name: kind for name, kind in drawn.shape.columns.items() if name.strip() and not name.endswith("_")}
    needed = drawn.shape.needed & columns.keys()
    inner = Kind("struct", tuple(columns.values()), tuple(columns), needed)
    shape = Shape({"t": inner} if columns else {"t": Kind("string")}, reads_text=drawn.shape.reads_text)
    values, sent = [], []
    for data in drawn.values:
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue  # no text holds it
        has_surrogates = text.encode("utf-8", "replace") != data
        sent.append(f'{{"t":{json.dumps(text, ensure_ascii=has_surrogates)}}}'.encode())
        values.append(b'{"t":' + data + b"}" if _is_one(data) else b"")
    return Block(shape, values, routed=False), sent


def _wanted(documents: Sequence[bytes], drawn: Block) -> Wanted:
    rows = []
    for data in documents:
        row = judged(data, drawn) if _is_one(data) else Refused("it is not one document")
        if isinstance(row, Refused):
            return row
        rows.append(row)
    return rows


def _checked(
    drawn: Block, sent: list[bytes], wanted: list[Wanted], seed: int, form: FormatSpec, parsed: tuple[str, ...] = ()
) -> Report:
    report = Report(documents=len(drawn.values))
    rules, names = [RouteRule("ns.t")], ["ns.t"]
    if drawn.routed:
        rules, names = [RouteRule("ns.t_{r}")], [f"ns.t_{name}" for name in ROUTES]
    kinds = KINDS if form.explode else METADATA
    fixed = fixed_policy(drawn.shape)
    metadata = [name.removeprefix("_kafka_") for name in kinds]
    made: Plan = plan(rules, hints=drawn.shape.hints(), metadata=metadata, defaults=fixed, allow=names)
    made = replace(made, decode=replace(made.decode, format=form, parsed=parsed))
    schema = drawn.shape.schema(kinds)
    tables = {name: target(name, schema=schema, table_policy=fixed) for name in names}
    first: tuple[str, list[Any]] | None = None
    for way, process in WAYS.items():
        try:
            found = _found(process(block(sent), made, tables), len(sent), drawn.shape, form.explode is not None)
        except Exception:
            report.uncaught += 1
            report.faults.append((f"uncaught several {way}", seed, traceback.format_exc()))
            continue
        for at, (must, got) in enumerate(zip(wanted, found, strict=True)):
            if isinstance(got, str):
                report.refused[way] += 1
                good = isinstance(must, Refused) or any(map(may_be_refused, must))
            else:
                report.rows[way] += len(got)
                good = not isinstance(must, Refused) and same(must, got)
            agree = first is None or same(first[1][at], got)
            if not (good and agree):
                report.wrong += not good
                report.disagreements += not agree
                text = f"{sent[at][:600]!r}\n  must be {str(must)[:600]}\n  is {str(got)[:600]}\n  {drawn.shape}"
                report.faults.append((f"{'disagreement' if good else 'wrong'} several {way}", seed, text))
                break
        first = first or (way, found)
    return report


def _found(result: BlockResult, count: int, shape: Shape, is_exploded: bool) -> list[Any]:
    """For each record its rows in order, or the code of its dead letter; exactly one of them."""
    assert not result.needs, result.needs
    rows: list[dict[int, Any]] = [{} for _ in range(count)]
    tables = [(name, plain_table(each)) for name, each in result.rows.items()]
    tables += [(name, plain_table(each)) for alike in result.alike for name, _, each in alike.split()]
    for _, table in tables:
        table.validate(full=True)
        columns = {name: plain_values(table.column(name), kind) for name, kind in shape.columns.items()}
        indexes = table.column(INDEX).to_pylist() if is_exploded else [0] * len(table)
        for i, (offset, index) in enumerate(zip(table.column(OFFSET).to_pylist(), indexes, strict=True)):
            assert index not in rows[offset], "an element is in two places"
            rows[offset][index] = {name: values[i] for name, values in columns.items()}
    found: list[Any] = []
    letters = {letter.offset: letter.code for letter in result.dead_letters}
    assert UNFORESEEN not in letters.values()
    assert len(letters) == len(result.dead_letters)
    for offset, elements in enumerate(rows):
        assert not (elements and offset in letters), "a record is in two places"
        assert sorted(elements) == list(range(len(elements))), "an element is nowhere"
        found.append(letters.get(offset, [elements[index] for index in range(len(elements))]))
    written = sum(map(bool, rows))
    assert (result.written, result.dropped) == (written, count - written - len(letters))
    return found
