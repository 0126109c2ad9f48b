"""The archive of Python packages that Spark puts beside every driver and executor, built once and kept by its lock's
hash.

In: the installed distributions (the exact versions that this machine runs), or, for another platform, the same versions
from the package index. Out: one relocatable `.tar.gz` in the user's cache, equal bytes for equal content. It holds the
packages and a `bin/python` that finds the node's own Python of the same minor version; Spark brings PySpark itself.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import framework
from framework.adapters.host.installed import again
from framework.adapters.host.private_files import PROGRAM, make_private, open_private, private_dir, write_private
from framework.adapters.host.process import python, python_environment, python_in_shell
from framework.adapters.project.files import cache_dir
from framework.errors import SetupError
from framework.record.compiled import SHIPPED

DISTRIBUTION = "floe-pipelines"
DEVELOPMENT = frozenset({"dev"})
FROM_SPARK = frozenset({"pyspark", "py4j"})
LAYOUT = 3  # part of the key: raise it when the archive is laid out otherwise
Say = Callable[[str], None]

_PYTHON = """#!/bin/sh
# Runs this node's Python {version} with the packages of this archive. FLOE_PYTHON names another path.
{start}
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
for python in "$FLOE_PYTHON" {base} python{version} /usr/bin/python{version} /usr/local/bin/python{version}; do
  found=$(command -v "${{python:-none}}") || continue
  PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}" exec "$found" "$@"
done
echo "floe: Python {version} is not on this node; install it, or set FLOE_PYTHON" >&2
exit 127
"""


@dataclass(frozen=True)
class Lock:
    """What an archive is made of: pinned requirements, a Python minor version and a platform (`linux_x86_64`)."""

    requirements: tuple[str, ...]
    python: str
    platform: str
    compiled: str = ""
    """The sum of floe's own compiled modules; none for another platform than this machine's."""

    @property
    def key(self) -> str:
        text = json.dumps([LAYOUT, self.requirements, self.python, self.platform, self.compiled])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def this_lock() -> Lock:
    """The lock of this very environment.

    Raises:
        SetupError: a required package is not installed.
    """
    found = {canonicalize_name(d.name): f"{d.name}=={d.version}" for d in runtime_distributions()}
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _compiled()))
    return Lock(
        tuple(found[name] for name in sorted(found)),
        _minor(),
        sysconfig.get_platform().replace("-", "_"),
        digest.hexdigest() if _compiled() else "",
    )


def _compiled() -> list[Path]:
    """floe's compiled modules, which Python cannot load out of the zip of its code."""
    return sorted(Path(framework.__file__).parent.glob("**/_*.abi3.so"))


def runtime_distributions() -> list[Distribution]:
    """Everything that floe needs at run time besides PySpark, as installed, extras included where they are
    installed."""
    todo: list[tuple[str, frozenset[str]]] = [(DISTRIBUTION, _installed_extras(_find(DISTRIBUTION)))]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        dist = found.setdefault(name, _find(name))
        for text in dist.requires or []:
            requirement = Requirement(text)
            needed = canonicalize_name(requirement.name)
            if needed not in FROM_SPARK and _applies(requirement, extras):
                todo.append((needed, frozenset(requirement.extras)))
    return [dist for name, dist in sorted(found.items()) if name != DISTRIBUTION]


def _installed_extras(dist: Distribution) -> frozenset[str]:
    """The extras of floe, development aside, whose every package is installed."""
    named = set(dist.metadata.get_all("Provides-Extra") or []) - DEVELOPMENT
    missing = set()
    for extra in named:
        for text in dist.requires or []:
            requirement = Requirement(text)
            only_there = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            if only_there and _applies(requirement, frozenset({extra})) and not _complete(requirement):
                missing.add(extra)
    return frozenset(named - missing)


def _complete(requirement: Requirement) -> bool:
    """Whether a requirement is installed with the packages of its own extras."""
    try:
        dist = distribution(requirement.name)
        for text in dist.requires or []:
            part = Requirement(text)
            if _applies(part, frozenset(requirement.extras)) and not _applies(part, frozenset()):
                distribution(part.name)
    except PackageNotFoundError:
        return False
    return True


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, ""))


