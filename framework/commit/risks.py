"""What is not in trouble yet and will be: records that retention is about to take, and leadership that nobody keeps.

In: what a broker says of partitions, and who says in the log that it coordinates, as values; the time is an argument.
Out: a `Risk` or None. The alerts fire at the same bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from framework.commit.dead_letter_history import DeadLetterFlood
from framework.commit.events.event_types import (
    CommitComplete,
    ControlEvent,
    CoordinatorAssigned,
    CoordinatorReleased,
    Deployed,
    StateChanged,
    Subject,
)
from framework.diagnose.counted import counted, share_of
from framework.diagnose.shown import argument

RETENTION_NEAR, COORDINATOR_FLAPS, MANY_DEAD_LETTERS = "FLOE-R152", "FLOE-R153", "FLOE-R154"
FEED_SILENT, RECORDS_HIDDEN = "FLOE-R155", "FLOE-R156"
USED_MOST = 0.8
TAKEOVERS_MOST = 3
TAKEOVERS_MIN = 15
TAKEOVERS_KEPT = 100
A_WEEK_MS = 604_800_000
# Kafka's own bound of a transaction (`transaction.max.timeout.ms`): one that is open for longer was forgotten.
OPEN_MOST_MS = 900_000


@dataclass(frozen=True)
class Risk:
    """`kind` is `pipeline` or `coordinator`; `name` the pipeline's or the control topic's."""

    kind: str
    name: str
    reason: str
    remedy: str
    code: str
    since_ms: int | None


@dataclass(frozen=True)
class LeadershipClaim:
    """Somebody coordinates. `begins`: it says so of itself at its start; else something else shows it, which is all that
    coordinators of older versions tell. `ends`: its work is done, and it coordinates no more."""

    coordinator: str
    at_ms: int
    begins: bool = False
    reads_again: bool = False
    ends: bool = False


def leadership_claim(event: ControlEvent | None) -> LeadershipClaim | None:
    """What an event says of who coordinates."""
    if isinstance(event, CoordinatorAssigned):
        return LeadershipClaim(event.coordinator, event.timestamp_ms, True, event.reads_again)
    if isinstance(event, CoordinatorReleased):
        return LeadershipClaim(event.coordinator, event.timestamp_ms, ends=True)
    if isinstance(event, CommitComplete):
        return LeadershipClaim(event.coordinator, event.timestamp_ms)
    if isinstance(event, StateChanged) and event.subject is Subject.TABLE:
        return LeadershipClaim(event.by, event.timestamp_ms)
    return None


@dataclass(frozen=True)
class LeadershipHistory:
    """Who coordinated, folded from the log in its order. Leadership is taken from nobody by the first one that is seen, and
    by the one after another whose work was done: bounded runs by the minute are no trouble."""

    owner: str = ""
    owner_ms: int = 0
    takeovers_ms: tuple[int, ...] = ()
    announced: tuple[str, ...] = ()

    def after(self, claim: LeadershipClaim | None) -> LeadershipHistory:
        if claim is None or not claim.coordinator:
            return self
        who = claim.coordinator
        if claim.ends:
            return replace(self, owner="") if who == self.owner else self
        if claim.begins:
            is_new = bool(self.owner) and not (claim.reads_again and who == self.owner)
            announced = (*self.announced, who)[-TAKEOVERS_KEPT:]
        else:
            # A late word of one before says nothing new, nor does anything of one that reported when it began.
            if who == self.owner or claim.at_ms < self.owner_ms or who in self.announced:
                return self
            is_new, announced = bool(self.owner), self.announced
        taken = (*self.takeovers_ms, claim.at_ms)[-TAKEOVERS_KEPT:] if is_new else self.takeovers_ms
        return LeadershipHistory(who, claim.at_ms, taken, announced)


@dataclass(frozen=True)
class Held:
    """What a topic still holds of one partition, and how far it is announced. `waits_since_ms`: the time of the first
    record that is not, where somebody looked."""

    topic: str
    partition: int
    log_start: int
    log_end: int
    safe_offset: int
    waits_since_ms: int | None = None

    @property
    def used(self) -> float:
        """The part of it that is not announced; 0 while retention has removed nothing."""
        if not 0 < self.log_start < self.log_end:
            return 0.0
        return max(0, self.log_end - self.safe_offset) / (self.log_end - self.log_start)


def retention_used(held: Iterable[Held]) -> float:
    """Of the worst partition."""
    return max((each.used for each in held), default=0.0)


def nearest_to_retention(held: Iterable[Held]) -> Held | None:
    """The worst partition, if retention is near what is not announced of it."""
    worst = max(held, key=lambda each: each.used, default=None)
    return worst if worst is not None and worst.used > USED_MOST else None


def retention_near(pipeline: str, held: Iterable[Held]) -> Risk | None:
    """Retention is about to remove records that were not read, or does so already."""
    worst = nearest_to_retention(held)
    if worst is None:
        return None
    where = f"{worst.topic}-{worst.partition}"
    lost = worst.log_start - worst.safe_offset
    gone = f"; {counted(lost, 'record')} that it had not read {'is' if lost == 1 else 'are'} gone" if lost > 0 else ""
    return Risk(
        "pipeline",
        pipeline,
        f"retention is about to remove records that were not read: of the {worst.log_end - worst.log_start:,} that {where} "
        f"still holds {min(1.0, worst.used):.0%} are not announced{gone}",
        "keep them longer first: `kafka-configs.sh --bootstrap-server BROKER --alter "
        f"--topic {argument(worst.topic)} --add-config retention.ms={A_WEEK_MS}`; then see why it is behind: "
        "`floe readiness FILE` says how long is left",
        RETENTION_NEAR,
        worst.waits_since_ms,
    )


def many_dead_letters(pipeline: str, flood: DeadLetterFlood | None) -> Risk | None:
    """More of its newest records become dead letters than a feed has that is well."""
    if flood is None:
        return None
    return Risk(
        "pipeline",
        pipeline,
        f"{share_of(flood.dead_letters, flood.records)} of the newest {counted(flood.records, 'record')} are dead letters",
        "`floe dlq stats FILE` says why, and which records; "
        f"`floe pause --reading {argument(pipeline)}` holds it until file or producer is right",
        MANY_DEAD_LETTERS,
        flood.since_ms,
    )


@dataclass(frozen=True)
class Silence:
    """What its file allows a pipeline's topics, and when its newest batch of records was announced."""

    after_ms: int | None = None
    newest_ms: int | None = None


