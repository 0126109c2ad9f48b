"""How a run begins: where every place says that its pipeline stands, decided once and announced at once.

In: what the group, the control log, the topics and the tables say. Out: a `Begun`, announced in the control topic under
the run's name before anything is read. Keeps invariant 2 (who begins anew goes by what was announced, and never decides
again) and invariant 11 (what tables record belongs to this very control topic).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from framework.adapters.kafka.control.topic import ControlTopicFacts
from framework.commit.events.event_types import Accounting, SourceRange
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, check_recorded_here
from framework.commit.offsets import PartitionKey, SafeOffset, check_announced, decide_start
from framework.commit.recovery.held import held_ends, next_cut
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import Level, LogLine
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom, whole_commands
from framework.errors import FloeError, OutcomeUnknown, RetriableError
from framework.plan.model import Plan
from framework.runtime.batches.announced import AnnouncedTables
from framework.runtime.batches.announcer import Announcer
from framework.runtime.retry_policy import BATCH_ATTEMPTS
from framework.runtime.source import PipelineSource
from framework.runtime.tables.registry import TableRegistry


@contextmanager
def naming_file(plan: Plan) -> Iterator[None]:
    """While a pipeline is begun, run or recovered: commands in the remedies of its errors have its file and its control topic. A
    driver may have several, and whoever typed the files typed no control topic; the target is the reader's to add."""
    try:
        yield
    except FloeError as error:
        started = StartedFrom(plan.source_file, pipeline=plan.pipeline)
        error.remedy = whole_commands(error.remedy, ReaderPlace(control_topic=plan.announce.control_topic), started)
        raise


@dataclass(frozen=True)
class Begun:
    """Where the run stands. `held` are the source offsets up to which single tables hold the pipeline; `given_up` the
    ends of partitions that are not read."""

    positions: dict[PartitionKey, int]
    batch: int
    totals: Accounting
    given_up: tuple[SourceRange, ...]
    held: tuple[dict[PartitionKey, int], ...]
    announced: AnnouncedTables


def begin(
    plan: Plan,
    control: ControlTopicFacts,
    group: Mapping[PartitionKey, SafeOffset],
    source: PipelineSource,
    announcer: Announcer,
    tables: TableRegistry,
    say: Callable[[str], None],
) -> Begun:
    """Decide where to begin, and announce it; again where that was not announced. A run that began meanwhile may have
    been fenced by it, and then this one has to go on from where that one stood, or nobody does.

    Args:
        group: the safe offsets, read after older runs were fenced.

    Raises:
        FencedError: another run has begun since.
        StateDisagreement, DataLossError: as `decide_start`, `check_announced` and `check_recorded_here`.
        FloeError: the positions could not be announced.
    """
    for attempt in range(2, BATCH_ATTEMPTS + 1):
        try:
            return _begin(plan, control, group, source, announcer, tables, say)
        except (RetriableError, OutcomeUnknown) as error:
            text = f"the run could not begin yet ({error.message}); attempt {attempt} follows"
            say(LogLine(text, Level.WARNING))
            group = announcer.look_again(error)
    return _begin(plan, control, group, source, announcer, tables, say)


def _begin(
    plan: Plan,
    control: ControlTopicFacts,
    group: Mapping[PartitionKey, SafeOffset],
    source: PipelineSource,
    announcer: Announcer,
    tables: TableRegistry,
    say: Callable[[str], None],
) -> Begun:
    name, read = plan.pipeline, plan.read
    link = source.newest_announcement()
    chain, given_up = (link.ranges, link.given_up) if link is not None else (None, ())
    # The ends are asked for after the offsets: an older run may have gone on until it was fenced.
    facts = source.facts()
    try:
        start = decide_start(name, group, facts, chain, read.starting_offsets, read.on_data_loss, given_up)
        check_announced(name, group, chain, plan.announce.control_topic)
    except FloeError as error:
        # Where another run has announced since the offsets were read, they and the log need not agree.
        if announcer.look_again(error) == group:
            raise
        raise RetriableError(
            f"another run of pipeline {name} announced while this one began ({error.message})",
            code="FLOE-R122",
            place=plan.announce.transactional_id,
            remedy="only one run of a pipeline can go on: stop one of the two",
        ) from error
    announcer.base_batch = start.base_batch
    totals = link.totals if link is not None and not group else start.totals
    tables.control_topic_id = control.topic_id
    tables.preload()
    recorded = {table: target.properties.get(PROGRESS_PROPERTY) for table, target in tables.targets.items()}
    check_recorded_here(name, control.name, control.topic_id, recorded, start.first_run)
    ends = (held_ends(text, control.topic_id, name, start.base_batch) for text in recorded.values())
    held = tuple(each for each in ends if each)
    say("first run" if start.first_run else f"goes on after batch {start.batch}")
    if totals.written and not tables.targets and not tables.troubles:
        written = counted(totals.written, "record")
        say(LogLine(f"none of its tables is there, though {written} were written: new ones begin empty", Level.WARNING))
    for topic, partition in start.returned:
        say(f"{topic}-{partition} was given up at {start.positions[topic, partition]:,} and goes on from there")
    announcer.claim(start.claimed_batch, start.positions, totals, start.given_up)
    taken_over = next_cut(start.positions, held) is not None
    announced = AnnouncedTables(name, control.topic_id, taken_over)
    return Begun(start.positions, start.claimed_batch, totals, start.given_up, held, announced)
