"""Whose failure an error is: the broker's, a catalog's, a store's, the registry's, or that of Spark and its tasks.

In: an error that stopped a batch or a commit. Out: a Service, for counting alone; nothing is decided by it.
"""

from __future__ import annotations

from framework.commit.machine.effects import CommitConflict, CommitFailed, FailureCause, FilesGone, Input
from framework.commit.machine.reporting.batch_remedies import is_of_store
from framework.errors import FloeError, OutcomeUnknown
from framework.metrics.figures import Service

_BY_CODE = {
    **dict.fromkeys(
        ("FLOE-E101", "FLOE-E102", "FLOE-E103", "FLOE-E115", "FLOE-R120", "FLOE-R121", "FLOE-R122", "FLOE-R123"),
        Service.BROKER,
    ),
    **dict.fromkeys(
        (
            "FLOE-E201",
            "FLOE-R132",
            "FLOE-R134",
            "FLOE-R135",
            "FLOE-R136",
            "FLOE-R140",
            "FLOE-R144",
            "FLOE-R146",
            "FLOE-R157",
        ),
        Service.CATALOG,
    ),
    **dict.fromkeys(("FLOE-R372", "FLOE-R373"), Service.STORE),
    **dict.fromkeys(("FLOE-E112", "FLOE-R141"), Service.REGISTRY),
}


def service_of(error: FloeError) -> Service:
    """Of an error that failed a batch."""
    found = _BY_CODE.get(error.code)
    if found is not None:
        return found
    if isinstance(error, OutcomeUnknown):
        return Service.BROKER
    return Service.STORE if is_of_store(error.message) else Service.SPARK


def outcome_of(answer: Input) -> str:
    """What became of a commit, as the metric has it."""
    if isinstance(answer, CommitConflict):
        return "conflict"
    if isinstance(answer, FilesGone):
        return "files_gone"
    if isinstance(answer, CommitFailed):
        return answer.cause.value if answer.cause in (FailureCause.REFUSED, FailureCause.UNKNOWN) else "failed"
    return "committed"


def service_of_commit(answer: Input) -> Service | None:
    """Whose failure a commit that is tried again was; None of one that was made or is decided anew, and of an error of
    floe's own."""
    if not isinstance(answer, CommitFailed) or answer.cause is FailureCause.FLOE:
        return None
    return Service.STORE if answer.cause is FailureCause.STORE else Service.CATALOG
