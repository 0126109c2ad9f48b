"""What a run will find and do, as values: tables to create or change, offsets to start from, and what stops it.

In: what `framework.ops.preview.decisions` finds. Out: frozen values with a stable JSON form
(`schemas/plan.v1.schema.json`). No engine is imported here, so that a plan that asks nobody is shown at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum

from framework.config.spec import TemplateUse
from framework.config.values.owners import OwningTeam, changes_columns
from framework.errors import FloeError
from framework.plan.canonical import plain
from framework.plan.diff.diff import PlanChange
from framework.plan.explain import plan_to_json
from framework.plan.model import Plan


class Action(str, Enum):
    """What becomes of a pipeline or of a table."""

    START = "start"
    RESTART = "restart"
    UNCHANGED = "unchanged"
    CREATE = "create"
    ALTER = "alter"
    KEEP = "keep"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Problem:
    """What stops a run at its start, with the exit code that it would end with."""

    code: str
    message: str
    remedy: str
    exit_code: int

    @classmethod
    def of(cls, error: FloeError) -> Problem:
        place = f" ({error.place})" if error.place and error.place not in error.message else ""
        return cls(error.code, error.message + place, error.remedy, error.exit_code)


@dataclass(frozen=True)
class PlanWarning:
    """What stops no run, and may lose records later."""

    message: str
    remedy: str


MUST_FIT = "; values must fit the column"


@dataclass(frozen=True)
class TablePreview:
    """`columns` are made or added; `properties` are set, or those of the table that is there but floe's own; `location`
    is where its files lie, "" where the catalog chooses; `notes` say what is left as it is, or waits for a record;
    `upserted_by` is the key of an upsert table, () where rows are just added."""

    table: str
    action: Action
    columns: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""
    location: str = ""
    upserted_by: tuple[str, ...] = ()

    @property
    def other_types(self) -> tuple[str, ...]:
        """The notes about columns that have another type than the file declares."""
        return tuple(note for note in self.notes if note.endswith(MUST_FIT))


@dataclass(frozen=True)
class PartitionStart:
    """`by` is `group` (a safe offset), `starting_offsets` (a first run) or `new partition` (read from its
    beginning)."""

    topic: str
    partition: int
    start: int
    end: int
    by: str


@dataclass(frozen=True)
class StartPreview:
    """Where reading begins: `batch` is the newest that was announced, 0 before the first run."""

    first_run: bool
    batch: int
    partitions: tuple[PartitionStart, ...]


@dataclass(frozen=True)
class DeployedPreview:
    """What is on record of the newest run."""

    hash: str
    run: str
    floe: str
    timestamp_ms: int
    deployment: str


@dataclass(frozen=True)
class PipelinePreview:
    """One pipeline. `changes` None: it has run, and what was deployed is not known. Offline, `start` and `tables` are
    None."""

    plan: Plan
    hash: str
    action: Action
    deployed: DeployedPreview | None
    changes: tuple[PlanChange, ...] | None
    start: StartPreview | None = None
    tables: tuple[TablePreview, ...] | None = None
    problems: tuple[Problem, ...] = ()
    template: TemplateUse | None = None
    warnings: tuple[PlanWarning, ...] = ()

    @property
    def must_agree(self) -> OwningTeam | None:
        """The owner of the schema where columns change, by the file or in a table that is there; None where none do, or
        nobody is named."""
        altered = any(table.action is Action.ALTER and table.columns for table in self.tables or ())
        changed = changes_columns(change.subject for change in self.changes or ())
        return self.plan.owners.schema if altered or changed else None

    def to_json(self) -> dict[str, object]:
        value: dict[str, object] = {
            **plan_to_json(self.plan),
            "hash": self.hash,
            "action": self.action.value,
            "deployed": asdict(self.deployed) if self.deployed else None,
            "changes": None if self.changes is None else [change.to_json() for change in self.changes],
            "start": asdict(self.start) if self.start else None,
            "tables": None if self.tables is None else [_table_json(table) for table in self.tables],
            "problems": [asdict(problem) for problem in self.problems],
        }
        if self.warnings:
            value["warnings"] = [asdict(warning) for warning in self.warnings]
        if (team := self.must_agree) is not None:
            value["must_agree"] = team.team
        return value if self.template is None else {**value, "template": asdict(self.template)}


def _table_json(table: TablePreview) -> dict[str, object]:
    value = {key: plain(item) for key, item in asdict(table).items()}
    if not table.upserted_by:
        del value["upserted_by"]
    return {**value, "properties": dict(table.properties)}
