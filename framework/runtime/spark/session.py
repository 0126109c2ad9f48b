"""Spark's session of a run, started in a thread beside everything else that a start has to do.

In: the target's Spark settings and what the pipelines need of Spark. Out: the session, once it is there. Nothing is
read before every worker was prepared (invariant 2): a session alone reads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from framework.config.spec import LoadedPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StartingSession:
    """One session of one process. `begin` may be called early and often; most of a start is Java's."""

    def __init__(self, pipelines: Sequence[LoadedPipeline], names: Sequence[str] = ()) -> None:
        """`names`: what runs, where it is not the pipelines under their own names."""
        self._target = pipelines[0].target
        self._name = "floe " + " ".join(names or [pipeline.spec.name for pipeline in pipelines])
        self._sql = any(pipeline.spec.transform_sql is not None for pipeline in pipelines)
        self._session: Future[SparkSession] | None = None

    def begin(self) -> None:
        """Start it, unless that was done."""
        if self._session is not None:
            return
        # Imported before the thread begins, so that what the caller imports meanwhile does not meet it half way.
        from framework.runtime.spark.query import INTERPRETED_CONF, start_session

        conf = {**({} if self._sql else INTERPRETED_CONF), **self._target.spark_conf}
        log_dir = Path(self._target.state_dir) / "logs"
        session: Future[SparkSession] = Future()

        def start() -> None:
            try:
                session.set_result(start_session(self._name, self._target.spark_master, conf, log_dir))
            except BaseException as error:  # handed to whoever asks for the session
                session.set_exception(error)

        threading.Thread(target=start, name="spark", daemon=True).start()
        self._session = session

    def result(self) -> SparkSession:
        """The session; waits for it, and begins it if nobody has.

        Raises:
            SetupError: it does not start.
        """
        self.begin()
        assert self._session is not None
        return self._session.result()

    def stop(self) -> None:
        """End the session; one that is still being started ends with this process."""
        session, self._session = self._session, None
        if session is not None and session.done() and session.exception() is None:
            from framework.runtime.spark.query import stop_session

            stop_session(session.result())
