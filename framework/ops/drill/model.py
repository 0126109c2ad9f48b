"""The drills as values: which there are, what each is named in broker and catalog, and what counts as passed.

In: names, rows that were read, results that were kept. Out: a judgement, and what is left of drills that were killed.
Invariant: a name that no drill gave is never one of a drill's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum

from pydantic import TypeAdapter

from framework.commit.recovery.missing import REPLAY
from framework.diagnose.counted import counted

RECORDS = 2_000  # of a round; each drill has one or two
KINDS = ("left", "right")
PARTITIONS = 2
_NAMED = 3  # ids in a sentence

Row = tuple[int, str, str]


class Drill(str, Enum):
    """In the order in which they run."""

    CRASH_BEFORE_ANNOUNCEMENT = "crash-before-announcement"
    CRASH_BEFORE_COMMIT = "crash-before-commit"
    CATALOG_OUTAGE = "catalog-outage"
    LOST_COORDINATOR = "lost-coordinator"
    ROLLBACK_AND_REPLAY = "rollback-and-replay"
    LOST_OFFSETS = "lost-offsets"


MEANING = {
    Drill.CRASH_BEFORE_ANNOUNCEMENT: "kill -9 of the driver: its files are written, nothing is announced",
    Drill.CRASH_BEFORE_COMMIT: "kill -9 of the driver: its files are announced, no table has them",
    Drill.CATALOG_OUTAGE: "the coordinator gets errors in place of the catalog's answers; the catalog itself stays up",
    Drill.LOST_COORDINATOR: "kill -9 of the coordinator after a commit that it has not recorded; another one takes over",
    Drill.ROLLBACK_AND_REPLAY: "a table is rolled back, and what it lost is replayed",
    Drill.LOST_OFFSETS: "the consumer group with the source offsets is deleted",
}


@dataclass(frozen=True)
class DrillNames:
    """What one drill is called. The time is in the namespace, so that what a killed drill left is known by its name alone."""

    prefix: str
    namespace: str

    @property
    def pipeline(self) -> str:
        return self.namespace.removeprefix("floe_").replace("_", "-")

    @property
    def topic(self) -> str:
        return f"{self.prefix}-{self.pipeline}"

    @property
    def control_topic(self) -> str:
        return f"{self.topic}-control"


def results_topic(prefix: str) -> str:
    """Where the results of a target are kept."""
    return f"{prefix}-drills"


def made_at_s(name: str, prefix: str) -> int | None:
    """When the drill began that a topic or a consumer group of this name is of; None where it is of no drill."""
    ours = re.escape(prefix)
    drill = r"drill-([0-9a-f]{8})-[0-9a-f]{8}"
    replay = re.escape(REPLAY) + r"[0-9a-f]{1,16}"
    whole = rf"{ours}-(?:coordinator-{ours}-{drill}-control|{drill}(?:-control|{replay})?)"
    found = re.fullmatch(whole, name)
    return int(found[1] or found[2], 16) if found else None


def records(first: int, count: int) -> list[Row]:
    """So many records from an id on: id, the table's word, and a text that nothing but the id gives."""
    return [(each, KINDS[each % len(KINDS)], f"note {each * 7919 % 100_003}") for each in range(first, first + count)]


@dataclass(frozen=True)
class JudgedRows:
    """`missing`: ids without their row; `repeated`: with more than one; `foreign`: rows that no record gives."""

    rows: int
    missing: tuple[int, ...]
    repeated: tuple[int, ...]
    foreign: tuple[Row, ...]

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.foreign)

    def __str__(self) -> str:
        if self.is_exact:
            return f"{counted(self.rows, 'row')}, each once"
        said = [
            f"{counted(len(ids), 'record')} {what} (id {', '.join(map(str, ids[:_NAMED]))}{', ...' if ids[_NAMED:] else ''})"
            for what, ids in (("missing", self.missing), ("more than once", self.repeated))
            if ids
        ]
        said += [f"{counted(len(self.foreign), 'row')} of no record"] if self.foreign else []
        return "; ".join(said)


def judge_rows(wanted: Iterable[Row], found: Iterable[Row]) -> JudgedRows:
    """Whether the tables hold each record once. A row is `(id, table's word, text)`."""
    held, expected = Counter(found), set(wanted)
    return JudgedRows(
        held.total(),
        tuple(sorted(row[0] for row in expected if not held[row])),
        tuple(sorted(row[0] for row in expected if held[row] > 1)),
        tuple(sorted(row for row in held if row not in expected)),
    )


@dataclass(frozen=True)
class DrillResult:
    """What one drill has shown. `steps`: what was done and seen, in order. `problem`: why it failed, "" where it passed."""

    drill: Drill
    target: str
    catalog: str
    timestamp_ms: int
    seconds: float
    rows: int
    steps: tuple[str, ...]
    by: str
    floe: str
    problem: str = ""
    code: str = ""
    remedy: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem

    def to_json(self) -> dict[str, object]:
        return {"passed": self.passed, **asdict(self), "drill": self.drill.value, "steps": list(self.steps)}


_RESULT = TypeAdapter(DrillResult)


def again(drill: Drill) -> str:
    return f"`floe drill {drill.value}` runs it again; if it fails again, report it with its steps"


def result_of(value: bytes | None) -> DrillResult | None:
    """A result as it was kept; None for a record that is none. Whoever may write to the topic says what a drill has shown, but
    never what is to be typed."""
    try:
        found = _RESULT.validate_json(value or b"", strict=True)
    except ValueError:
        return None
    return replace(found, remedy="" if found.passed else again(found.drill))


def newest(results: Iterable[DrillResult], target: str, catalog: str) -> Mapping[Drill, DrillResult]:
    """The last result of each drill on a catalog of a target."""
    found: dict[Drill, DrillResult] = {}
    for each in results:
        if (each.target, each.catalog) == (target, catalog):
            before = found.get(each.drill)
            found[each.drill] = each if before is None or each.timestamp_ms >= before.timestamp_ms else before
    return found
