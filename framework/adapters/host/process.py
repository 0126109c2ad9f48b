"""Processes by pid file, safe against reuse of a pid by another program; and how another Python is started.

A pid file and a mark that is part of the command line come in. A process counts as floe's own only if its command line
contains the mark, so that neither `status` nor `down` ever touches another program that got the same pid. A Python that
floe starts imports nothing from the current folder, nor from beside a script: a pull request may have put it there.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from framework.adapters.host.private_files import open_private, private_dir, remove_private, write_private

SAFE_PATH = "PYTHONSAFEPATH"
_HAS_SAFE_PATH = (3, 11)
# `-m` and `-c` put the current folder first. Before anything is imported it is taken away again; `sys` is built in.
_WITHOUT_FOLDER = "import sys; getattr(sys.flags, 'safe_path', False) or sys.path.pop(0); "
_RUN_MODULE = f"{_WITHOUT_FOLDER}import runpy; sys.argv.pop(0); runpy._run_module_as_main(sys.argv[0])"


def python(*words: str, version: tuple[int, ...] = sys.version_info[:2]) -> list[str]:
    """The command of this interpreter with `-m MODULE ...` or `-c CODE ...`, without the current folder on its path.

    Args:
        version: of this interpreter; before 3.11 Python has no word of its own for it.
    """
    if version >= _HAS_SAFE_PATH:
        return [sys.executable, "-P", *words]
    kind, what, *rest = words
    if kind == "-m":
        return [sys.executable, "-c", _RUN_MODULE, what, *rest]
    return [sys.executable, "-c", _WITHOUT_FOLDER + what, *rest]


def python_environment(**more: str) -> dict[str, str]:
    """This process's environment and `more`, in which no Python, however deep below, looks into its current folder."""
    return {**os.environ, SAFE_PATH: "1", **more}


@contextmanager
def safe_path() -> Iterator[None]:
    """What this block starts finds `python_environment()`; behind it this process's environment is as it was, so that its
    other children are not affected."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def python_in_shell(version: tuple[int, ...]) -> str:
    """The line of a shell script after which `exec PYTHON "$@"` does the same, and what that starts in turn."""
    if version >= _HAS_SAFE_PATH:
        return f"export {SAFE_PATH}=1"
    return f'if [ "$1" = -m ]; then shift; set -- -c {shlex.quote(_RUN_MODULE)} "$@"; fi'


def command_line(pid: int) -> str:
    """The command line of a process; empty when it does not exist, has ended, or belongs to someone else."""
    listing = Path("/proc/self/cmdline")
    if listing.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""
    answer = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


def running_pid(pid_file: Path, mark: str) -> int | None:
    """The pid in the file, if that process lives and its command line holds `mark`; else None."""
    try:
        pid = int(pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if mark in command_line(pid).split(" ") else None


def stop(pid_file: Path, mark: str, timeout_s: float = 20.0) -> bool:
    """Ends the process of a pid file, gently first, and waits until it is gone. True: there was one to end."""
    pid = running_pid(pid_file, mark)
    if pid is None:
        remove_private(pid_file)
        return False
    for signal_number, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        _signal(pid, signal_number)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if running_pid(pid_file, mark) is None:
                remove_private(pid_file)
                return True
            time.sleep(0.05)
    raise TimeoutError(f"process {pid} does not end")


def spawn(
    command: Sequence[str],
    pid_file: Path,
    log_file: Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    """Starts a process that outlives this one, in a session of its own: Ctrl-C in this terminal does not reach it.

    Args:
        environment: the process's whole environment; None: this one's.
        umask: the modes that its files do not get; -1: as ours.
    """
    private_dir(log_file.parent)
    open_private(log_file, anew=True).close()
    with open_private(log_file) as log:  # at its end, wherever that is by then: others may write into it, too
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
            umask=umask,
        )
    write_private(pid_file, f"{process.pid}\n")
    return process


def send_signal(pid_file: Path, mark: str, signal_number: signal.Signals) -> bool:
    """Sends a signal to the process of a pid file; False when there is none."""
    pid = running_pid(pid_file, mark)
    if pid is not None:
        _signal(pid, signal_number)
    return pid is not None


def end_group(pid: int | None, mark: str) -> None:
    """Ends a process that leads a session, with all it has started; nothing happens when it is not the marked one."""
    if pid is not None and mark in command_line(pid).split(" "):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _signal(pid: int, signal_number: signal.Signals) -> None:
    try:
        os.kill(pid, signal_number)
    except ProcessLookupError:
        return  # it ended between the look and the signal, which is what was wanted


@contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Holds a lock between processes; two `up` at the same moment start one broker. Waits as long as it takes."""
    private_dir(lock_file.parent)
    with open_private(lock_file) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
