# ruff: noqa: E501  (a table of records)
"""Records that ended the process, or that cost it hours: each is judged in a process of its own, in time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 5
HARMLESS = ("dict(d='decimal(10, 2)')", "[b'{\"d\":1.25}'] * 2")
USUAL_SECONDS = 2.0  # what HARMLESS takes where the bound was set, most of it for Python and Arrow to start

# Builds `values`, the records of a block between two neighbours, and names the columns of the table.
RECORDS = {
    "a far exponent in a decimal": ("dict(d='decimal(10, 2)')", "[b'{\"d\":1e-9999999}', b'{\"d\":1e99999999}']"),
    "a far exponent in a text for a decimal": ("dict(d='decimal(10, 2)')", "[b'{\"d\":\"-0e-9999999\"}', b'{\"d\":1e400}']"),
    "a far exponent in a long among wholes with a point": ("dict(d='long')", "[b'{\"d\":1.0}', b'{\"d\":1e-9999999}'] * 20"),
    "a zero with an exponent": ("dict(d='decimal(10, 2)')", "[b'{\"d\":0e20}', b'{\"d\":0e9999999}']"),
    "38 digits and a fraction": ("dict(d='decimal(38, 2)')", "[b'{\"d\":' + b'9' * 37 + b'.9}', b'{\"d\":' + b'9' * 36 + b'.99}'] * 20"),
    "lists in an unknown field": ("dict(a='long')", "[b'{\"x\":' + b'[' * n + b']' * n + b'}' for n in (600, 990, 5000, 10_000, 100_000)]"),
    "objects in an unknown field": ("dict(a='long')", "[b'{\"x\":' + b'{\"a\":' * n + b'1' + b'}' * n + b'}' for n in (20, 30, 90, 99, 600)]"),
    "objects of two spellings": ("dict(a='long')", "[b'{\"x\":' + b'{\"a\":' * n + b'1' + b',\"A\":{}}' * n + b'}' for n in (30, 60)]"),
    "deep in a table that is not there": ("None", "[b'{\"x\":' + b'{\"a\":' * n + b'1' + b'}' * n + b'}' for n in (20, 30, 99, 600)]"),
    "a number of a megabyte": ("dict(a='long', d='decimal(38, 2)', f='double')", "[b'{\"%c\":' % c + b'7' * 1_000_000 + b'}' for c in b'adfx']"),
    "keys that collide": ("None", "collisions()"),
}  # fmt: skip

PROGRAM = """
import json, sys
from framework.record.json import compiled as compiled_json
from testbed.record_samples import block, plan, policy, target
from framework.record.process import process_block
from framework.testing.tables import MemoryTables

def fnv(text):
    value = 2166136261
    for byte in text:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value

def collisions():
    keys, n = [], 0
    while len(keys) < 400:
        n += 1
        if fnv(b"%x" % n) & 0xFF == 7:
            keys.append("%x" % n)
    return [json.dumps({{"x": {{key: 1 for key in keys[:50]}}, "k": "a" * 8 + key + "b" * 8}}).encode() for key in keys]

if {plain}:
    compiled_json.available = lambda: False
columns = {columns}
values = [b'{{"a":1}}', *({values}), b'{{"a":2}}']
made = plan()
tables = MemoryTables(made, ())
if columns is not None:
    tables.targets["ns.t"] = target(columns=dict(columns) if "a" in columns else dict(columns, a="long"))
records = block(values)
for _ in range(8):
    result = process_block(records, made, tables.targets)
    if not result.needs:
        break
    for need in result.needs.values():
        tables.satisfy(need)
assert not result.needs, "it never ends"
assert result.written + len(result.dead_letters) == len(values)
letters = {{letter.offset for letter in result.dead_letters}}
assert 0 not in letters and len(values) - 1 not in letters, "the neighbours are rows"
print(sorted({{letter.code for letter in result.dead_letters}}))
"""


@pytest.fixture(scope="module")
def harmless_s() -> float:
    return seconds_of(*HARMLESS, "compiled")


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("name", RECORDS)
def test_no_record_ends_the_process(name: str, parser: str, harmless_s: float) -> None:
    """Whatever a record holds, the process lives, the neighbours are rows, and it is over within seconds: of CPU, beside
    what harmless records take, and longer on a machine whose CPU is slower."""
    spent = seconds_of(*RECORDS[name], parser)
    limit = harmless_s + MOST_SECONDS * max(1.0, harmless_s / USUAL_SECONDS)
    assert spent < limit, f"{spent:.1f} s of CPU, at most {limit:.1f}"


def seconds_of(columns: str, values: str, parser: str) -> float:
    """The CPU seconds of a process that judges the records."""
    program = PROGRAM.format(columns=columns, values=values, plain=parser == "arrow")
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors
        )
        # Of this child alone: a broker of another test may be reaped in the same moment.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        assert process.returncode == 0, errors.read()[-3000:]
    return used.ru_utime + used.ru_stime
