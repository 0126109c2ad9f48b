"""Which records end a task: tried piece by piece in a process of their own, whose end is a finding and no failure.

In: slices whose task failed twice, and a TaskContext. Out: the records that end the process, or raise what nobody
foresaw, each found by itself; or that it is none of theirs. Invariant: a record is condemned only if the same process
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
from framework.record.blocks.poison_records import Condemned
from framework.record.model import Slice
from framework.task.context import TaskContext
from framework.task.reported_failure import is_outside
from framework.task.stage import try_slices

# A piece that fails is cut into so many: a hundred thousand records are four cuts, and each costs the start of a
# process.
PIECES = 32
# Where more records of a task end it, it is not they that are bad.
MOST_CONDEMNED = 32
# Four cuts lead to a record of a million. Where more pieces fail, it is no record of theirs but how they lie together.
MOST_CUTS = 4 * MOST_CONDEMNED
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


def deadly_records(slices: Sequence[Slice], context: TaskContext) -> list[Condemned]:
    """The records of the slices that end a process.

    Raises:
        NotARecord: the process ends whatever it reads, or it fails for a reason outside of it.
    """
    todo = [piece for piece in slices if piece.end > piece.start]
    found: list[Condemned] = []
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
        if len(found) > MOST_CONDEMNED:
            raise NotARecord(f"more than {MOST_CONDEMNED} records end it")
        todo = rest
    return found


def _first(piece: Slice) -> Slice:
    return replace(piece, end=piece.start + 1)


def _cut(piece: Slice) -> list[Slice]:
    step = -(-(piece.end - piece.start) // PIECES)
    return [replace(piece, start=at, end=min(at + step, piece.end)) for at in range(piece.start, piece.end, step)]


def _check_alive(one: Slice, reason: str, context: TaskContext) -> Condemned:
    """The record, if a process lives that does all but read it."""
    condemned = Condemned(one.topic, one.partition, one.start, reason)
    end = _run([one], replace(context, condemned=(condemned,)))
    if end.reason:
        raise NotARecord(end.reason)
    return condemned


def _run(pieces: Sequence[Slice], context: TaskContext) -> _End:
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
        told = json.loads(line)
        if told["said"] == "done":
            done += 1
        elif told["said"] == "end":
            return _End(done)
        else:
            return _End(done, told["reason"], told["said"] == "outage")
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
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no line of ours
    pieces, context = pickle.loads(sys.stdin.buffer.read())

    def tell(said: str, reason: str = "") -> None:
        told.write(json.dumps({"said": said, "reason": reason}) + "\n")
        told.flush()

    for piece in pieces:
        try:
            try_slices([piece], context)
        except Exception as error:
            if isinstance(error, FloeError) or is_outside(error):
                tell("outage", str(error))
                return
            tell("raised", f"it raised {type(error).__name__}: {str(error)[:200]}")
            return
        tell("done")
    tell("end")