def silent_after_ms(deployed: Deployed) -> int | None:
    """What the file of a run says, if anything, as the run published it."""
    plan = deployed.plan.get("plan")
    announce = plan.get("announce") if isinstance(plan, dict) else None
    found = announce.get("silent_after_ms") if isinstance(announce, dict) else None
    return found if isinstance(found, int) and found > 0 else None


def feed_silent(pipeline: str, silence: Silence, now_ms: int) -> Risk | None:
    """No record comes any more where the file says that some always do: a producer that stopped ends no run."""
    if silence.after_ms is None or silence.newest_ms is None or now_ms - silence.newest_ms < silence.after_ms:
        return None
    return Risk(
        "pipeline",
        pipeline,
        f"no record came for longer than {counted(silence.after_ms // 1_000, 'second')}, which its file has as "
        "`source.silent_after`",
        f"look at the producer; `floe offsets show {argument(pipeline)}` shows the ends of its topics",
        FEED_SILENT,
        silence.newest_ms,
    )


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is open in a partition: from the offset of its first record on, nobody reads what is written there.
    `hidden` offsets are; `since_ms`: the time of that first record, where somebody looked."""

    topic: str
    partition: int
    offset: int
    hidden: int
    since_ms: int | None = None


def records_hidden(pipeline: str, found: Iterable[OpenTransaction], now_ms: int) -> Risk | None:
    """A transaction that somebody left open hides what is written behind it: lag is 0, and nothing arrives."""
    old = [each for each in found if each.since_ms is not None and now_ms - each.since_ms > OPEN_MOST_MS]
    if not old:
        return None
    first = min(old, key=lambda each: each.since_ms or 0)
    others = (
        f"; {counted(len(old) - 1, 'other partition')} {'has' if len(old) == 2 else 'have'} one too" if old[1:] else ""
    )
    return Risk(
        "pipeline",
        pipeline,
        f"a transaction is open in {first.topic}-{first.partition} and hides {counted(first.hidden, 'offset')} from "
        f"{first.offset:,} on{others}",
        "look whether its producer still works; if not, `kafka-transactions.sh --bootstrap-server BROKER abort "
        f"--topic {argument(first.topic)} --partition {first.partition} --start-offset {first.offset}` ends it, and what is "
        "behind it is read",
        RECORDS_HIDDEN,
        first.since_ms,
    )


def recent(takeovers_ms: Iterable[int], now_ms: int) -> list[int]:
    """Those that count now."""
    return [at_ms for at_ms in takeovers_ms if now_ms - at_ms <= TAKEOVERS_MIN * 60_000]


def coordinator_flaps(control_topic: str, takeovers_ms: Iterable[int], now_ms: int) -> Risk | None:
    """Who coordinates has changed too often lately."""
    lately = recent(takeovers_ms, now_ms)
    if len(lately) <= TAKEOVERS_MOST:
        return None
    return Risk(
        "coordinator",
        control_topic,
        f"who coordinates changed {counted(len(lately), 'time')} in {TAKEOVERS_MIN} minutes, and each reads the log again before "
        "it commits",
        "`floe log --last 200` shows who; end drivers that start and fail, and look whether machines lack memory or the "
        "broker is restarted; `floe coordinator` on a quiet machine keeps leadership",
        COORDINATOR_FLAPS,
        min(lately),
    )
