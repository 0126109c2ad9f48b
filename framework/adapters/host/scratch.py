"""A folder for what this process needs only while it lives: checkpoints, Spark's blocks, Java's temporary files.

In: nothing. Out: one private folder below the system's one for temporary files, removed when the process ends; and the
folders that killed ones left there, removed by the next one. Invariant: no folder is removed while its process lives,
which holds a lock on a file in it, and none that is not this user's.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

from framework.adapters.host.private_files import FILE, private_dir

PREFIX = "floe-run-"
_LOCK = "lock"
_own: tuple[int, Path, tuple[int, int]] | None = None  # the process, its folder and what it holds open
_making = threading.Lock()


def scratch_dir(name: str) -> Path:
    """The folder of this name in the process's own one; made where it is missing."""
    return private_dir(_process_dir() / name)


def _process_dir() -> Path:
    global _own
    with _making:
        if _own is None or _own[0] != os.getpid():  # a forked process has none of its own
            folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()  # a person may have linked TMPDIR
            _own = (os.getpid(), folder, _hold(folder))
            atexit.register(_remove, *_own)
            threading.Thread(target=remove_abandoned, args=(folder.parent,), name="scratch", daemon=True).start()
        return _own[1]


def _hold(folder: Path) -> tuple[int, int]:
    """The open lock file and the open folder. The file gets its name when it is locked: whoever finds it unlocked finds
    nobody's folder. The folder's own lock keeps systemd-tmpfiles out, which removes what is old below /tmp."""
    file = os.open(folder / "unlocked", os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(folder / "unlocked", folder / _LOCK)
    itself = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(itself, fcntl.LOCK_SH)
    return file, itself


def _remove(process: int, folder: Path, handles: tuple[int, int]) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
        for handle in handles:
            os.close(handle)


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the folders of processes that live no more; returns them."""
    removed = []
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # it is gone, or made at this moment, or by a version without locks
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        except OSError:  # somebody lives in it
            pass
        finally:
            os.close(handle)
    return removed
