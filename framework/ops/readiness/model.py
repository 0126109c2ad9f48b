"""The scorecard of a migration review, as values: what was looked at, what was seen, and what to do about it.

In: checks as functions. Out: a `Scorecard` with a verdict for each, and whether it is a go. Invariant: a check that did not
run, or that could not find out, never says `pass`: what it raises is a `fail`, and what cannot be seen now is
`not checked`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from enum import Enum

from framework.adapters.secrets import hidden
from framework.diagnose.counted import in_two_units
from framework.diagnose.shown import argument
from framework.errors import FloeError

NO_GO = 10


class CheckVerdict(str, Enum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    NOT_CHECKED = "not checked"


_WORST_LAST = (CheckVerdict.PASS, CheckVerdict.NOT_CHECKED, CheckVerdict.WARN, CheckVerdict.FAIL)


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence. `remedy` is a command, or what to do; "" where nothing is."""

    verdict: CheckVerdict
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """One question of the review. `verdict` is that of its worst evidence; without any evidence it was not checked."""

    name: str
    question: str
    seen: tuple[Evidence, ...]

    @property
    def verdict(self) -> CheckVerdict:
        if not self.seen:
            return CheckVerdict.NOT_CHECKED
        return max((each.verdict for each in self.seen), key=_WORST_LAST.index)


@dataclass(frozen=True)
class Scorecard:
    """`cut_over` and `back` are the steps to this pipeline and away from it, with the offsets as they were at `at_ms`."""

    pipeline: str
    target: str
    file: str
    floe: str
    at_ms: int
    checks: tuple[Check, ...]
    cut_over: tuple[str, ...] = ()
    back: tuple[str, ...] = ()

    @property
    def is_go(self) -> bool:
        """Whether nothing fails; what warns or was not checked is for people to judge."""
        return all(check.verdict is not CheckVerdict.FAIL for check in self.checks)

    @property
    def exit_code(self) -> int:
        return 0 if self.is_go else NO_GO

    def to_json(self) -> dict[str, object]:
        return {
            "command": "readiness",
            "ok": self.is_go,
            "pipeline": self.pipeline,
            "target": self.target,
            "file": self.file,
            "floe": self.floe,
            "timestamp_ms": self.at_ms,
            "checks": [
                {
                    "name": check.name,
                    "question": check.question,
                    "verdict": check.verdict.value,
                    "seen": [{**asdict(each), "verdict": each.verdict.value} for each in check.seen],
                }
                for check in self.checks
            ],
            "cut_over": list(self.cut_over),
            "back": list(self.back),
        }


def passed(text: str) -> Evidence:
    return Evidence(CheckVerdict.PASS, text)


def warned(text: str, remedy: str) -> Evidence:
    return Evidence(CheckVerdict.WARN, text, remedy)


def failed(text: str, remedy: str) -> Evidence:
    return Evidence(CheckVerdict.FAIL, text, remedy)


def not_checked(text: str, remedy: str = "") -> Evidence:
    return Evidence(CheckVerdict.NOT_CHECKED, text, remedy)


def look(name: str, question: str, find: Callable[[], Iterable[Evidence]]) -> Check:
    """The answer to one question. What it raises is a fail behind what it found before, whatever that was."""
    seen: list[Evidence] = []
    try:
        for each in find():
            seen.append(each)
    except FloeError as raised:
        place = f" ({raised.place})" if raised.place else ""
        remedy = raised.remedy or f"floe explain {raised.code}"
        seen.append(failed(f"could not be found out: {raised.message}{place} [{raised.code}]", remedy))
    except Exception as raised:  # a review reports what it did not expect, and looks on
        first = (str(raised).strip().splitlines() or [""])[0]
        seen.append(
            failed(f"could not be found out: {type(raised).__name__}: {first}", "this is unexpected; please report it")
        )
    return Check(name, question, tuple(replace(e, text=hidden(e.text), remedy=hidden(e.remedy)) for e in seen))


# ---- time to data loss ------------------------------------------------------------------------------------------------

HOUR_MS = 3_600_000
FAIL_BELOW_MS = HOUR_MS
WARN_BELOW_MS = 24 * HOUR_MS
_WEEK_MS = 168 * HOUR_MS


@dataclass(frozen=True)
class PartitionBacklog:
    """What of a partition is not read, or not committed, and how long its topic keeps it. `oldest_ms` is the time of the
    first record that waits, None where none does or it could not be read; `retention_ms` and `retention_bytes` are -1 for
    no limit."""

    place: str
    position: int
    log_start: int
    log_end: int
    oldest_ms: int | None
    retention_ms: int
    retention_bytes: int
    is_compacted: bool = False

    @property
    def records(self) -> int:
        return max(0, self.log_end - self.position)


def judge_retention(
    waiting: PartitionBacklog, now_ms: int, topic: str, what: str, broker: str, outage_ms: int | None = None
) -> Evidence:
    """Retention against lag: how long until a record goes that waits, or that would wait if everything stopped now.

    Args:
        what: what the records wait for, such as `read`.
        broker: its address, for the commands of remedies.
        outage_ms: how long everything may stand still without loss, if somebody said so.
    """
    alter = f"kafka-configs.sh --bootstrap-server {argument(broker)} --alter --topic {argument(topic)} --add-config"
    raise_it = f"{alter} retention.ms={max(_WEEK_MS, 2 * (outage_ms or 0))}"
    no_size = f"{alter} retention.bytes=-1"
    text = f"{waiting.place}: {waiting.records:,} offsets not {what} of [{waiting.log_start}, {waiting.log_end})"
    if waiting.position < waiting.log_start:
        lost = waiting.log_start - waiting.position
        return failed(f"{waiting.place}: {lost:,} offsets from {waiting.position} on are gone already", raise_it)
    if waiting.is_compacted:
        text = f"{waiting.place}: the topic is compacted: of a key only the newest record is sure to be {what}"
        return warned(text, f"{alter} cleanup.policy=delete")
    by_size = f"; it also goes by size (retention.bytes={waiting.retention_bytes:,}), which has no time"
    if waiting.retention_ms < 0:
        text += ", kept for ever"
        return passed(text) if waiting.retention_bytes < 0 else warned(text + by_size, no_size)
    kept = f"kept {in_two_units(waiting.retention_ms)}"
    if waiting.records and waiting.oldest_ms is None:
        return not_checked(f"{text}, {kept}: the time of the first of them could not be read", raise_it)
    waited_ms = now_ms - waiting.oldest_ms if waiting.records and waiting.oldest_ms is not None else 0
    left = waiting.retention_ms - waited_ms
    text += f", {kept}: {in_two_units(max(0, left))} until data is lost" if waiting.records else f", {kept}"
    if outage_ms is not None and left < outage_ms:
        return failed(f"{text}; an outage of {in_two_units(outage_ms)} would lose data", raise_it)
    if left < FAIL_BELOW_MS:
        return failed(text, raise_it)
    if left < WARN_BELOW_MS:
        return warned(text + (by_size if waiting.retention_bytes >= 0 else ""), raise_it)
    if waiting.retention_bytes >= 0:
        return warned(text + by_size, no_size)
    return passed(text)
