"""Why one record cannot be decoded, routed or converted, as an exception inside the record package.

It never leaves `framework.record`: `framework.record.process` turns it into a DeadLetter, or counts it as dropped.
"""

from __future__ import annotations

from framework.config.spec import ErrorPolicy
from framework.record.model import DeadLetter, RecordBlock


class RecordFailure(Exception):
    """One record's failure: the stage, a stable code, a sentence, and for values the field, what was expected, what
    came.

    `wider` is the type to which the column could be widened so that the value fits, if Iceberg allows one. `policy` is
    what the table's own policy says of such a record, where it says more than `errors.policy`. `is_empty`: the value is
    `[]` or `{}`, or such as hold nothing else, or nulls. `field_path` is dotted; list elements are `items[2]`, map
    values `attributes['colour']`.
    """

    def __init__(
        self,
        stage: str,
        code: str,
        message: str,
        *,
        field_path: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
        wider: str | None = None,
        policy: ErrorPolicy | None = None,
        is_empty: bool = False,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.code = code
        self.message = message
        self.field_path = field_path
        self.expected = expected
        self.actual = actual
        self.wider = wider
        self.policy = policy
        self.is_empty = is_empty

    def at(self, field_path: str, message: str) -> RecordFailure:
        """The same failure at another path, in other words."""
        return RecordFailure(
            self.stage,
            self.code,
            message,
            field_path=field_path,
            expected=self.expected,
            actual=self.actual,
            wider=self.wider,
            policy=self.policy,
            is_empty=self.is_empty,
        )

    def dead_letter(self, block: RecordBlock, index: int) -> DeadLetter:
        """The record at position `index` of the block, whole, with this reason."""
        return DeadLetter(
            topic=block.topic,
            partition=block.partition,
            offset=block.offsets[index],
            timestamp_ms=block.timestamps_ms[index],
            key=block.key(index),
            value=block.values[index],
            headers=block.headers_of(index),
            stage=self.stage,
            code=self.code,
            message=self.message,
            field_path=self.field_path,
            expected=self.expected,
            actual=self.actual,
        )


def shown(value: object, limit: int = 80) -> str:
    """A value as people may read it in a message, cut to `limit` characters."""
    text = str(value) if not isinstance(value, str) else value
    return text if len(text) <= limit else text[: limit - 1] + "…"
