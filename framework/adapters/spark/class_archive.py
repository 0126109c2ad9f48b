"""Java's archive of the classes that a start loads: made at the end of one run, used by the start of every later one.

In: the jars that Java is started with. Out: options for the JVM, empty if Java does not support archives. Half of the
CPU of a start goes into loading and checking classes one by one; from an archive they are mapped. Java itself ignores
an archive that no longer fits, so a wrong one only costs time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from framework.adapters.host.private_files import FILE, private_dir
from framework.adapters.project.files import cache_dir
from framework.errors import SetupError

# While Java writes an archive it is not one yet; what is older was given up by a process that was killed.
_BEING_WRITTEN_S = 300.0
_SETTLED_S = 5.0
_NOT_YET = b"\0\0\0\0"  # Java writes the head of the file last
AT_EXIT = "-XX:ArchiveClassesAtExit"
# What does not fit into an archive is no news.
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def archive_options(jars: Path, options: str = "") -> str:
    """Options that use the archive of these jars or, while there is none, have this very process make it at its end.

    Args:
        options: what the JVM is given otherwise; a setting of its own for archives is left alone.
    """
    home = _java_home()
    if home is None or "Archive" in options or "-Xshare:off" in options:
        return ""
    folder = cache_dir() / "classes"
    archive = folder / f"spark-{_key(home, jars)}.jsa"
    try:
        private_dir(cache_dir())
        private_dir(folder)
        if not archive.exists() and not _adopt(archive):
            part = archive.with_suffix(f".{os.getpid()}.part")
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE))
            return f"{_QUIET} {AT_EXIT}={part}"
    except (
        OSError,
        SetupError,
    ):  # a cache that cannot be written or is not ours, or another process was faster: a start without an archive
        return ""
    return f"{_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""


def _adopt(archive: Path) -> bool:
    """Give a finished archive its name. True: there is one now, or another process is about to make it."""
    busy = False
    for part in sorted(archive.parent.glob(f"{archive.stem}.*.part")):
        age_s = time.time() - part.stat().st_mtime
        with part.open("rb") as file:
            head = file.read(len(_NOT_YET))
        if head and head != _NOT_YET and age_s > _SETTLED_S:
            part.chmod(FILE)  # Java makes it readable for all
            os.replace(part, archive)
            return True
        if age_s > _BEING_WRITTEN_S:
            part.unlink()
        else:
            busy = True
    return busy


def _java_home() -> Path | None:
    """The home of the Java that Spark would start, where it is one that makes archives."""
    named = os.environ.get("JAVA_HOME")
    java = Path(named) / "bin" / "java" if named else Path(shutil.which("java") or "")
    home = java.resolve().parent.parent
    return home if (home / "lib" / "server" / "classes.jsa").is_file() else None


def _key(home: Path, jars: Path) -> str:
    """What an archive depends on: the Java, and the jars as they are installed."""
    parts = [str(home), (home / "release").read_text(encoding="utf-8") if (home / "release").is_file() else ""]
    parts += [str(jars.resolve()), str(jars.stat().st_mtime_ns)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
