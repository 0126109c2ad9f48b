"""A few compressed bytes stand for any number: what a producer sends is decompressed within bounds, and a record that is
too large is one dead letter with its offset and size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from framework.adapters.kafka import fetch as kafka_fetch
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.reader import CompiledReader, PythonReader, compiled
from framework.record.compiled import be_uncompiled
from framework.record.model import RecordBlock, TaskRange, UnreadRecord
from framework.task.blocks import BlockProcessor
from framework.task.context import TaskContext
from testbed.record_samples import plan
from tests.conftest import Broker
from tests.project import Project

pytestmark = pytest.mark.kafka

MIB = 1024 * 1024
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["compiled", "python", "with care"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each reader, and the one of batches that are done with care."""
    name = str(request.param)
    if name == "compiled" and compiled() is None:
        pytest.skip("floe is built without its compiled reader here")
    kind = CompiledReader if name == "compiled" else PythonReader
    monkeypatch.setattr(kafka_fetch, "open_reader", kind)
    monkeypatch.setattr(kafka_fetch, "_connections", {})
    be_uncompiled(name == "with care")
    yield name
    be_uncompiled(False)


def produce(broker: Broker, topic: str, values: list[bytes], key: bytes | None = None, together: bool = False) -> None:
    """As a producer that compresses: a batch for each record, or one for all."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": "zstd",
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "batch.num.messages": len(values) if together else 1,
            "linger.ms": 2000 if together else 0,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    for value in values:
        producer.produce(topic, value, key=key, partition=0)
        if not together:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def whole(broker: Broker, topic: str) -> TaskRange:
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    end = admin.end_offsets([(topic, 0)])[topic, 0]
    return TaskRange(topic, admin.topics([topic])[topic].topic_id, 0, 0, end)


def read(broker: Broker, topic: str, most: int = 32 * MIB) -> list[RecordBlock]:
    fetcher = RangeFetcher({"bootstrap.servers": broker.bootstrap_servers}, 20.0, most)
    blocks = list(fetcher.fetch(whole(broker, topic)))
    assert fetcher.holes == 0
    return blocks


def test_a_record_that_is_too_large_is_a_dead_letter_among_rows(broker: Broker, reader: str) -> None:
    """Value, key and headers count; the neighbours are rows, and a tombstone's key that is too large deletes nothing."""
    topic = broker.new_topic()
    small = json.dumps({"id": 1}).encode()
    produce(broker, topic, [small, b"a" * 3000, small])
    produce(broker, topic, [b"{}"], key=b"k" * 3000)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"{}", headers=[("h", b"v" * 3000)], partition=0)
    producer.produce(topic, None, key=b"k" * 3000, partition=0)
    producer.produce(topic, small, partition=0)
    producer.flush(20)
    blocks = read(broker, topic, 2000)
    sizes = {offset: why.size for block in blocks for offset, why in block.unread.items()}
    assert sizes == {1: 3000, 3: 3002, 4: 3003, 5: 3000}
    values = [value for block in blocks for value in block.values]
    assert values == [small, b"", small, b"", b"", b"", small]
    context = TaskContext(plan(), {}, {}, {}, {}, "run", 1, is_uncompiled=reader == "with care")
    results = [result for block in blocks for result in BlockProcessor(context).results(block)]
    letters = [letter for result in results for letter in result.dead_letters]
    assert [(each.offset, each.code) for each in letters] == [(at, "FLOE-D124") for at in (1, 3, 4, 5)]
    assert "3,000 bytes" in letters[0].message
    assert all(letter.value == b"" and letter.key is None for letter in letters)


