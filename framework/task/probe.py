"""Which records end a task: tried piece by piece in a process of their own, whose end is a finding and no failure.

In: slices whose task failed twice, and a TaskContext. Out: the records that end the process, or raise what nobody
foresaw, each found by itself; or that it is none of theirs. Invariant: a record counts as poison only if the same process
lives when everything is done but reading this record; an outage, a full disk or a broken machine condemns nothing.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

from framework.adapters.host.process import python, python_environment
from framework.errors import FloeError
from framework.record.blocks.poison_records import PoisonRecord
from framework.record.model import TaskRange
from framework.task.context import TaskContext
from framework.task.reported_failure import is_outside
from framework.task.stage import try_ranges

# A piece that fails is cut into so many: a hundred thousand records are four cuts, and each costs the start of a
# process.
PIECES = 32
# Where more records of a task end it, it is not they that are bad.
MOST_POISON_RECORDS = 32
# Four cuts lead to a record of a million. Where more pieces fail, it is no record of theirs but how they lie together.
MOST_CUTS = 4 * MOST_POISON_RECORDS
# Nothing is done with a piece for so long: it never ends.
STALLED_S = 300.0
_PROGRAM = "from framework.task.probe import main; main()"


class NotARecord(Exception):
    """What ends the process is no record."""


@dataclass(frozen=True)
class _End:
    """`done` pieces went well; what became of the next one, "" where there is none."""

    done: int
    reason: str = ""
    is_outage: bool = False


def deadly_records(slices: Sequence[TaskRange], context: TaskContext) -> list[PoisonRecord]:
    """The records of the slices that end a process.

    Raises:
        NotARecord: the process ends whatever it reads, or it fails for a reason outside of it.
    """
    todo = [task_range for task_range in slices if task_range.end > task_range.start]
    found: list[PoisonRecord] = []
    cuts = 0
    if not todo:
        return found
    _check_alive(_first(todo[0]), "a control", context)
    while todo:
        end = _run(todo, context)
        if not end.reason:
            break
        if end.is_outage:
            raise NotARecord(end.reason)
        bad, rest = todo[end.done], todo[end.done + 1 :]
        if bad.end - bad.start > 1:
            cuts += 1
            if cuts > MOST_CUTS:
                raise NotARecord(f"more than {MOST_CUTS} pieces end it: {end.reason}")
            todo = [*_cut(bad), *rest]
            continue
        found.append(_check_alive(bad, end.reason, context))
        if len(found) > MOST_POISON_RECORDS:
            raise NotARecord(f"more than {MOST_POISON_RECORDS} records end it")
        todo = rest
    return found


def _first(task_range: TaskRange) -> TaskRange:
    return replace(task_range, end=task_range.start + 1)


def _cut(task_range: TaskRange) -> list[TaskRange]:
    step = -(-(task_range.end - task_range.start) // PIECES)
    return [
        replace(task_range, start=at, end=min(at + step, task_range.end))
        for at in range(task_range.start, task_range.end, step)
    ]


def _check_alive(one: TaskRange, reason: str, context: TaskContext) -> PoisonRecord:
    """The record, if a process lives that does all but read it."""
    poison = PoisonRecord(one.topic, one.partition, one.start, reason)
    end = _run([one], replace(context, poison=(poison,)))
    if end.reason:
        raise NotARecord(end.reason)
    return poison


def _run(pieces: Sequence[TaskRange], context: TaskContext) -> _End:
    """Try the pieces one after the other in a new process, up to the first that does not go well."""
    with subprocess.Popen(
        python("-c", _PROGRAM),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=python_environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(pickle.dumps((list(pieces), context)))
            child.stdin.close()
        except OSError:
            pass  # it is gone already
        return _follow(child, child.stdout)


def _follow(child: subprocess.Popen[bytes], lines: IO[bytes]) -> _End:
    done, stalled = 0, threading.Event()

    def stop() -> None:
        stalled.set()
        child.kill()

    while True:
        timer = threading.Timer(STALLED_S, stop)
        timer.start()
        line = lines.readline()
        timer.cancel()
        if not line:
            break
        reported = json.loads(line)
        if reported["said"] == "done":
            done += 1
        elif reported["said"] == "end":
            return _End(done)
        else:
            return _End(done, reported["reason"], reported["said"] == "outage")
    if stalled.is_set():
        return _End(done, f"its process did not finish within {STALLED_S:.0f} s")
    return _End(done, f"its process ended ({_ended(child.wait())})")


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{name}, out of memory?" if name == "SIGKILL" else name


def main() -> None:
    """The process: pieces and context on standard input, a line for each piece on standard output."""
    reported = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no line of ours
    pieces, context = pickle.loads(sys.stdin.buffer.read())

    def report(said: str, reason: str = "") -> None:
        reported.write(json.dumps({"said": said, "reason": reason}) + "\n")
        reported.flush()

    for task_range in pieces:
        try:
            try_ranges([task_range], context)
        except Exception as error:
            if isinstance(error, FloeError) or is_outside(error):
                report("outage", str(error))
                return
            report("raised", f"it raised {type(error).__name__}: {str(error)[:200]}")
            return
        report("done")
    report("end")
