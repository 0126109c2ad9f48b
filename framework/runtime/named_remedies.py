"""Names the pipeline's file in the remedies of its errors: a driver may have several, and whoever typed them knows one place.

In: a plan, and what raises. Out: the same error, whose commands have the file. Target and control topic are the reader's to add.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from framework.diagnose.whole_commands import ReaderPlace, StartedFrom, whole_commands
from framework.errors import FloeError
from framework.plan.model import Plan


@contextmanager
def naming_file(plan: Plan) -> Iterator[None]:
    """While a pipeline is begun or run."""
    try:
        yield
    except FloeError as error:
        started = StartedFrom(plan.source_file, pipeline=plan.pipeline)
        error.remedy = whole_commands(error.remedy, ReaderPlace(), started)
        raise
