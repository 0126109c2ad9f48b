"""The archive of Java's classes: made once, used by every later start, and never in anybody's way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from framework.adapters.spark.class_archive import archive_options

HEAD = b"\xa8\xba\x0b\xf0 and classes"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jars, and a Java that makes archives, in an empty cache."""
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    (home / "bin").mkdir()
    (home / "bin" / "java").touch()
    (home / "release").write_text("17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


def made_at_exit(options: str) -> Path:
    """Where Java was told to write."""
    return Path(options.rpartition("-XX:ArchiveClassesAtExit=")[2])


def age(file: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(file, (moment, moment))


def test_the_first_run_makes_it_and_later_ones_use_it(jars: Path) -> None:
    """The first start has Java write an archive at its end, one beside it does without, and the next one after it uses
    it."""
    part = made_at_exit(archive_options(jars))
    assert archive_options(jars) == "", "somebody makes it already"
    part.write_bytes(HEAD)
    age(part, 60)

    used = archive_options(jars)

    archive = Path(used.rpartition("-XX:SharedArchiveFile=")[2])
    assert archive.read_bytes() == HEAD
    assert not part.exists()
    assert archive_options(jars) == used


def test_what_is_not_whole_is_not_used(jars: Path) -> None:
    """A file whose head is not written yet is left alone while it is young, and made anew once its writer must be
    dead."""
    part = made_at_exit(archive_options(jars))
    part.write_bytes(b"\0" * 64)
    age(part, 60)
    assert archive_options(jars) == ""
    age(part, 3_600)
    assert "ArchiveClassesAtExit" in archive_options(jars)
    assert part.read_bytes() == b""


def test_another_java_or_other_jars_have_an_archive_of_their_own(jars: Path, tmp_path: Path) -> None:
    """An archive fits one Java and one set of jars."""
    first = made_at_exit(archive_options(jars))
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "java" / "release").write_text("21.0.7")
    assert len({first.name, made_at_exit(archive_options(jars)).name, made_at_exit(archive_options(other)).name}) == 3


def test_it_is_left_alone_where_it_cannot_or_shall_not_be(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's own setting, a Java without archives, and a cache that is no folder: nothing is asked of Java."""
    assert archive_options(jars, "-XX:SharedArchiveFile=/mine.jsa") == ""
    assert archive_options(jars, "-Xshare:off") == ""
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").unlink()
    assert archive_options(jars) == ""
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").touch()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archive_options(jars) == ""
