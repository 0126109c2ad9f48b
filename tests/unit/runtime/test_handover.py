"""The pacing thread and Spark's callback thread share one batch at a time, and nothing else."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

from framework.commit.events.event_types import Accounting
from framework.errors import AccountingError
from framework.runtime.batches.batch import BatchResult, BatchScope
from framework.runtime.batches.handover import AnnouncedBatch, BatchHandover, OfferedBatch

RUNTIME = Path(__file__).parents[3] / "framework" / "runtime"
SCOPE = BatchScope("run", 1, {("t", 0): 0}, {("t", 0): 5}, {"t": "id"})
RESULT = BatchResult((), (), Accounting(5, 5), Accounting(5, 5), {}, 0, 0)


def offered() -> OfferedBatch:
    return OfferedBatch(SCOPE, Path("offer.json"), Accounting())


def test_a_batch_is_done_once_and_taken_once() -> None:
    """A batch that was announced is on offer no more, and the pacing thread gets it one time."""
    handover = BatchHandover()
    handover.offer(batch := offered())
    assert handover.offered() is batch
    handover.announced(done := AnnouncedBatch(SCOPE, RESULT, 7))
    assert handover.offered() is None
    assert handover.has_come_back()
    assert handover.wait(0) is done
    assert handover.wait(0) is None


def test_what_failed_is_reported_once_and_wakes_who_waits() -> None:
    """A failure ends the wait at once, and is raised by one call only."""
    handover = BatchHandover()
    handover.offer(offered())
    callback = threading.Thread(target=lambda: handover.failed(AccountingError("off")))
    callback.start()
    assert handover.wait(60) is None
    callback.join()
    assert isinstance(handover.take_failure(), AccountingError)
    assert handover.take_failure() is None


def test_a_new_batch_does_not_come_back_by_the_word_of_an_older_one() -> None:
    """Each offer is waited for anew."""
    handover = BatchHandover()
    handover.offer(offered())
    handover.announced(AnnouncedBatch(SCOPE, RESULT, 7))
    assert handover.wait(0) is not None
    handover.offer(offered())
    assert not handover.has_come_back()
    assert handover.wait(0) is None


def test_what_was_announced_before_a_withdrawal_is_not_lost() -> None:
    """A batch that was announced just before its query ended counts for the run; offers and failures of that query are
    gone."""
    handover = BatchHandover()
    handover.offer(offered())
    handover.announced(done := AnnouncedBatch(SCOPE, RESULT, 7))
    assert handover.withdraw() is done
    assert handover.withdraw() is None
    handover.offer(offered())
    handover.failed(AccountingError("off"))
    assert handover.withdraw() is None
    assert (handover.offered(), handover.take_failure(), handover.has_come_back()) == (None, None, False)


@pytest.mark.parametrize(
    ("module", "of_the_other"),
    [
        (
            "batches/runner",
            {
                "pipeline.batch_chain",
                "batches.pacer",
                "pipeline.paced_query",
                "pipeline.pipeline_state",
                "tables.refresh",
                "pipeline.worker_report",
            },
        ),
        ("pipeline/batch_chain", {"batches.runner", "batches.poison_records", "batches.stage"}),
        ("batches/pacer", {"batches.runner", "batches.poison_records", "batches.stage", "batches.announcer"}),
        ("pipeline/paced_query", {"batches.poison_records", "batches.stage"}),
    ],
)
def test_no_thread_knows_the_parts_of_the_other(module: str, of_the_other: set[str]) -> None:
    """What one thread owns is not even imported by what runs on the other: values pass through the handover alone."""
    tree = ast.parse((RUNTIME / f"{module}.py").read_text(encoding="utf-8"))
    imported = {
        str(node.module).removeprefix("framework.runtime.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert "batches.handover" in imported
    assert all((RUNTIME / f"{each.replace('.', '/')}.py").is_file() for each in of_the_other)
    assert imported & of_the_other == set()
