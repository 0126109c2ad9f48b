"""Holds a pipeline before it first changes a table by a key that several of its rows have.

In: a table's live files, as a batch starts from them. Out: nothing, or the error. A table is asked once, and again
when floe has added rows to it since, or changed it by another key: its snapshots say so. It may be large, so the look
takes place when the first batch is about to be written, with a line of progress for each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.adapters.file_io import file_io
from framework.adapters.iceberg.project_by_id import NotProjected
from framework.adapters.iceberg.upsert.duplicate_keys import double_keys
from framework.adapters.iceberg.upsert.target import UpsertTarget, blocked
from framework.adapters.secrets import first_line
from framework.adapters.value_bytes import plain_type
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import LogLine
from framework.errors import FloeError
from framework.table.model import TableTarget
from framework.table.schema.arrow import arrow_schema, parse_schema


class UniqueKeys:
    """Of one run of a pipeline."""

    def __init__(
        self,
        io_properties: Callable[[str], Mapping[str, str]],
        say: Callable[[str], None],
        writers_beside: Callable[[TableTarget], tuple[str, ...]],
    ) -> None:
        """`io_properties` gives by table what its FileIO is made with, `writers_beside` who else wrote to a table."""
        self._writers_beside = writers_beside
        self._io_properties = io_properties
        self._say = say
        # By table, the key that it was asked for, while no batch by it is committed yet.
        self._asked: dict[str, tuple[int, ...]] = {}

    def check(self, target: TableTarget, keyed: UpsertTarget) -> None:
        """Look through the table, unless that was done before.

        Raises:
            TableBlocked: FLOE-R144, some keys have several rows.
            FloeError: FLOE-R135, a file cannot be read now.
        """
        if keyed.is_unique:
            self._asked.pop(target.table_uuid, None)
            return
        if self._asked.get(target.table_uuid) == keyed.key_ids:
            return
        io = file_io(self._io_properties(target.name), target.location)
        files = list(keyed.files.by_path.values())
        if files:
            schema = parse_schema(target.schema_json)
            places = [[field.field_id for field in schema.fields].index(each) for each in keyed.key_ids]
            kinds = [plain_type(arrow_schema(schema).field(place).type) for place in places]
            try:
                found = double_keys(
                    io,
                    files,
                    keyed.columns.of(keyed.key_ids),
                    kinds,
                    lambda text: self._say(LogLine(f"{target.name}: {text}", table=target.name)),
                )
            except NotProjected as error:
                raise blocked(
                    target.name,
                    str(error),
                    "set the property schema.name-mapping.default, which says what the columns of such files are called; "
                    "or let Spark write them anew",
                ) from error
            except Exception as error:  # each store has exceptions of its own
                raise FloeError(
                    f"the keys of table {target.name} cannot be read: {first_line(error)}",
                    code="FLOE-R135",
                    place=target.name,
                    remedy="check that the store answers and that the table's files can be read",
                ) from error
            if found:
                names = ", ".join(target.policy.write.key)
                others = self._writers_beside(target)
                raise blocked(
                    target.name,
                    f"{counted(found, 'key')} of {names} {'has' if found == 1 else 'have'} several rows{_written_by(others)}",
                    f"delete all rows but one of each: SELECT {names}, count(*) FROM {target.name} GROUP BY {names} "
                    "HAVING count(*) > 1 finds them; or take a key that is unique",
                )
        self._asked[target.table_uuid] = keyed.key_ids


def _written_by(others: tuple[str, ...]) -> str:
    return f", after rows by {', '.join(others)}" if others else ""
