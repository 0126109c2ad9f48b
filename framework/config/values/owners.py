"""Who owns what of a pipeline: teams by duty, and whose agreement a change needs.

In: the value of `owners:`, from a file or from what a run published. Out: `Owners`, duties without an owner, and the duties
that changes touch. Invariant: who owns what is decided here alone; whatever shows it, asks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum


class Duty(str, Enum):
    """What somebody must answer for, by its key in `owners:`."""

    PIPELINE = "pipeline"
    SCHEMA = "schema"
    CATALOG = "catalog"
    TOPICS = "topics"
    DEAD_LETTERS = "dead_letters"
    CUT_OVER = "cut_over"


MEANING = {
    Duty.PIPELINE: "the running pipeline",
    Duty.SCHEMA: "changes of columns",
    Duty.CATALOG: "grants in the catalog and the store",
    Duty.TOPICS: "access lists of the topics",
    Duty.DEAD_LETTERS: "dead letters",
    Duty.CUT_OVER: "the decision to cut over",
}
# Subjects of a plan's changes that decide what columns tables have, and of which type.
_OF_COLUMNS = ("source.schema", "source.format", "source.key", "source.metadata_columns", "transform.sql")
_POLICIES_OF_COLUMNS = (".evolve", ".values")


@dataclass(frozen=True)
class OwningTeam:
    """A team, how it is reached, and where it says what to do; "" where the file does not say."""

    team: str
    contact: str = ""
    runbook: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.team, self.contact, self.runbook) if part)


@dataclass(frozen=True)
class Owners:
    """The team of each duty; None where nobody is named. No duty passes to the owner of another one."""

    pipeline: OwningTeam | None = None
    schema: OwningTeam | None = None
    catalog: OwningTeam | None = None
    topics: OwningTeam | None = None
    dead_letters: OwningTeam | None = None
    cut_over: OwningTeam | None = None

    def of(self, duty: Duty) -> OwningTeam | None:
        found: OwningTeam | None = getattr(self, duty.value)
        return found

    @property
    def named(self) -> tuple[tuple[Duty, OwningTeam], ...]:
        return tuple((duty, team) for duty in Duty if (team := self.of(duty)) is not None)

    def to_json(self) -> dict[str, dict[str, str]]:
        """By duty, without what is not said."""
        return {duty.value: {key: text for key, text in asdict(team).items() if text} for duty, team in self.named}


NOBODY = Owners()


def owners_in(value: object) -> Owners:
    """The owners in a value of `owners:`, with a plain text for a team; what is of another form is left out."""
    if not isinstance(value, Mapping):
        return NOBODY
    found = {duty.value: _team(value.get(duty.value)) for duty in Duty}
    return Owners(**found)


def _team(value: object) -> OwningTeam | None:
    said = {"team": value} if isinstance(value, str) else value
    if not isinstance(said, Mapping) or not isinstance(said.get("team"), str) or not said["team"]:
        return None
    team, contact, runbook = (said.get(key, "") for key in ("team", "contact", "runbook"))
    return OwningTeam(team, contact if isinstance(contact, str) else "", runbook if isinstance(runbook, str) else "")


def duties(keeps_dead_letters: bool) -> tuple[Duty, ...]:
    """What needs an owner. A pipeline that keeps no dead letters has none for somebody to look at."""
    return tuple(duty for duty in Duty if keeps_dead_letters or duty is not Duty.DEAD_LETTERS)


def changes_columns(subjects: Iterable[str]) -> bool:
    """Whether changes of a plan, by their subjects, touch what columns tables have: then the owner of the schema agrees."""
    return any(
        subject.startswith(_OF_COLUMNS) or any(f"{part}." in f"{subject}." for part in _POLICIES_OF_COLUMNS)
        for subject in subjects
    )
