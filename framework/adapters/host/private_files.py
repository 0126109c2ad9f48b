"""Writes all files that floe keeps for itself: state, plans, logs, caches. Nobody else may read or write them.

In: paths and contents. Out: folders of mode 0700 and files of mode 0600, whatever the umask, complete or absent. Plans
and logs may quote files and records, and code from caches is run. Invariant: a folder is used only if it belongs to
this user alone, and no link leads there or elsewhere, at any level: a checkout may bring `.floe` as a link to what is
somebody's. What is removed goes through here, too. Files that a person asks for by name (`floe init`) get the modes of
their umask.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO

from framework.errors import SetupError

FOLDER, FILE, PROGRAM = 0o700, 0o600, 0o700
UMASK = 0o077
_SETTINGS = "FLOE_HOME, XDG_CACHE_HOME, state_dir"


def private_dir(folder: Path) -> Path:
    """The folder, made with those above it where they are missing.

    Raises:
        SetupError: FLOE-E030, a link leads there, or somebody else could write into it, so that what is in it cannot be
            trusted.
    """
    follow_no_link(folder)
    try:
        folder.lstat()
    except FileNotFoundError:
        if folder.parent != folder and not folder.parent.exists():
            private_dir(folder.parent)
        try:
            folder.mkdir(FOLDER)
            folder.chmod(FOLDER)  # a umask of 0700 would leave it unusable
        except FileExistsError:  # another process was faster
            pass
    _check(folder)
    return folder


def _check(folder: Path) -> None:
    found = folder.stat()
    mine = os.geteuid()
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "it is not a folder")
    if found.st_uid != mine:
        raise _refused(folder, f"it belongs to user {found.st_uid}, not to {mine}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(folder, "others may write into it")
    if found.st_mode & 0o077:  # made by an older version, or by hand
        folder.chmod(FOLDER)


def follow_no_link(folder: Path) -> None:
    """Refuse a folder that a link leads to, at whatever level. What the administrator of the machine linked is followed:
    `/home`, `/tmp`, and for everybody but him what belongs to him.

    Whoever decides on a place that a person may have linked, such as `~/.cache`, resolves it first.

    Raises:
        SetupError: FLOE-E030.
    """
    whole = folder.absolute()
    for level in (*reversed(whole.parents), whole):
        try:
            found = level.lstat()
        except FileNotFoundError:
            return  # what is made from here on is no link
        except NotADirectoryError:
            raise _refused(level.parent, "it is not a folder") from None
        if stat.S_ISLNK(found.st_mode) and not _is_administrators(level, found.st_uid):
            raise _link(folder, level)


def no_link_below(folder: Path, but: Path | None = None) -> None:
    """Refuse a folder for others' programs in which there is a link: they would follow it.

    Args:
        but: a folder below it whose links those programs made themselves.

    Raises:
        SetupError: FLOE-E030.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise _link(folder, Path(entry.path))
            if entry.is_dir() and Path(entry.path) != but:
                no_link_below(Path(entry.path), but)


def _is_administrators(link: Path, owner: int) -> bool:
    return link.parent == Path(link.anchor) or owner == 0 != os.geteuid()


def _link(folder: Path, link: Path) -> SetupError:
    remedy = f"remove the link, `rm {shlex.quote(str(link))}`; or name the folder that is meant: {_SETTINGS}"
    return _refused(folder, f"{link} is a link to {os.readlink(link)}", remedy)


def _refused(folder: Path, why: str, remedy: str = "") -> SetupError:
    command = f"chmod 700 {shlex.quote(str(folder))}"
    return SetupError(
        f"the folder {folder} is not used: {why}",
        code="FLOE-E030",
        place=str(folder),
        remedy=remedy or f"check what is in it, then `{command}`; or set another folder: {_SETTINGS}",
    )


def why_not_private(found: os.stat_result, path: Path) -> tuple[str, str] | None:
    """Why a file with secrets that a person wrote is not used, as the end of a sentence, and the remedy. None: it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "is no plain file", "name a file"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}", f"`chown {os.geteuid()} {shlex.quote(str(path))}`"
    # Root gives a service its secrets through a group, as Kubernetes does; a group of one's own may hold anybody.
    of_root = found.st_uid == 0 != os.geteuid()
    if found.st_mode & (0o037 if of_root else 0o077):
        return "may be read or written by others", f"`chmod 600 {shlex.quote(str(path))}`"
    return None


def write_private(path: Path, content: str | bytes, mode: int = FILE) -> None:
    """Replaces the file in one step, so that a reader never sees half of it. Its folder is there."""
    follow_no_link(path.parent)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, mode)
            stream.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def open_private(path: Path, anew: bool = False) -> IO[bytes]:
    """A file to write at the end of, or, `anew`, from the beginning. A link in its place is not followed."""
    follow_no_link(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if anew else os.O_APPEND)
    handle = os.open(path, flags, FILE)
    os.fchmod(handle, FILE)
    return os.fdopen(handle, "wb" if anew else "ab")


def touch_private(path: Path) -> None:
    """The file is there; another program may write to it, and finds it private."""
    open_private(path).close()


def remove_private(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there; of a link in its place, the link."""
    follow_no_link(path.parent)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Everything below a folder that others' programs filled, and the folder itself. What may be run stays so."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700 | (FOLDER if path.is_dir() else FILE))
