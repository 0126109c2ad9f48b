"""Looks whether a batch's tasks end, so that a long batch is not taken for one that stands still.

In: the measures of runs whose tasks have written for a while. Out: word to the measures that a task has ended. Asks
Spark only about a run that is quiet for a quarter of the time after which it would count as stalled, in a thread of its
own: Java may hang too.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence

from framework.metrics.figures import RunPhase
from framework.runtime.batches.measures import RunMeasures, steady_ms

log = logging.getLogger(__name__)


class SparkProgress:
    """Of one driver."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._seen: dict[str, tuple[tuple[int, int], ...]] = {}  # by job group: its stages, and how many tasks ended

    def start(self, runs: Callable[[], Sequence[RunMeasures]], stalled_after_ms: int) -> None:
        quiet_ms = stalled_after_ms // 4

        def look_often() -> None:
            while not self._closing.wait(max(0.5, quiet_ms / 2000)):
                for measures in runs():
                    progress = measures.progress
                    if progress.phase is RunPhase.WRITING and steady_ms() - progress.progress_ms >= quiet_ms:
                        self._look(measures)

        threading.Thread(target=look_often, name="spark-progress", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _look(self, measures: RunMeasures) -> None:
        group = measures.job_group
        try:
            ended = _tasks_ended(group)
        except Exception as error:  # Java is gone, or stops just now: then the run itself meets it
            log.info("Spark does not say how far job group %s is: %s", group, error)
            return
        if ended and self._seen.get(group) != ended:
            if group in self._seen:
                measures.got_on()
            self._seen = {group: ended}


def _tasks_ended(group: str) -> tuple[tuple[int, int], ...]:
    if "pyspark" not in sys.modules:
        return ()
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or not group:
        return ()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = sorted({stage for job in jobs if job is not None and job.status == "RUNNING" for stage in job.stageIds})
    found = [(stage, tracker.getStageInfo(stage)) for stage in stages]
    return tuple((stage, info.numCompletedTasks) for stage, info in found if info is not None)
