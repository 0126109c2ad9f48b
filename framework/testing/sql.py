"""The Spark that runs `transform.sql` in tests: a local one, started for the first file that needs it.

In: a pipeline's SQL and the target's Spark settings. Out: a function over rows, the same one that the job uses. Only
settings of Spark SQL are taken from the target, since they may change what a query means; the rest concerns only the
cluster.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from framework.record.process import Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[1]"


class SqlEngine(Protocol):
    """What runs SQL for tests."""

    def bind(self, sql: str, conf: Mapping[str, str]) -> Sql:
        """The function that one SQL text is."""


class LocalSpark:
    """A Spark session of this process, for as long as the `with` block lasts. `say` is called before it starts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._session: SparkSession | None = None
        self._logs = tempfile.TemporaryDirectory(prefix="floe-test-")

    def __enter__(self) -> LocalSpark:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            from framework.runtime.spark.query import stop_session

            stop_session(self._session)
        self._logs.cleanup()

    def bind(self, sql: str, conf: Mapping[str, str]) -> Sql:
        """The function that one SQL text is, in a session of its own with the SQL settings of `conf`.

        Raises:
            SetupError: Spark does not start here.
        """
        from framework.runtime.spark.query import FIXED_CONF
        from framework.task.sql.select import transform_table

        session = self._started().newSession()
        for key, value in {**conf, **FIXED_CONF}.items():
            if key.startswith("spark.sql.") and session.conf.isModifiable(key):
                session.conf.set(key, value)

        def run(rows: pa.Table) -> pa.Table:
            return transform_table(session, rows, sql)

        return run

    def _started(self) -> SparkSession:
        if self._session is None:
            from framework.runtime.spark.query import start_session

            self._say("starting Spark for `transform.sql`; files without it do not need it")
            self._session = start_session("floe test", MASTER, {}, Path(self._logs.name))
        return self._session
