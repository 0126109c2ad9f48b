"""floe's own code as one zip file for `--py-files`: the packages `framework` and `schemas` as they are imported here.

In: the folders of the two packages. Out: bytes that depend on names and contents alone, so that the same code gives the
same file.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import framework
import schemas

_SUFFIXES = (".py", ".json", ".properties", ".txt", ".html", ".c")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def code_zip() -> bytes:
    """The zip file's content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_files()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    for package in (framework, schemas):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*"):
            if path.is_file() and path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                yield str(path.relative_to(root.parent)), path
