"""The settings that floe gives a session of its own."""

from __future__ import annotations

import os

import pytest

from framework.runtime.spark.query import worker_pool


@pytest.mark.parametrize(
    ("master", "workers"),
    [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[*]", os.cpu_count()), ("local[*,8]", os.cpu_count())],
)
def test_as_many_idle_workers_are_kept_as_tasks_run_at_once(master: str, workers: int) -> None:
    """Every form of a local master says how many tasks run at once, and so many workers wait for the next ones."""
    assert worker_pool(master) == {"spark.python.factory.idleWorkerMaxPoolSize": str(workers)}


def test_a_local_cluster_keeps_what_spark_keeps() -> None:
    """Spark's simulated cluster has executors of its own, whose cores are not floe's to count."""
    assert worker_pool("local-cluster[2,1,1024]") == {}
