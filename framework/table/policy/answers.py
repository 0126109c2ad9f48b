"""What the policy answers when a table lacks something for a record, as a value that whoever asked carries out.

In: nothing. Out: an Act, and for a record that is an error what becomes of it. The same answer holds on every way that
a record can take.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from framework.config.spec import ErrorPolicy


class Act(Enum):
    """What is done for a record that does not fit its table as it is."""

    CHANGE = "change"  # the table changes first: it is made, or a column is added, widened or relaxed
    BESIDE = "beside"  # the value goes to a column of its own beside its column
    LEAVE_OUT = "leave out"  # the value is left out, or the record where the table is what it lacks
    REFUSE = "refuse"  # the record is an error


@dataclass(frozen=True)
class PolicyAnswer:
    """
    Attributes:
        errors: of a record that is an error, what the table's own policy makes of it; None leaves that to
            `errors.policy`.
        frozen: why the table is not changed now, where a change would have let the record in; "" otherwise.
    """

    act: Act
    errors: ErrorPolicy | None = None
    frozen: str = ""


# There is nothing around the value that could be left out with it.
NOTHING_TO_LEAVE_OUT = PolicyAnswer(Act.REFUSE)
