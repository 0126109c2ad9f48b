"""The one tree of errors that floe shows to people, with what each means for the process's exit code.

    FloeError                     1  something failed while running
    ├── ConfigError               2  a file is wrong; carries every diagnostic found
    ├── SetupError                3  the environment is wrong: no Java, no broker, no catalog, a missing package
    ├── FencedError               4  a newer run of the same pipeline owns the transactional id; final, never retried
    ├── OutcomeUnknown            1  a commit was sent and no answer came; read back before anything else (invariant 7)
    ├── StateDisagreement         5  stored positions disagree (group, control topic, tables); needs a person's decision
    │   └── DataLossError         5  records or announcements that were promised are gone
    ├── AccountingError           1  the sum of invariant 8 is off; the batch is not announced
    ├── RecordError               1  a record cannot be written and the pipeline file says `fail`
    │   └── TooManyDeadLetters    8  `errors.max_ratio` or `errors.max_count` is passed; needs a person's decision
    ├── TableBlocked              6  a table is missing, replaced, rolled back or refuses a change (invariant 10)
    ├── DeadlinePassed            7  a commit was asked for and did not come in time
    └── RetriableError            1  it certainly did not happen and may be tried again as it is

Each carries a stable code, a sentence, the place it is about and one remedy. Signals end with 128 + their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.diagnose.diagnostic import Diagnostic


class FloeError(Exception):
    """Base of all errors made for people.

    Args:
        message: one sentence that says what is wrong, with the values that disagree.
        code: stable identifier such as ``FLOE-R101``; see `framework.diagnose.codes.catalogue`.
        place: what it is about: a file position, a topic-partition, a table, an address.
        remedy: one sentence that says what to do, with the command where there is one.
        quoted: lines of somebody else's that belong to it, such as the end of a log.
        reported: the message as it may stand in the control log and on pages, where it holds a record's text; else the same.
    """

    exit_code = 1
    default_code = "FLOE-R001"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        place: str = "",
        remedy: str = "",
        quoted: tuple[str, ...] = (),
        reported: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.place = place
        self.remedy = remedy
        self.quoted = quoted
        self.reported = message if reported is None else reported

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        remedy = f"\n  remedy: {self.remedy}" if self.remedy else ""
        quoted = "".join(f"\n  | {line}" for line in self.quoted)
        return f"error[{self.code}] {self.message}{place}{quoted}{remedy}"


class ConfigError(FloeError):
    """A file is wrong. `diagnostics` holds every finding, in file order."""

    exit_code = 2
    default_code = "FLOE-C001"

    def __init__(
        self,
        message: str,
        diagnostics: tuple[Diagnostic, ...] = (),
        *,
        code: str | None = None,
        place: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(message, code=code, place=place, remedy=remedy)
        self.diagnostics = diagnostics


class SetupError(FloeError):
    """The environment is wrong: nothing was read and nothing was written."""

    exit_code = 3
    default_code = "FLOE-E001"


class FencedError(FloeError):
    """A newer run of this pipeline has taken over. Final: two supervised runs would fence each other for ever."""

    exit_code = 4
    default_code = "FLOE-R104"


class OutcomeUnknown(FloeError):
    """Something was sent and its outcome is not known. Invariant 7: read back first; delete nothing meanwhile."""

    default_code = "FLOE-R107"


class StateDisagreement(FloeError):
    """Positions kept in different places disagree; the message shows both values."""

    exit_code = 5
    default_code = "FLOE-R105"


class DataLossError(StateDisagreement):
    """Records or announcements that were promised are no longer there."""

    default_code = "FLOE-R111"


class AccountingError(FloeError):
    """Invariant 8 does not hold for a batch; it was not announced."""

    default_code = "FLOE-R108"


class RecordError(FloeError):
    """A record cannot be written and the policy is `fail`; nothing of its batch was announced."""

    default_code = "FLOE-R109"


class TooManyDeadLetters(RecordError):
    """More dead letters than the pipeline file allows; nothing of the batch was announced. Starting again would read
    the same records, so a supervisor must not."""

    exit_code = 8
    default_code = "FLOE-R322"


class TableBlocked(FloeError):
    """One table cannot be written; the others go on."""

    exit_code = 6
    default_code = "FLOE-R110"


class DeadlinePassed(FloeError):
    """What was asked for did not happen in time."""

    exit_code = 7
    default_code = "FLOE-R112"


class RetriableError(FloeError):
    """It certainly did not happen, and the same call may be made again: an aborted transaction, a broker that moves."""

    default_code = "FLOE-R120"
