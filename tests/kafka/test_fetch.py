"""SliceFetcher on a real broker, with either reader: slices end by position, holes are counted, and nothing outside is
ever read."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from framework.adapters.kafka import fetch as kafka_fetch
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.reader import FETCH_GROUP_ID, CompiledReader, PartitionReader, Polled, PythonReader
from framework.errors import AccountingError, DataLossError, RetriableError, SetupError, StateDisagreement
from framework.record.model import RecordBlock, TaskRange
from framework.record.value_buffer import JoinedValues
from tests.conftest import Broker
from tests.kafka.conftest import unique, wait_for
from tests.kafka.test_admin import recreate

pytestmark = pytest.mark.kafka

Cut = Callable[..., TaskRange]


def use(monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """Fetch with this reader from here on, over consumers of the test's own."""
    monkeypatch.setattr(kafka_fetch, "open_reader", {"python": PythonReader, "compiled": CompiledReader}[reader])
    monkeypatch.setattr(kafka_fetch, "_connections", {})


@pytest.fixture(autouse=True, params=["compiled", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every promise of this file is kept by both readers."""
    name = str(request.param)
    if name == "compiled":
        request.getfixturevalue("compiled_reader")
    use(monkeypatch, name)
    return name


@pytest.fixture
def cut(admin: KafkaAdmin) -> Cut:
    """Makes a slice of a topic's partition; the whole stable log by default."""

    def make(topic: str, start: int = 0, end: int | None = None, partition: int = 0) -> TaskRange:
        key = (topic, partition)
        last = admin.end_offsets([key])[key] if end is None else end
        return TaskRange(topic, admin.topics([topic])[topic].topic_id, partition, start, last)

    return make


def transact(broker: Broker, topic: str, values: list[str], commit: bool) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique("tx")})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(20)
    if commit:
        producer.commit_transaction(20)
    else:
        producer.abort_transaction(20)


def stable_end(admin: KafkaAdmin, topic: str, end: int) -> None:
    """Wait until everything below `end` is decided: a commit is confirmed before its marker is written."""
    wait_for(lambda: admin.end_offsets([(topic, 0)])[topic, 0] == end)


def read(fetcher: RangeFetcher, piece: TaskRange, block_records: int = 100_000) -> dict[int, bytes | None]:
    """Offset -> value of all records of the slice; an offset that comes twice fails."""
    found: dict[int, bytes | None] = {}
    for block in fetcher.fetch(piece, block_records):
        assert len(block.offsets) == len(block.values) == len(block.timestamps_ms) == len(block)
        for offset, value in zip(block.offsets, block.values, strict=True):
            assert offset not in found
            found[offset] = value
    assert list(found) == sorted(found)
    assert len(found) + fetcher.holes == piece.end - piece.start
    return found


