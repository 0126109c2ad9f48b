"""Files of records that people name on a command line."""

from __future__ import annotations

from pathlib import Path

from framework.errors import ConfigError
from framework.record.proposal.record_file import RecordFile, read_records


def read_record_file(name: str) -> RecordFile:
    """The records of a file.

    Raises:
        ConfigError: FLOE-E038, it cannot be read, or holds no records.
    """
    try:
        return read_records(Path(name).read_bytes())
    except OSError as error:
        reason, remedy = f"{name} cannot be read: {error.strerror}", "check the path"
    except ValueError as error:
        reason = f"{name} cannot be read: {error}"
        remedy = "give it records: one JSON object a line, a JSON list, or CSV with a head"
    raise ConfigError(reason, code="FLOE-E038", place=name, remedy=remedy)