@pytest.mark.parametrize("count", [1, 7])
def test_a_batch_that_cannot_be_decompressed_holds_up_nothing(broker: Broker, reader: str, count: int) -> None:
    """librdkafka decompresses 100 MB of an answer and no more: the records of such a batch are dead letters, each by its
    offset, and those around it are rows."""
    topic = broker.new_topic()
    produce(broker, topic, [b"{}", b"{}"])
    produce(broker, topic, [b"a" * (130 * MIB // count)] * count, together=True)
    produce(broker, topic, [b"{}"])
    produce(broker, topic, [b"a" * (130 * MIB // count)] * count, together=True)
    blocks = read(broker, topic)
    unread = {offset: why for block in blocks for offset, why in block.unread.items()}
    wanted = [*range(2, 2 + count), *range(3 + count, 3 + 2 * count)]
    assert unread == {offset: UnreadRecord(None, 32 * MIB) for offset in wanted}
    assert [offset for block in blocks for offset in block.offsets] == list(range(3 + 2 * count))
    context = TaskContext(plan(), {}, {}, {}, {}, "run", 1, is_uncompiled=True)
    letters = [
        letter for b in blocks for result in BlockProcessor(context).results(b) for letter in result.dead_letters
    ]
    assert {letter.code for letter in letters} == {"FLOE-D125"}
    assert len(letters) == len(wanted)


def test_many_records_that_fill_a_block_come_in_several(broker: Broker, reader: str) -> None:
    """A block is cut where it has its bytes, also inside of what the client gave at once."""
    topic = broker.new_topic()
    produce(broker, topic, [b"a" * (30 * MIB)] * 9)
    blocks = read(broker, topic)
    assert [offset for block in blocks for offset in block.offsets] == list(range(9))
    assert max(len(block) for block in blocks) <= 3 if reader == "compiled" else 9
    assert all(block.unread == {} for block in blocks)


_PEAK = """
import resource, sys
from framework.adapters.kafka.fetch import RangeFetcher
from framework.record.compiled import be_uncompiled
from framework.record.model import TaskRange
be_uncompiled(sys.argv[4] == "plain")
task_range = TaskRange(sys.argv[2], sys.argv[3], 0, 0, 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unread = [at for block in RangeFetcher({"bootstrap.servers": sys.argv[1]}).fetch(task_range) for at in block.unread]
assert unread == list(range(10)), unread
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(("how", "most_mib"), [("usual", 900), ("plain", 500)])
def test_ten_large_records_in_a_few_bytes_are_read_in_a_bounded_memory(broker: Broker, how: str, most_mib: int) -> None:
    """Ten records of 60 MiB, 40 KB in the topic: a process takes no more than what librdkafka decompresses of one
    answer, and with care, when a worker died of that, no more than a few of its batches."""
    topic = broker.new_topic()
    produce(broker, topic, [b"a" * (60 * MIB)] * 10)
    piece = whole(broker, topic)
    command = [sys.executable, "-c", _PEAK, broker.bootstrap_servers, topic, piece.topic_id, how]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most_mib


PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}}}
    {sql}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: lost.letters}}
"""


@pytest.mark.spark
@pytest.mark.iceberg
@pytest.mark.parametrize("sql", ["", 'transform: {sql: "SELECT id FROM source"}'], ids=["rows", "sql"])
def test_a_run_writes_the_others(tmp_path: Path, broker: Broker, sql: str) -> None:
    """The batch goes on: dead letters with offset and size, and a row for each other record."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("large")
    broker.produce(topic, [{"id": 1}])
    produce(broker, topic, [b"a" * (60 * MIB)] * 10)
    produce(broker, topic, [b"a" * (130 * MIB)])
    broker.produce(topic, [{"id": 2}])
    file = project.pipeline("large", PIPELINE.format(topic=topic, sql=sql))
    project.run("run", file, "--until-caught-up", timeout_s=300)
    assert sorted(project.table("shop.orders").column("id").to_pylist()) == [1, 2]
    letters = project.table("lost.letters").select(["offset", "code"]).to_pylist()
    found = sorted((each["offset"], each["code"]) for each in letters)
    assert found == [*((at, "FLOE-D124") for at in range(1, 11)), (11, "FLOE-D125")]
