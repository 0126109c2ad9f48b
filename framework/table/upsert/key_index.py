"""The index of a table's keys, and how it is kept: which files of it go together, and which are of no more use.

In: the table's live data files, and the runs that there are. Out: what to make of them, as values. Pure. The index is a
cache over data files, which never change: an entry stays true for ever, a data file that no run covers is read by its
key columns, and without any run a batch takes longer and does the same (invariant 18).

A run is a sorted file of key hashes, each with the data file, the position and the row id that it stands for. Runs are
few and large, as those of a log-structured merge tree: as many as `FAN_OUT` of one size become one of the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Below it the key columns are read as fast as an index is kept.
LEAST_TABLE_ROWS = 2_000_000
# A task that writes less leaves its files to those that are covered together later.
LEAST_RUN_ROWS = 20_000
# Data files without a run are covered when they have so many rows, or when there are so many of them.
UNCOVERED_ROWS = 500_000
UNCOVERED_FILES = 64
# What one task reads into memory: 36 bytes a row, sorted.
RUN_ROWS = 8_000_000
# To read the key columns of so many rows costs as much as to make an index of them, which then serves every batch.
WORTH_WAITING_ROWS = 2_000_000
FAN_OUT = 8
# A run is no longer merged with others from here on: 40 M entries are 1.4 GB.
MOST_RUN_ENTRIES = 40_000_000
# A run is written anew, alone, when so much of it is about data files that are gone.
MOST_DEAD_SHARE = 0.5


@dataclass(frozen=True)
class KeyRun:
    """One file of the index. `files` are the data files whose every row with a key is in it, in the order by which its
    entries number them; `file_rows` how many rows each has."""

    path: str
    entries: int
    file_size_bytes: int
    files: tuple[str, ...]
    file_rows: tuple[int, ...]


@dataclass(frozen=True)
class KeyIndex:
    """What a task is given of a table's index. `root` is the folder of new runs."""

    root: str
    runs: tuple[KeyRun, ...] = ()


@dataclass(frozen=True)
class Cover:
    """Make a run of these data files, each with its rows."""

    files: tuple[str, ...]


@dataclass(frozen=True)
class Merge:
    """Make one run of these, without the entries of data files that are gone."""

    runs: tuple[KeyRun, ...]


Step = Cover | Merge


def useful(live: Mapping[str, int], runs: Sequence[KeyRun]) -> list[KeyRun]:
    """The runs that cover a live data file; `live` has the rows of each."""
    return [
        run for run in runs if any(live.get(path) == rows for path, rows in zip(run.files, run.file_rows, strict=True))
    ]


def uncovered(live: Mapping[str, int], runs: Sequence[KeyRun]) -> list[str]:
    """The live data files that no run covers."""
    known = {pair for run in runs for pair in zip(run.files, run.file_rows, strict=True)}
    return [path for path, rows in live.items() if (path, rows) not in known]


def is_worth_waiting(live: Mapping[str, int], runs: Sequence[KeyRun]) -> bool:
    """Whether a batch is done sooner when it waits for an index of what no run covers."""
    return sum(live[path] for path in uncovered(live, runs)) >= WORTH_WAITING_ROWS


def next_steps(live: Mapping[str, int], runs: Sequence[KeyRun], tasks: int = 1) -> list[Step]:
    """What to do now, each independent of the others; nothing where the index is as it should be.

    Runs that cover no live data file are left alone: those of a batch that is not committed yet are the next one's, and
    others are dropped by then.

    Args:
        tasks: how many steps can be done at once; a large first build is shared out among them.
    """
    steps: list[Step] = []
    missing = uncovered(live, runs)
    rows = sum(live[path] for path in missing)
    if len(missing) >= UNCOVERED_FILES or rows >= UNCOVERED_ROWS:
        most_rows = min(RUN_ROWS, max(UNCOVERED_ROWS, -(-rows // tasks)))
        steps += [Cover(tuple(group)) for group in _groups(missing, live, most_rows)]
    by_size: dict[int, list[KeyRun]] = defaultdict(list)
    for run in useful(live, runs):
        if _dead_share(run, live) > MOST_DEAD_SHARE:
            steps.append(Merge((run,)))
        elif run.entries < MOST_RUN_ENTRIES:
            by_size[_size_class(run)].append(run)
    steps += [Merge(tuple(group[:FAN_OUT])) for group in by_size.values() if len(group) >= FAN_OUT]
    return steps


def _groups(files: Sequence[str], live: Mapping[str, int], most_rows: int) -> Iterator[list[str]]:
    group: list[str] = []
    rows = 0
    for path in files:
        if group and rows + live[path] > most_rows:
            yield group
            group, rows = [], 0
        group.append(path)
        rows += live[path]
    if group:
        yield group


def _dead_share(run: KeyRun, live: Mapping[str, int]) -> float:
    dead = sum(rows for path, rows in zip(run.files, run.file_rows, strict=True) if path not in live)
    return dead / max(sum(run.file_rows), 1)


def _size_class(run: KeyRun) -> int:
    """Runs of one class are within a factor of `FAN_OUT` of each other; those below the least one are of the first."""
    size, entries = 0, run.entries // LEAST_RUN_ROWS
    while entries >= FAN_OUT:
        entries //= FAN_OUT
        size += 1
    return size