def _find(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise SetupError(
            f"package {name} is not installed",
            code="FLOE-E411",
            place=sys.prefix,
            remedy=f"install floe again: {again()}",
        ) from error


def _minor() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# ---- the archive ----------------------------------------------------------------------------------------------------


def environments_dir() -> Path:
    """Where archives are kept, one pair of `<key>.tar.gz` and unpacked `<key>/` for a lock."""
    return cache_dir() / "environments"


def archive_path(lock: Lock) -> Path:
    return environments_dir() / f"{lock.key}.tar.gz"


def unpacked_path(lock: Lock) -> Path:
    """The archive's content as a folder, which a driver on this machine uses."""
    return environments_dir() / lock.key


def build_archive(lock: Lock, say: Say) -> Path:
    """The archive of a lock, built when it is not there yet. Complete or absent: it is made aside and moved.

    Raises:
        SetupError: another platform's packages cannot be fetched.
    """
    archive, folder = archive_path(lock), unpacked_path(lock)
    private_dir(archive.parent)  # what lies there is run
    if archive.exists() and folder.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="build-") as scratch:
        made = Path(scratch) / "environment"
        library = made / "lib"
        library.mkdir(parents=True)
        here = lock == this_lock()
        say(f"packing {len(lock.requirements)} packages for Python {lock.python} on {lock.platform}")
        if here:
            _copy_installed(library)
        else:
            _fetch(lock, library)
        if lock.compiled:
            copy_compiled(library)
        launcher = made / "bin" / "python"
        launcher.parent.mkdir()
        write_private(launcher, launcher_text(lock.python, _base_python() if here else ""), PROGRAM)
        write_private(made / "floe-lock.json", json.dumps(lock.__dict__, indent=1) + "\n")
        make_private(made)
        packed = Path(scratch) / archive.name
        _pack(made, packed)
        shutil.rmtree(folder, ignore_errors=True)
        made.replace(folder)
        packed.replace(archive)
    say(f"{archive} ({archive.stat().st_size / 1e6:.0f} MB)")
    return archive


def launcher_text(version: str, first: str) -> str:
    """The shell script that stands for `python` in the archive; `first` is a path to try before the usual ones."""
    start = python_in_shell(tuple(map(int, version.split("."))))
    return _PYTHON.format(version=version, base=shlex.quote(first), start=start)


def _base_python() -> str:
    """This machine's Python without its virtual environment; nodes of the same image have it at the same path."""
    return str(Path(sys.base_prefix) / "bin" / f"python{_minor()}")


def _copy_installed(library: Path) -> None:
    for dist in runtime_distributions():
        for name in _files_of(dist):
            target = library / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(dist.locate_file(name)), target)


def copy_compiled(library: Path) -> None:
    """Put floe's compiled modules where `framework.record.compiled` finds them on a node."""
    for path in _compiled():
        target = library / SHIPPED / path.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(path, target)


def _files_of(dist: Distribution) -> Iterator[PurePosixPath]:
    """A distribution's files inside site-packages; its scripts, byte code and own tests are of no use on a node."""
    for file in dist.files or []:
        parts = file.parts
        if ".." not in parts and not {"__pycache__", "tests"} & set(parts) and Path(str(file.locate())).is_file():
            yield PurePosixPath(*parts)


def _fetch(lock: Lock, library: Path) -> None:
    command = python("-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
    command += ["--target", str(library), "--python-version", lock.python, "--platform", lock.platform]
    command += lock.requirements
    answer = subprocess.run(command, env=python_environment(), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        said = [line for line in answer.stderr.splitlines() if "ERROR" in line] or ["pip said nothing"]
        raise SetupError(
            f"packages for Python {lock.python} on {lock.platform} cannot be fetched: {said[0]}",
            code="FLOE-E412",
            place=lock.platform,
            remedy="check the platform's name, such as manylinux_2_28_x86_64, and the network",
        )


def _pack(folder: Path, archive: Path) -> None:
    """A tar file that depends on names, contents and what may be run alone: sorted, without times, owners and our
    modes, since whoever unpacks it may be another user."""
    with (
        open_private(archive, anew=True) as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*"), key=str):
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            if info.isfile():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