def test_a_slice_holds_exactly_its_offsets(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """A slice in the middle of a log gives every record of [start, end) and none around it, in blocks as asked."""
    topic = broker.new_topic()
    broker.produce(topic, [f"v{i}" for i in range(5000)])
    fetcher = RangeFetcher(settings)
    assert read(fetcher, cut(topic, 1000, 2500)) == {i: f"v{i}".encode() for i in range(1000, 2500)}
    sizes = [len(block) for block in fetcher.fetch(cut(topic, 0, 5000), block_records=1000)]
    assert sum(sizes) == 5000
    assert max(sizes) == 1000
    assert fetcher.holes == 0


def test_slices_of_several_partitions_share_one_consumer(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """One process keeps one consumer: slices in any order, also an earlier one again, never mix."""
    topic = broker.new_topic(partitions=2)
    for partition in (0, 1):
        broker.produce(topic, [f"{partition}:{i}" for i in range(300)], partition=partition)
    fetcher = RangeFetcher(settings)
    for partition, start, end in ((0, 100, 300), (1, 0, 300), (0, 0, 100), (1, 299, 300), (0, 0, 300)):
        found = read(fetcher, cut(topic, start, end, partition))
        assert found == {i: f"{partition}:{i}".encode() for i in range(start, end)}
    assert len([key for key in kafka_fetch._connections if frozenset(settings.items()) in key]) == 1


def test_an_empty_slice_is_nothing(settings: dict[str, str], broker: Broker, cut: Cut) -> None:
    """A slice without offsets gives no block, no hole and no error."""
    fetcher = RangeFetcher(settings)
    assert list(fetcher.fetch(cut(broker.new_topic(), 0, 0))) == []
    assert fetcher.holes == 0


def test_markers_are_holes(broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut) -> None:
    """A slice that begins or ends at transaction markers ends all the same, and each marker counts as a hole."""
    topic = broker.new_topic()
    for values in (["a", "b"], ["c"], ["d", "e"]):
        transact(broker, topic, values, commit=True)
    stable_end(admin, topic, 8)  # a b M c M d e M
    fetcher = RangeFetcher(settings)
    whole = {0: b"a", 1: b"b", 3: b"c", 5: b"d", 6: b"e"}
    for start in range(9):
        for end in range(start, 9):
            assert read(fetcher, cut(topic, start, end)) == {o: v for o, v in whole.items() if start <= o < end}


def test_aborted_records_are_holes(broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut) -> None:
    """Records of an aborted transaction are never read, at the start, in the middle or at the end of a slice."""
    topic = broker.new_topic()
    transact(broker, topic, ["x", "x", "x"], commit=False)
    broker.produce(topic, ["a", "b"])
    transact(broker, topic, ["y"] * 50, commit=False)
    stable_end(admin, topic, 57)
    fetcher = RangeFetcher(settings)
    assert read(fetcher, cut(topic, 0, 57)) == {4: b"a", 5: b"b"}
    assert fetcher.holes == 55
    assert read(fetcher, cut(topic, 6, 57)) == {}
    assert read(fetcher, cut(topic, 10, 20)) == {}
    assert fetcher.holes == 10


def test_a_slice_of_holes_alone_ends_before_later_records(
    broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut
) -> None:
    """A counting reader would take the next record after the slice to fill its count; this one leaves it to the
    next."""
    topic = broker.new_topic()
    transact(broker, topic, ["x"] * 20, commit=False)
    broker.produce(topic, ["after"])
    stable_end(admin, topic, 22)
    fetcher = RangeFetcher(settings)
    assert read(fetcher, cut(topic, 0, 21)) == {}
    assert read(fetcher, cut(topic, 21, 22)) == {21: b"after"}


@pytest.mark.timeout(180)
def test_compacted_records_are_holes(
    reader: str,
    broker: Broker,
    settings: dict[str, str],
    admin: KafkaAdmin,
    cut: Cut,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a compacted log most offsets are gone; a slice over them ends by position and counts them."""
    if reader == "python":
        pytest.skip("compaction takes long: one log is read by both readers")
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    topic = broker.new_topic(config=config)
    broker.produce(topic, [f"v{i}" for i in range(200)], keys=["same"] * 200)
    fetcher = RangeFetcher(settings)
    count = 200

    def compacted() -> bool:
        nonlocal count
        broker.produce(topic, ["more"], keys=[f"other-{count}"])  # rolls the active segment, which is never compacted
        count += 1
        return len(read(fetcher, cut(topic, 0, 200))) < 200

    wait_for(compacted, timeout_s=120)
    kept = read(fetcher, cut(topic, 0, 200))
    assert fetcher.holes == 200 - len(kept) > 0
    assert kept[199] == b"v199"
    assert read(fetcher, cut(topic, 0, 100)).keys() <= set(range(100))
    use(monkeypatch, "python")
    assert read(RangeFetcher(settings), cut(topic, 0, 200)) == kept


def test_an_open_transaction_bounds_what_is_read(
    broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut
) -> None:
    """Up to the last stable offset a slice ends at once, although undecided records follow it."""
    topic = broker.new_topic()
    broker.produce(topic, ["a", "b"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique("tx")})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(20)
    assert read(RangeFetcher(settings), cut(topic)) == {0: b"a", 1: b"b"}
    producer.abort_transaction(20)


def test_a_lost_range_is_an_error_not_a_jump(
    broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut
) -> None:
    """A slice whose head was removed by retention raises with the first offset that is left; nothing is skipped."""
    topic = broker.new_topic()
    broker.produce(topic, [str(i) for i in range(120)])
    piece = cut(topic, 10, 110)
    lost = TopicPartition(topic, 0, 100)
    admin.raw.delete_records([lost])[lost].result(10)
    with pytest.raises(DataLossError, match="the log now holds 100 to 119") as caught:
        list(RangeFetcher(settings).fetch(piece))
    assert caught.value.exit_code == 5
    assert read(RangeFetcher(settings), cut(topic, 100, 120)).keys() == set(range(100, 120))


def test_a_range_beyond_the_log_is_an_error(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """A slice that starts above the log's end (another cluster, a log cut short) raises instead of waiting for ever."""
    topic = broker.new_topic()
    broker.produce(topic, ["a"])
    with pytest.raises(DataLossError):
        list(RangeFetcher(settings).fetch(cut(topic, 50, 60)))


def test_a_recreated_topic_is_found(broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut) -> None:
    """Invariant 11: records of a topic made anew under the same name are refused, although their offsets fit."""
    topic = broker.new_topic()
    broker.produce(topic, ["old"] * 10)
    piece = cut(topic)
    recreate(admin, topic)
    broker.produce(topic, ["new"] * 20)
    with pytest.raises(StateDisagreement, match="recreated") as caught:
        list(RangeFetcher(settings).fetch(piece))
    assert caught.value.code == "FLOE-R116"


def test_a_deleted_topic_is_found(broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut) -> None:
    """A topic that was deleted ends the slice with its name, not with a hang."""
    topic = broker.new_topic()
    broker.produce(topic, ["old"] * 10)
    piece = cut(topic)
    admin.raw.delete_topics([topic])[topic].result(10)
    wait_for(lambda: not admin.topics([topic]))
    with pytest.raises(StateDisagreement, match="does not exist"):
        list(RangeFetcher(settings, stall_timeout_s=2).fetch(piece))


def test_a_slice_that_gets_nothing_fails_in_time(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """When the log cannot reach the slice's end, the task fails after the stall time-out and can be tried again."""
    topic = broker.new_topic()
    broker.produce(topic, ["a", "b"])
    with pytest.raises(RetriableError, match="no records came") as caught:
        list(RangeFetcher(settings, stall_timeout_s=1.5).fetch(cut(topic, 0, 10)))
    assert caught.value.code == "FLOE-R123"
    assert "at offset 2" in caught.value.message


def test_everything_about_a_record_is_there(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """Values, tombstones, keys, headers and timestamps come as they were produced, also through pickling."""
    topic = broker.new_topic()
    producer = Producer(settings)
    headers = [("h", b"1"), ("h", None)]
    producer.produce(topic, b"v", key=b"k", timestamp=1_700_000_000_000, headers=headers)
    producer.produce(topic, None, key=b"gone", timestamp=1_700_000_000_001)
    producer.produce(topic, b"", timestamp=1_700_000_000_002)
    producer.flush(10)
    [block] = RangeFetcher(settings).fetch(cut(topic, 0, 3))
    again: RecordBlock = pickle.loads(pickle.dumps(block))
    for b in (block, again):
        assert list(b.values) == [b"v", None, b""]
        assert list(b.keys) == [b"k", b"gone", None]
        assert [b.key(i) for i in range(3)] == [b"k", b"gone", None]
        assert [b.headers_of(i) for i in range(3)] == [headers, [], []]
        assert list(b.timestamps_ms) == [1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002]
        assert list(b.offsets) == [0, 1, 2]
    assert list(block.keys[1:]) == [b"gone", None]


def test_reading_commits_nothing(broker: Broker, settings: dict[str, str], admin: KafkaAdmin, cut: Cut) -> None:
    """Fetching leaves no trace in any group: offsets move in announcing transactions only (invariant 1)."""
    topic = broker.new_topic()
    broker.produce(topic, ["a"] * 100)
    read(RangeFetcher(settings), cut(topic))
    assert (topic, 0) not in admin.group_offsets(FETCH_GROUP_ID)
    assert admin.group_members(FETCH_GROUP_ID) == ()


def test_giving_up_half_way_leaves_the_next_slice_alone(broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """A task that stops in the middle of a slice leaves no record of it to the next one."""
    topic, other = broker.new_topic(), broker.new_topic()
    broker.produce(topic, [f"t{i}" for i in range(1000)])
    broker.produce(other, [f"o{i}" for i in range(10)])
    fetcher = RangeFetcher(settings)
    blocks = fetcher.fetch(cut(topic), block_records=100)
    assert len(next(blocks)) == 100
    blocks.close()  # type: ignore[attr-defined]  # a generator
    assert read(fetcher, cut(other)) == {i: f"o{i}".encode() for i in range(10)}


@pytest.mark.parametrize("seed", range(3))
def test_both_readers_read_the_same(
    seed: int,
    reader: str,
    broker: Broker,
    settings: dict[str, str],
    admin: KafkaAdmin,
    cut: Cut,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On random logs (transactions kept and aborted, every compression, nulls, newlines, keys, headers), in random
    slices and blocks, the two readers give equal records, positions, timestamps and holes."""
    if reader == "python":
        pytest.skip("the comparison reads with both; once is enough")
    chance = random.Random(seed)
    topic = broker.new_topic()
    produced = 0
    for _ in range(12):
        produced += _random_stretch(chance, broker, topic)
    end = produced
    wait_for(lambda: admin.end_offsets([(topic, 0)])[topic, 0] == end)
    for _ in range(8):
        start = chance.randrange(end)
        piece = cut(topic, start, chance.randrange(start, end) + 1)
        size = chance.choice([1, 7, 100, 100_000])
        found = {}
        for name in ("compiled", "python"):
            use(monkeypatch, name)
            fetcher = RangeFetcher(settings)
            records = [
                (b.offsets[i], b.timestamps_ms[i], b.values[i], b.key(i), b.headers_of(i))
                for b in fetcher.fetch(piece, size)
                for i in range(len(b))
            ]
            found[name] = (records, fetcher.holes)
        assert found["compiled"] == found["python"]
        assert len(found["python"][0]) + found["python"][1] == piece.end - piece.start


# Around the sixteen bytes that are looked at together, with one odd byte or none, in each place.
SOUND = [b"{}", *(b'{"a":"' + b"x" * size + b'"}' for size in range(1, 40))]
ODD = [None, b"", b"{\0\xff}", b"{", b"}", b"[]", b" {}", b"{} ", b"{\0}", b"{\n}", b"{\xc3\xa9}"]


def test_what_is_said_of_a_block_holds_for_its_values(
    reader: str, broker: Broker, settings: dict[str, str], cut: Cut
) -> None:
    """A block is called braced, or ASCII, exactly if all of its values are, wherever in a value the odd byte is."""
    base = SOUND[-1]
    odd = [base[:at] + mark + base[at + 1 :] for at in range(len(base)) for mark in (b"\n", b"\0", b"\x80", b"\xff")]
    topic = broker.new_topic()
    broker.produce(topic, SOUND + [value for one in ODD + odd for value in (one, b"{}")])
    piece = cut(topic)
    blocks = [*RangeFetcher(settings).fetch(cut(topic, 0, len(SOUND)), 1000), *RangeFetcher(settings).fetch(piece, 2)]
    seen = set()
    for block in blocks:
        if not isinstance(block.values, JoinedValues):
            continue  # the reader in Python gathers nothing, and framing looks for itself
        values = [value or b"" for value in block.values]
        braced = all(v[:1] == b"{" and v[-1:] == b"}" and b"\n" not in v and b"\0" not in v for v in values)
        assert (block.values.is_braced, block.values.is_ascii) == (braced, all(map(bytes.isascii, values)))
        assert block.values.newlines == sum(value.count(b"\n") for value in values)
        seen.add((braced, block.values.is_ascii))
    every = {(True, True), (True, False), (False, True), (False, False)}
    assert seen == (every if reader == "compiled" else set())


def _random_stretch(chance: random.Random, broker: Broker, topic: str) -> int:
    """Writes some records, in a transaction or not; returns how many offsets they took."""
    config = {"compression.type": chance.choice(["none", "gzip", "snappy", "lz4", "zstd"]), "linger.ms": 20}
    transactional = chance.random() < 0.6
    if transactional:
        config["transactional.id"] = unique("tx")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **config})
    if transactional:
        producer.init_transactions(20)
        producer.begin_transaction()
    count = chance.choice([1, 3, 40, 300])
    for _ in range(count):
        value = chance.choice([None, b"", b"{}", b"a\nb", b"\n", b"\0", chance.randbytes(chance.randrange(500))])
        key = chance.choice([None, b"", b"k", chance.randbytes(9)])
        headers = chance.choice([None, None, [("h", b"1"), ("h", None), ("", b"")]])
        producer.produce(
            topic, value, key=key, headers=headers, partition=0, timestamp=chance.randrange(1, 1_700_000_000_000)
        )
    producer.flush(20)
    if not transactional:
        return count
    if chance.random() < 0.5:
        producer.commit_transaction(20)
    else:
        producer.abort_transaction(20)
    return count + 1


def test_a_block_is_bounded_by_bytes_too(
    broker: Broker, settings: dict[str, str], cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large records make smaller blocks: a block of 100,000 of them would be more than a task's memory."""
    monkeypatch.setattr(kafka_fetch, "BLOCK_BYTES", 1_000_000)
    monkeypatch.setattr(kafka_fetch, "_POLL_RECORDS", 10)
    topic = broker.new_topic()
    broker.produce(topic, ["x" * 100_000] * 60)
    sizes = [len(block) for block in RangeFetcher(settings).fetch(cut(topic))]
    assert sum(sizes) == 60
    assert len(sizes) > 1


def test_reading_again_and_again_keeps_no_memory(
    reader: str, broker: Broker, settings: dict[str, str], cut: Cut
) -> None:
    """Slices read whole, given up half way, and with their keys and headers asked for leave nothing behind."""
    topic = broker.new_topic()
    broker.produce(topic, ["v" * 1000] * 10_000, keys=["k" * 20] * 10_000)
    piece = cut(topic)
    fetcher = RangeFetcher(settings)

    def once() -> None:
        for block in fetcher.fetch(piece, 3_000):
            assert block.key(7) == b"k" * 20
            assert block.headers_of(7) == []
        blocks = fetcher.fetch(piece, 3_000)
        next(blocks)
        blocks.close()  # type: ignore[attr-defined]  # a generator

    for _ in range(3):
        once()
    before = _resident_bytes()
    for _ in range(12):
        once()
    # 240 MB of values went through; one slice that stays is 10 MB.
    assert _resident_bytes() - before < 30_000_000


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_wrong_setting_is_named(reader: str, broker: Broker, settings: dict[str, str], cut: Cut) -> None:
    """A setting that librdkafka does not know ends the fetch with its name, whichever reader meets it."""
    piece = cut(broker.new_topic(), 0, 5)
    with pytest.raises(SetupError, match=r"no\.such\.setting"):
        list(RangeFetcher({**settings, "no.such.setting": "1"}).fetch(piece))


class Forgetful:
    """A reader that changes the records of a block before it hands them on: `order` are the places that are kept. With
    `counted` false it never counted what it loses, as if its client had lost it."""

    def __init__(self, real: PartitionReader, order: Callable[[int], list[int]], counted: bool) -> None:
        self._real = real
        self._order = order
        self._counted = counted
        self._lost = 0
        self.log = real.log
        self.assign, self.unassign = real.assign, real.unassign
        self.position, self.ask_for_leader = real.position, real.ask_for_leader

    def poll(self, records: int, nbytes: int, end: int, timeout_s: float) -> Polled:
        polled = self._real.poll(records, nbytes, end, timeout_s)
        return polled if self._counted else replace(polled, seen=len(self._order(polled.seen)))

    def take(self, piece: TaskRange) -> RecordBlock:
        block = self._real.take(piece)
        kept = self._order(len(block))
        return RecordBlock(
            block.topic,
            block.partition,
            [block.values[i] for i in kept],
            [block.offsets[i] for i in kept],
            [block.timestamps_ms[i] for i in kept],
            [block.key(i) for i in kept],
            [block.headers_of(i) for i in kept],
        )


WAYS_TO_LOSE: dict[str, Callable[[int], list[int]]] = {
    "one in the middle": lambda count: [i for i in range(count) if i != count // 2],
    "the first": lambda count: list(range(1, count)),
    "the last": lambda count: list(range(count - 1)),
    "one for another that comes twice": lambda count: sorted([1, *range(1, count)]),
    "the order": lambda count: [1, 0, *range(2, count)],
}


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("way", WAYS_TO_LOSE)
def test_a_reader_that_loses_a_record_is_found(
    way: str, counted: bool, broker: Broker, settings: dict[str, str], cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 8: a record that the reader loses, repeats or moves is no hole; the slice ends with an error that names
    it."""
    topic = broker.new_topic()
    broker.produce(topic, [str(i) for i in range(60)])
    real = kafka_fetch.open_reader
    monkeypatch.setattr(
        kafka_fetch, "open_reader", lambda settings: Forgetful(real(settings), WAYS_TO_LOSE[way], counted)
    )
    with pytest.raises(AccountingError, match="were not read whole") as caught:
        list(RangeFetcher(settings).fetch(cut(topic, 0, 60)))
    assert caught.value.place == f"{topic}-0"


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
def test_a_record_lost_among_markers_is_found(
    counted: bool,
    broker: Broker,
    settings: dict[str, str],
    admin: KafkaAdmin,
    cut: Cut,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where each transaction leaves a gap, a lost record that was counted is found at once; one that was not, by
    samples."""
    topic = broker.new_topic()
    for _ in range(4):
        transact(broker, topic, ["a", "b", "c"], commit=True)
    stable_end(admin, topic, 16)
    real, skipped = kafka_fetch.open_reader, [99]

    def places(count: int) -> list[int]:
        return [i for i in range(count) if i not in skipped]

    monkeypatch.setattr(kafka_fetch, "open_reader", lambda settings: Forgetful(real(settings), places, counted))
    fetcher, piece = RangeFetcher(settings), cut(topic, 0, 16)
    read(fetcher, piece)  # so that gaps of this partition are known, and each further look is a sample
    skipped.append(1)

    def read_often() -> None:
        for _ in range(5_000):
            list(fetcher.fetch(piece))

    with pytest.raises(AccountingError, match="were not read whole"):
        read_often()
