"""Drivers: runs of pipelines that write files, announce them with their source offsets, die and begin again.

In: what the broker, the log and the tables say. Out: files in the store, and one transaction a batch. Where a run begins
and how far a batch reaches are floe's own decisions; what a record becomes is a fixed pattern of its offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from framework.adapters.kafka.admin import GroupOffset
from framework.commit import watch
from framework.commit.events import split
from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Heartbeat,
    SourceRange,
    TableCommitPolicy,
)
from framework.commit.file_ages import ClockReading, stood_still
from framework.commit.machine.progress.recorded import (
    FILLED_FROM_PROPERTY,
    PROGRESS_PROPERTY,
    check_recorded_here,
    filled_from,
)
from framework.commit.offsets import (
    PartitionFacts,
    PartitionKey,
    SafeOffset,
    check_announced,
    decide_start,
    decode_metadata,
    encode_metadata,
    first_position,
)
from framework.commit.recovery.held import held_ends, next_cut, recorded_of
from framework.commit.recovery.missing import REPLAY
from framework.errors import FloeError
from tests.simulator.catalog import MAIN, Asserted, Refused, Update
from tests.simulator.lake import Lake
from tests.simulator.ports import STRIDE, Broker, Log, Machine, Positions

POLICY = TableCommitPolicy(60_000, 1 << 40, 1_000_000, MAIN)
# Records by their offset: three of four go to the first table, two of four to the second, one of them to both.
_PATTERN = {"t": 0b0111, "u": 0b1100}
ROUTED = {name: sum(pattern << at for at in range(0, STRIDE * 24, 4)) for name, pattern in _PATTERN.items()}


@dataclass
class Written:
    """A batch whose files are in the store, and which is not announced yet."""

    begun: ClockReading
    begun_ms: int
    ranges: tuple[SourceRange, ...]
    after: dict[PartitionKey, int]
    files: dict[str, tuple[str, int]]  # by table: path and records


@dataclass
class Driver:
    """One pipeline, or one replay of a gap. `tables` are the names of its file; `source` whose topics it reads."""

    name: str
    log: Log
    machine: Machine
    tables: tuple[str, ...]
    topics: list[str]
    window: Mapping[PartitionKey, int] | None = None  # of a replay: where each partition ends
    begin: Mapping[PartitionKey, int] | None = None
    run: int = 0
    is_up: bool = False
    batch: int = 0
    base_batch: int = 0
    positions: dict[PartitionKey, int] = field(default_factory=dict)
    totals: Accounting = field(default_factory=Accounting)
    given_up: tuple[SourceRange, ...] = ()
    own: dict[str, watch.Newest] = field(default_factory=dict)
    held: tuple[Mapping[PartitionKey, int], ...] = ()
    taken_over: bool = False
    written: Written | None = None

    @property
    def pipeline(self) -> str:
        """Whose records these are."""
        return self.name.partition(REPLAY)[0]

    def die(self) -> None:
        self.is_up, self.written, self.own = False, None, {}

    def facts(self, broker: Broker) -> dict[PartitionKey, PartitionFacts]:
        """The partitions that it reads; of a replay as far as its gap reaches."""
        found: dict[PartitionKey, PartitionFacts] = {}
        for name in self.topics:
            topic = broker.topics.get(name)
            if topic is not None:
                found |= topic.facts()
        if self.window is not None and self.begin is not None:
            return {
                key: replace(found[key], log_start=self.begin[key], log_end=end) for key, end in self.window.items()
            }
        return found


def uuid_of(lake: Lake, table: str) -> str:
    loaded = lake.load(table)
    if loaded is None:
        raise FloeError(f"no table {table}", code="FLOE-R130", place=table, remedy="")
    return loaded.uuid


def begin(driver: Driver, broker: Broker, lake: Lake) -> None:
    """A new run: where it begins is decided, and announced.

    Raises:
        FloeError: it must not begin.
    """
    driver.run += 1
    stored = broker.groups.get(driver.name, {})
    group: dict[PartitionKey, SafeOffset] = {
        key: decode_metadata(value.offset, value.metadata, key[0]) for key, value in stored.items()
    }
    link = driver.log.links.get(driver.name)
    chain, given_up = (link.ranges, link.given_up) if link is not None else (None, ())
    facts = driver.facts(broker)
    start = decide_start(driver.name, group, facts, chain, "earliest", "fail", given_up)
    positions, driver.batch, driver.base_batch = dict(start.positions), start.claimed_batch, start.base_batch
    driver.totals = link.totals if link is not None and not group else start.totals
    driver.given_up, first_run = start.given_up, start.first_run
    check_announced(driver.name, group, chain, driver.log.name)
    texts = {}
    for table in driver.tables:
        uuid_of(lake, table)
        loaded = lake.load(table)
        assert loaded is not None
        texts[table] = loaded.properties.get(PROGRESS_PROPERTY)
        if driver.log.topic_id not in filled_from(loaded.properties):
            note = {FILLED_FROM_PROPERTY + driver.log.topic_id: driver.name}
            try:
                lake.apply(table, Asserted(loaded.uuid), Update(properties=note), None)
            except Refused as error:
                raise FloeError(str(error), code="FLOE-R134", place=table, remedy="") from error
    check_recorded_here(driver.name, driver.log.name, driver.log.topic_id, texts, first_run)
    ends = (held_ends(text, driver.log.topic_id, driver.name, driver.base_batch) for text in texts.values())
    driver.held = tuple(each for each in ends if each)
    driver.taken_over = next_cut(positions, driver.held) is not None
    driver.positions, driver.own, driver.written, driver.is_up = positions, {}, None, True
    ranges = tuple(_at(driver, broker, key, at) for key, at in sorted(positions.items()))
    event = Heartbeat(driver.name, _run(driver), driver.batch, ranges, driver.totals, driver.given_up)
    driver.log.append((event,), driver.machine.wall_ms, marker=True)
    _commit_offsets(driver, broker, ranges)


def write(driver: Driver, broker: Broker, lake: Lake, positions: Positions, counts: list[int]) -> Written | None:
    """The files of the next batch, which reads so many records of each partition; new records come as they are wanted.

    Raises:
        FloeError: a table is not there.
    """
    facts = driver.facts(broker)
    after: dict[PartitionKey, int] = {}
    for number, key in enumerate(sorted(facts)):
        if key not in driver.positions:
            driver.positions[key] = first_position(driver.name, key, facts[key], driver.given_up)
            driver.given_up = tuple(r for r in driver.given_up if (r.topic, r.partition) != key)
        at = driver.positions[key]
        end = at + counts[number % len(counts)]
        if driver.window is not None:
            end = min(end, driver.window[key])
        topic = broker.topics[key[0]]
        end = min(end, STRIDE - 8)
        topic.ends[key[1]] = max(topic.ends[key[1]], end)
        after[key] = max(at, end)
    cut = next_cut({key: driver.positions[key] for key in after}, driver.held)
    if cut is not None:
        after = {key: min(end, cut.get(key, end)) for key, end in after.items()}
    ranges = tuple(
        SourceRange(key[0], broker.topics[key[0]].topic_id, key[1], driver.positions[key], end)
        for key, end in sorted(after.items())
    )
    rows = positions.rows(driver.pipeline, ranges)
    if not rows:
        return None
    begun, begun_ms = driver.machine.moment(), driver.machine.wall_ms
    files: dict[str, tuple[str, int]] = {}
    for table in driver.tables:
        loaded = lake.load(table)
        if loaded is None:
            raise FloeError(f"no table {table}", code="FLOE-R130", place=table, remedy="")
        if mine := rows & ROUTED[table]:
            path = lake.store.write(loaded.location, f"{driver.name}-{driver.batch + 1}.parquet")
            lake.rows[path] = mine
            files[table] = path, mine
    driver.written = Written(begun, begun_ms, ranges, after, files)
    return driver.written


def announce(driver: Driver, broker: Broker, lake: Lake) -> list[DataWritten]:
    """One transaction with what was written, and the offsets.

    Raises:
        FloeError: files are gone, or a table is.
    """
    written = driver.written
    assert written is not None
    if stood_still(written.begun, driver.machine.moment()):
        for table, (path, _) in written.files.items():
            if lake.missing_files(table, (path,)):
                driver.written = None
                raise FloeError(f"{path} went as an orphan", code="FLOE-R122", place=driver.name, remedy="")
    batch = driver.batch + 1
    pieces: list[DataWritten] = []
    for table, (path, rows) in written.files.items():
        loaded = lake.catalog.tables.get(table)
        if loaded is None:
            driver.written = None
            raise FloeError(f"no table {table}", code="FLOE-R130", place=table, remedy="")
        own = driver.own.get(loaded.uuid)
        if own is not None and not driver.taken_over:
            before: int | None = own.batch
        else:
            seen = driver.log.watch.newest(driver.name).get(loaded.uuid)
            recorded = recorded_of(loaded.properties.get(PROGRESS_PROPERTY), driver.log.topic_id, driver.name)
            before = watch.batch_before(own or seen, recorded)
        file = DataFile(path, rows.bit_count(), 1, 0)
        pieces.append(
            DataWritten(
                driver.name,
                _run(driver),
                batch,
                table,
                loaded.uuid,
                0,
                (file,),
                written.ranges,
                POLICY,
                base_batch=driver.base_batch,
                after_batch=before,
                begun_ms=written.begun_ms,
            )
        )
    count = sum(r.end - r.start for r in written.ranges)
    line = Accounting(offsets=count, written=count, rows=count)
    driver.totals = driver.totals + line
    numbered = split.number_parts(pieces)
    events: tuple[ControlEvent, ...] = (
        *numbered,
        DataComplete(
            driver.name,
            _run(driver),
            batch,
            written.ranges,
            line,
            driver.totals,
            tuple(written.files),
            given_up=driver.given_up,
        ),
    )
    driver.batch = batch
    driver.log.append(events, driver.machine.wall_ms, marker=True)
    driver.positions |= written.after
    _commit_offsets(driver, broker, written.ranges)
    for each in numbered:
        driver.own[each.table_uuid] = watch.Newest(driver.log.end, batch, written.ranges, driver.base_batch)
    driver.written = None
    return list(numbered)


def _run(driver: Driver) -> str:
    return f"{driver.name}-{driver.run}"


def _at(driver: Driver, broker: Broker, key: PartitionKey, at: int) -> SourceRange:
    return SourceRange(key[0], broker.topics[key[0]].topic_id, key[1], at, at)


def _commit_offsets(driver: Driver, broker: Broker, ranges: tuple[SourceRange, ...]) -> None:
    group = broker.groups.setdefault(driver.name, {})
    for r in ranges:
        said = encode_metadata(r.topic_id, driver.batch, driver.totals, _run(driver), driver.base_batch)
        group[r.topic, r.partition] = GroupOffset(r.end, said)
