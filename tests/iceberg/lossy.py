"""A real catalog behind a bad line: commits are applied, or not, and the answer is lost either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from framework.adapters.iceberg.private.sql import FlatSqlCatalog


class LossyCatalog(FlatSqlCatalog):
    """Fails as the class attributes say; tests set them for the length of one call.

    `fault`: "applied, 409" (a proxy repeats a request that was applied, and the repetition is refused), "applied, 500",
    "refused, 500" (nothing was applied), "refused, 200" (neither, and the answer is the table as it was), "deaf" (applied,
    and afterwards the catalog answers nothing at all).
    """

    fault: str | None = None
    deaf: bool = False

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        fault = type(self).fault
        if fault == "refused, 500":
            raise ConnectionError("500")
        if fault == "refused, 200":
            now = self.load_table(table.name())
            return CommitTableResponse.model_validate(
                {"metadata": now.metadata.model_dump(), "metadata-location": now.metadata_location}
            )
        response = super().commit_table(table, requirements, updates)
        if fault == "applied, 409":
            raise CommitFailedException("409: branch main has changed")
        if fault == "applied, 500":
            raise ConnectionError("500")
        if fault == "deaf":
            type(self).deaf = True
            raise ConnectionError("no answer")
        return response

    def create_table(self, *args: Any, **kwargs: Any) -> Table:
        table = super().create_table(*args, **kwargs)
        if type(self).fault == "applied, 500":
            raise ConnectionError("500")
        return table

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        if type(self).deaf:
            raise ConnectionError("no answer")
        return super().load_table(identifier)


class OvertakenCatalog(LossyCatalog):
    """A catalog in which another writer commits just before the first commit arrives."""

    overtake: ClassVar[list[Callable[[], object]]] = []

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        while self.overtake:
            self.overtake.pop()()
        return super().commit_table(table, requirements, updates)
