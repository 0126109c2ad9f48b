"""Records of the world: the data sets that `vega_datasets` ships (MIT), one JSON object for each of their rows.

In: the name of a data set. Out: its records as a producer would write them. Numbers in CSV files are written as
numbers, all else as text, and empty cells as null, as a producer that reads such a file does.
"""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


@cache
def data_sets() -> tuple[str, ...]:
    """The names of all data sets that are tables."""
    return tuple(sorted(name for name in (path.name for path in _folder().iterdir()) if _rows(name)))


@cache
def records(name: str) -> tuple[bytes, ...]:
    """The records of a data set, in its order."""
    return tuple(_rows(name))


def _folder() -> Path:
    return Path(str(files("vega_datasets"))) / "_data"


def _rows(name: str) -> list[bytes]:
    path = _folder() / name
    if path.suffix == ".json":
        held = json.loads(path.read_text(encoding="utf-8"))
        return [json.dumps(row, ensure_ascii=False).encode() for row in held] if isinstance(held, list) else []
    if path.suffix != ".csv":
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [_line(row) for row in csv.DictReader(file)]


def _written(value: str) -> str:
    if not value:
        return "null"
    return value if _NUMBER.fullmatch(value) else json.dumps(value)


def _line(row: dict[str, str]) -> bytes:
    fields = (f"{json.dumps(key)}: {_written(value)}" for key, value in row.items())
    return ("{" + ", ".join(fields) + "}").encode()
