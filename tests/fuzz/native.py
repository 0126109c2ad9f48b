"""The compiled modules under the address and undefined-behaviour sanitizers: `python -m tests.fuzz.native --seconds
120`.

In: seconds and a seed. Out: 0, or what a sanitizer said. The four modules are built into build/native, never beside
their sources, and a child of this process loads them before floe does. The JSON parser and the scatter get the blocks
of `tests.fuzz.documents` and mutated documents; the reader gets the records of a hostile broker (hostile.c).
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "native"
MODULES = {
    "record.json._json": "record/json/_json.c",
    "record.rows._scatter": "record/rows/_scatter.c",
    "adapters.kafka._fetch": "adapters/kafka/_fetch.c",
    "adapters._key_hash": "adapters/_key_hash.c",
}
# Python's own memory is not the modules' business, and nothing of it is given back at the end.
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1", "PYTHONMALLOC": "malloc"}


def build(compiler: str) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    include = sysconfig.get_paths()["include"]
    for name, source in MODULES.items():
        out = BUILD / f"{name}.so"
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-std=gnu11",
            *SANITIZE,
            f"-I{include}",
            str(ROOT / "framework" / source),
        ]
        subprocess.run([*command, "-o", str(out), "-ldl"], check=True)
    hostile = [compiler, "-shared", "-fPIC", "-std=gnu11", *SANITIZE, str(Path(__file__).with_name("hostile.c"))]
    subprocess.run([*hostile, "-o", str(BUILD / "hostile.so")], check=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--child", action="store_true")
    given = parser.parse_args()
    if given.child:
        _child(given.seconds, given.seed)
        return 0
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if compiler is None:
        print("fuzz-native: no gcc is here; nothing was done", file=sys.stderr)
        return 0 if sys.platform == "win32" else 1
    build(compiler)
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {**os.environ, **OPTIONS, "LD_PRELOAD": ":".join(libraries)}
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.native",
        "--child",
        "--seconds",
        str(given.seconds),
        "--seed",
        str(given.seed),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment)
    if done.returncode:
        print(
            f"fuzz-native: failed; again: make fuzz-native SECONDS={given.seconds} SEED={given.seed}", file=sys.stderr
        )
    return done.returncode


def _load() -> None:
    """The sanitized modules, where floe looks for its own."""
    for name in MODULES:
        full = f"framework.{name}"
        spec = importlib.util.spec_from_file_location(full, BUILD / f"{name}.so")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
        setattr(importlib.import_module(full.rpartition(".")[0]), full.rpartition(".")[2], module)


def _child(seconds: int, seed: int) -> None:
    _load()
    began = time.monotonic()
    counts = {"blocks": 0, "documents": 0, "mutated": 0, "fetched": 0}
    number = seed
    while time.monotonic() - began < seconds:
        _blocks(number, counts)
        _mutated(number, counts)
        _fetched(number, counts)
        _hashed(number)
        number += 1
    print(f"fuzz-native: {counts}, seeds {seed} to {number - 1}, {time.monotonic() - began:.0f} s: no fault")


def _blocks(seed: int, counts: dict[str, int]) -> None:
    from tests.fuzz.documents import Writer
    from tests.fuzz.ways import WAYS, check_block

    block = Writer(seed).block(60)
    report = check_block(block, seed, {name: WAYS[name] for name in ("compiled", "unsorted")})
    assert report.is_clean, report.faults[:2]
    counts["blocks"] += 1
    counts["documents"] += len(block.values)


def _mutated(seed: int, counts: dict[str, int]) -> None:
    """Bytes that framing would never let through to the parser, short of those that it relies on: UTF-8 without a
    NUL."""
    import pyarrow as pa

    from framework.record.destination import rows_of
    from framework.record.fit.parse_plan import parse_groups
    from framework.record.fit.table_shape import table_shape
    from framework.record.json.compiled import parse_plain
    from testbed.record_samples import target
    from tests.fuzz.documents import Writer

    chance, writer = random.Random(seed), Writer(seed)
    shape = writer.shape()
    made = table_shape(target(schema=shape.schema()), (), ())
    schema = parse_groups({rows_of("t"): made})[0].schema if made.vectorised else pa.schema([("a", pa.string())])
    for _ in range(40):
        writer.odd = chance.choice((0.0, 0.5))
        data = bytearray(b"\n".join(writer.document(shape) for _ in range(chance.randint(1, 5))))
        for _ in range(chance.randint(0, 4)):
            at = chance.randint(0, len(data))
            data[at : at + chance.randint(0, 3)] = bytes(chance.choices(b'{}[]",:\\\nu0e-9 \t', k=chance.randint(0, 4)))
        sound = bytes(data).replace(b"\0", b"").decode("utf-8", "ignore").encode()
        records = chance.choice((sound.count(b"\n") + 1, 1, 3))
        for encode in (False, True):
            found = parse_plain(sound, records, schema, chance.choice((0, 2, 100)), encode)
            if found is not None:
                found[0].validate(full=True)
        counts["mutated"] += 1


def _hashed(seed: int) -> None:
    """Values of every length around the blocks of the hash, sliced, and none at all."""
    import hashlib

    import mmh3
    import pyarrow as pa

    from framework.adapters.key_hash import hash_keys
    from framework.adapters.parquet.buckets import bucket_numbers

    chance = random.Random(seed)
    values = [chance.randbytes(chance.choice((0, 1, 36, 127, 128, 129, 255, 256, 257))) for _ in range(60)]
    first = chance.randrange(60)
    found = hash_keys([pa.array(values).slice(first)])
    for value, high, low in zip(values[first:], found.high.tolist(), found.low.tolist(), strict=True):
        digest = hashlib.blake2b(value, digest_size=16, person=b"floe key").digest()
        assert digest == high.to_bytes(8, "little") + low.to_bytes(8, "little")
    assert len(hash_keys([pa.array([], pa.string())])) == 0
    buckets = chance.choice((1, 16, 2**31 - 1))
    bucketed = bucket_numbers(pa.array(values).slice(first), buckets).to_pylist()
    assert bucketed == [(mmh3.hash(value) & 0x7FFFFFFF) % buckets for value in values[first:]]
    _searched(chance)


def _searched(chance: random.Random) -> None:
    """Hashes that lie evenly or all in one place, several entries of one hash, and none at all."""
    import numpy as np

    from framework.adapters.iceberg.upsert.index_runs import find
    from framework.adapters.key_hash import KeyHashes

    most = chance.choice((3, 2**20, 2**64 - 1))
    held = sorted((chance.randint(0, most), chance.randint(0, 1)) for _ in range(chance.choice((0, 1, 7, 300))))
    wanted = sorted({*chance.sample(held, len(held) // 3), *((chance.randint(0, most), 0) for _ in range(20))})
    hashes = [
        KeyHashes(*(np.array([each[at] for each in some], np.uint64) for at in (0, 1))) for some in (held, wanted)
    ]
    rows, entries = find(hashes[0], hashes[1].high, hashes[1].low)
    pairs = [(i, j) for i, want in enumerate(wanted) for j, own in enumerate(held) if want == own]
    assert list(zip(rows.tolist(), entries.tolist(), strict=True)) == pairs


def _fetched(seed: int, counts: dict[str, int]) -> None:
    import numpy as np

    fetch = sys.modules["framework.adapters.kafka._fetch"]
    fetch.load(str(BUILD / "hostile.so"))
    hostile = ctypes.CDLL(str(BUILD / "hostile.so"))
    hostile.hostile_seed(ctypes.c_uint64(seed))
    chance = random.Random(seed)
    reader = fetch.Reader({"bootstrap.servers": "nowhere"}, False)
    most = chance.choice((0, 10, 1000, (1 << 63) - 1))
    reader.assign("t", 0, 0, most)
    for _ in range(12):
        end = chance.choice((10, 1000, 1 << 62, (1 << 63) - 1))
        reader.consume(chance.choice((0, 1, 50, 3000)), chance.choice((1, 10_000, 1 << 40)), end, 0)
        if chance.random() < 0.2:
            reader.notes()
            reader.position("t", 0)
        if chance.random() < 0.1:
            reader.assign("t", 0, 5, most)
        if chance.random() < 0.4:
            data, starts, offsets, stamps, missing, _, braced, ascii_only, messages, large = reader.take()
            count = len(offsets) // 8
            assert len(starts) == 8 * (count + 1)
            assert len(stamps) == len(offsets)
            assert missing is None or len(missing) == count
            assert not ascii_only or data.isascii()
            sizes = np.frombuffer(large or b"", np.int64).reshape(-1, 2)
            assert set(sizes[:, 0].tolist()) <= set(np.frombuffer(offsets, np.int64).tolist())
            assert (sizes[:, 1] > most).all()
            assert not braced or b"\0" not in data
            for i in range(count if messages is not None else 0):
                messages.key(i)
                messages.headers(i)
            counts["fetched"] += count
    del reader
    messages = None
    alive = ctypes.c_long.in_dll(hostile, "hostile_alive").value
    assert alive == 0, f"{alive} messages were never destroyed"


if __name__ == "__main__":
    sys.exit(main())
