"""Where Spark's exchange sends what tasks have for one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from framework.task.writer_tasks import exchange_numbers, task_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield made
    made.stop()


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 64])
def test_each_writer_is_a_task_of_its_own(session: SparkSession, tasks: int) -> None:
    """What is for one writer comes to the task of that number, and each task has a writer."""
    sent = session.createDataFrame([(number, 0) for number in exchange_numbers(tasks)], "place int, n int")
    found = sent.repartition(tasks, "place").selectExpr("place", "spark_partition_id() AS task").collect()
    assert {row.place: row.task for row in found} == {n: task for task, n in enumerate(exchange_numbers(tasks))}


def test_names_are_shared_out_among_all_tasks() -> None:
    """A name has one task, wherever it is asked for; many names keep all tasks busy."""
    tasks = [task_of(f'["shop.orders", {number}]', 4) for number in range(400)]
    assert tasks == [task_of(f'["shop.orders", {number}]', 4) for number in range(400)]
    assert all(70 <= tasks.count(task) <= 130 for task in range(4))
