"""When a pipeline starts its next batch. In: the clock, the backlog and what was done last. Out: one decision as a
value.

Trigger `auto`: one batch per shortest commit interval, sooner when a full batch, or about `max_bytes` or `max_rows`,
wait. A batch is cut where it would make so many files that holding and announcing them, not their rows, would fill the
memory, or where more bytes would wait in its tasks for the exchange than they have room for. It grows where its records
take little time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# A file costs kilobytes in the driver until its table is committed: statistics of each column, and again while they are
# made into text.
MAX_FILES_PER_BATCH = 25_000
# Nothing is known of what records become before the first batch of a run.
FIRST_BATCH_RECORDS = 25_000
# Between two batches nothing is read, and a file costs a millisecond however few its rows are: a batch is up to three
# times its usual size where that takes no longer than a part of the interval. What is stopped or dies is done again.
MOST_GROWTH = 5
# Of one task of a batch whose rows cross the exchange: they wait there on both sides of it, beyond a part of that on disk.
SENT_BYTES_PER_TASK = 512 * 1024 * 1024
LONGEST_GROWN_S = 10.0


class Pace(Enum):
    """What to do now."""

    BATCH = "batch"
    HEARTBEAT = "heartbeat"
    WAIT = "wait"
    DONE = "done"


@dataclass(frozen=True)
class PaceRules:
    """`max_records` is one batch's cap, or where they take little time up to `most_records`; `max_bytes` and `max_rows`
    are the smallest limits of the pipeline's tables. `most_sent_bytes` of rows may cross the exchange in one batch."""

    every_ms: int
    heartbeat_ms: int
    max_records: int
    most_records: int
    max_bytes: int
    max_rows: int
    most_sent_bytes: int | None = None


@dataclass(frozen=True)
class PaceFacts:
    """`backlog` is in records up to the wanted end; `bytes_per_record` is an estimate from what was written before.

    `last_batch_ms` is when the newest batch was started, None before the first; `was_cut`: it was smaller than what
    waited then; `bounded` means: stop at a fixed end.
    """

    now_ms: int
    backlog: int
    bytes_per_record: float
    last_batch_ms: int | None
    last_announce_ms: int
    bounded: bool
    draining: bool
    paused: bool = False
    was_cut: bool = False


@dataclass(frozen=True)
class BatchBefore:
    """What the newest batch of this run made of its records, of which there was one at least, how long it took, and how
    many bytes of rows crossed the exchange."""

    records: int
    files: int
    seconds: float
    sent_bytes: int = 0


def records_in_batch(rules: PaceRules, before: BatchBefore | None) -> int:
    """How many records the next batch may have, at least one; `before` is None where there was no batch in this run."""
    if before is None:
        return min(rules.max_records, FIRST_BATCH_RECORDS)
    in_time = before.records / max(before.seconds, 0.001) * min(LONGEST_GROWN_S, rules.every_ms / 2000)
    cap = max(rules.max_records, min(int(in_time), rules.most_records))
    if before.files * cap > MAX_FILES_PER_BATCH * before.records:
        cap = MAX_FILES_PER_BATCH * before.records // before.files
    if rules.most_sent_bytes is not None and before.sent_bytes * cap > rules.most_sent_bytes * before.records:
        cap = rules.most_sent_bytes * before.records // before.sent_bytes
    return max(1, cap)


def decide_pace(rules: PaceRules, facts: PaceFacts) -> Pace:
    """The next thing to do; the caller asks again after a moment when it is WAIT."""
    if facts.draining or (facts.bounded and facts.backlog == 0):
        return Pace.DONE
    if facts.backlog and not facts.paused:
        full = (
            facts.backlog >= rules.max_records
            or facts.backlog >= rules.max_rows
            or facts.backlog * facts.bytes_per_record >= rules.max_bytes
        )
        due = facts.last_batch_ms is None or facts.now_ms >= facts.last_batch_ms + rules.every_ms
        if facts.bounded or facts.was_cut or full or due:
            return Pace.BATCH
    if facts.now_ms >= facts.last_announce_ms + rules.heartbeat_ms:
        return Pace.HEARTBEAT
    return Pace.WAIT
