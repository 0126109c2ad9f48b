"""What the coordinator asks of catalogs, done by a few threads for each catalog, and the answers on their way back.

In: LoadTable and CommitTable effects from the coordinator's thread. Out: inputs for the pure `step`, in the order in
which they came back. Keeps invariant 4 by dropping answers to an ownership that has ended, and invariant 10: a catalog
that hangs holds threads of its own, and no other catalog's.
"""

from __future__ import annotations

import queue
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.commits.commit import Outcome
from framework.adapters.iceberg.files import moment
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.copy_on_write import copies_without
from framework.commit.file_ages import ClockReading, stood_still
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    FilesGone,
    Input,
    LoadFailed,
    LoadTable,
    TableLoaded,
    TableMissing,
)
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.runtime.measures.commits import CommitMeasures

COMMITTERS = 4
# What the pool is given at once: enough that no thread waits for the one that hands out.
SUBMITTED = 2 * COMMITTERS


@dataclass(frozen=True)
class CatalogRequest:
    """What a pool's thread is given. `term` numbers the ownership that asks; `control_topic_id` is that of its log;
    `asked` is when that was."""

    term: int
    effect: LoadTable | CommitTable
    control_topic_id: str
    asked: ClockReading = field(default_factory=moment)

    @property
    def catalog(self) -> str:
        return catalog_of(self.effect.table)


@dataclass(frozen=True)
class CatalogAnswer:
    """What a pool's thread gives back."""

    term: int
    catalog: str
    answer: Input


class CatalogRequests:
    """All methods but `_answer` are for the coordinator's thread; `_answer` runs on a pool's, and puts into the queue
    alone."""

    def __init__(
        self,
        catalog: IcebergTables,
        say: Callable[[str], None],
        reported: Callable[[CommitTable, Committed], None] = lambda effect, outcome: None,
    ) -> None:
        """`reported`: hears of each commit that was made; it neither blocks nor raises."""
        self.measures = CommitMeasures()
        self.in_flight = 0  # of this term, loads that wait for their turn among them
        self._catalog = catalog
        self._say = say
        self._reported = reported
        self._term = 0
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._loads: dict[str, deque[CatalogRequest]] = {}
        self._submitted: Counter[str] = Counter()
        self._answers: queue.SimpleQueue[CatalogAnswer] = queue.SimpleQueue()

    def new_term(self) -> None:
        """An ownership has begun or ended: what was asked before must not be answered into the next state."""
        self._term += 1
        self.in_flight = 0

    def ask(self, effect: LoadTable | CommitTable, control_topic_id: str) -> None:
        request = CatalogRequest(self._term, effect, control_topic_id)
        self.in_flight += 1
        if isinstance(effect, LoadTable):
            self._loads.setdefault(request.catalog, deque()).append(request)
            self._submit_loads(request.catalog)
        else:
            self._submit(request)

    def answers(self) -> Iterator[Input]:
        """What came back since, of this term; the next loads follow each answer that was taken in."""
        while not self._answers.empty():
            answer = self._answers.get()
            self._submitted[answer.catalog] -= 1
            if answer.term == self._term:
                self.in_flight -= 1
                yield answer.answer
            self._submit_loads(answer.catalog)

    def close(self) -> None:
        """Waits for what is under way."""
        for pool in self._pools.values():
            pool.shutdown(wait=True)

    def _submit(self, request: CatalogRequest) -> None:
        if request.catalog not in self._pools:
            name = f"commit-{request.catalog}"
            self._pools[request.catalog] = ThreadPoolExecutor(COMMITTERS, thread_name_prefix=name)
        self._submitted[request.catalog] += 1
        self._pools[request.catalog].submit(self._answer, request)

    def _submit_loads(self, catalog: str) -> None:
        """A few at a time: of a thousand tables that are due at once each is committed soon after it was examined,
        while what was loaded for it is still at hand, and not after the last of the thousand."""
        waiting = self._loads.get(catalog, deque())
        while waiting and self._submitted[catalog] < SUBMITTED:
            request = waiting.popleft()
            if request.term == self._term:
                self._submit(request)

    def _answer(self, request: CatalogRequest) -> None:
        """On a thread of the pool. Every outcome becomes an input; none is swallowed."""
        effect = request.effect
        answer: Input
        self.measures.begin(request.catalog, request)
        try:
            answer = (
                self._load(effect, request) if isinstance(effect, LoadTable) else self._commit(request.asked, effect)
            )
        except Exception as error:  # whatever it is, the state must be reported, or the table waits for ever
            reason = error.message if isinstance(error, FloeError) else f"{type(error).__name__}: {error}"
            if isinstance(effect, CommitTable):
                answer = CommitFailed(effect.table, effect.commit_id, reason)
            else:
                answer = LoadFailed(effect.table, reason)
            commit = effect.commit_id if isinstance(effect, CommitTable) else ""
            self._say(LogLine(f"{effect.table}: {reason}", Level.WARNING, table=effect.table, commit=commit))
        self.measures.end(request.catalog, request, effect, answer)
        self._answers.put(CatalogAnswer(request.term, request.catalog, answer))

    def _load(self, effect: LoadTable, request: CatalogRequest) -> Input:
        view = self._catalog.load_view(effect.table, effect.branch, request.control_topic_id)
        return TableLoaded(view) if view else TableMissing(effect.table, "the table does not exist")

    def _commit(self, asked: ClockReading, effect: CommitTable) -> Input:
        failpoint("before-commit")
        if stood_still(asked, moment()):  # what was young when it was decided may be gone by now
            effect = replace(effect, examine=tuple(file.path for file in effect.files))
        outcome = self._catalog.commit(effect, copies_without)
        failpoint("committed")
        # A conflict is what a table that is also maintained has all day: it is decided anew at once.
        level = Level.INFO if isinstance(outcome, Committed | CommitConflict) else Level.WARNING
        self._say(LogLine(_in_words(effect, outcome), level, table=effect.table, commit=effect.commit_id))
        if isinstance(outcome, Committed):
            self._reported(effect, outcome)
        return outcome


def _in_words(effect: CommitTable, outcome: Outcome) -> str:
    if isinstance(outcome, Committed):
        rows = sum(file.record_count for file in effect.files)
        held = f"{counted(rows, 'row')} in {counted(len(effect.files), 'file')}"
        return f"committed {effect.table}: {held}, snapshot {outcome.snapshot_id}"
    if isinstance(outcome, FilesGone):
        reason = counted(len(outcome.missing), "announced file is gone", "announced files are gone")
        return f"not committed {effect.table}: {reason}"
    return f"not committed {effect.table}: {outcome.reason}"
