"""Gathers the environment as values for the loader: variables, the local stack's state, files.

In: this process. Out: a `World`. Nothing is decided here; `framework.config.load` does that.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from framework.adapters.host.plugins import offered
from framework.adapters.secrets import SecretSchemes
from framework.config.names.file_kinds import YAML_ENDINGS, is_floe_file
from framework.config.spec import LoadedPipeline
from framework.config.text import start_of
from framework.config.world import World
from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic
from framework.errors import ConfigError, SetupError

if TYPE_CHECKING:
    from framework.config.load import LoadResult

_MAX_BYTES = 4 * 1024 * 1024


def state_dir() -> Path:
    """Where the embedded stack keeps its state: `$FLOE_HOME`; or `.floe` in the current folder, or in the nearest one above
    it where the stack is up."""
    if home := os.environ.get("FLOE_HOME"):
        return Path(home)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if _is_own_stack(folder / ".floe"):
            return Path(".floe") if folder == here else folder / ".floe"
    return Path(".floe")


def _is_own_stack(folder: Path) -> bool:
    """Whether a folder holds the state of a stack of this user's. One that a link leads to is not looked into, nor one that
    somebody else put into a folder above, such as `/tmp`: what stands there says where records go."""
    levels = (folder, folder / "local", folder / "local" / "state.json")
    try:
        return all(not level.is_symlink() and level.stat().st_uid == os.geteuid() for level in levels)
    except OSError:
        return False


def cache_dir() -> Path:
    """What may be made again, for all folders of a user: `$XDG_CACHE_HOME/floe`, by default `~/.cache/floe`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "floe"


def template_cache() -> Path:
    """Where fetched libraries of templates are kept, each below the hash of its content."""
    return cache_dir() / "templates"


def read_text(path: Path) -> str:
    """The text of a file. Raises OSError, also for one of more than 4 MiB, and UnicodeDecodeError."""
    if str(path).startswith("/dev/"):  # what a shell passes on, named on the command line
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OSError(errno.EFBIG, "it is larger than 4 MiB")
    else:
        content = read_bytes(path)
    return content.decode("utf-8-sig").replace("\r\n", "\n")


def read_bytes(path: Path) -> bytes:
    """The bytes of a plain file of at most 4 MiB; raises OSError for all else, and waits for no pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 4 MiB")
    return content


def rewrite_text(path: Path, before: str, after: str) -> None:
    """Puts a text in the place of another: line ends and byte order mark stay, and the file is never half written.

    Raises:
        ConfigError: FLOE-R402, the file no longer holds what was read, or has line ends of two kinds.
    """
    content = path.read_bytes()
    if read_text(path) != before:
        raise ConfigError("the file changed in the meantime", code="FLOE-R402", place=str(path), remedy="try again")
    windows, lines = content.count(b"\r\n"), content.count(b"\n")
    if 0 < windows < lines:
        remedy = "save it with one kind of line endings"
        raise ConfigError("the file mixes two kinds of line endings", code="FLOE-R402", place=str(path), remedy=remedy)
    mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    path = path.resolve()
    import tempfile  # what checks files writes none

    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(mark + (after.replace("\n", "\r\n") if windows else after).encode())
    os.chmod(beside, path.stat().st_mode)
    os.replace(beside, path)


def real_world(offline: bool = False) -> World:
    """The world as it is.

    Args:
        offline: see `World.offline`.
    """
    return World(
        dict(os.environ),
        local_state(),
        read_text,
        offline,
        secret_schemes=SecretSchemes(),
        names_in=_names_in,
        packaged_templates=_PackagedTemplates(),
        template_cache=template_cache(),
        read_bytes=read_bytes,
    )


class _PackagedTemplates(Mapping[str, Path]):
    """The template folders of installed packages: entry points of the group `floe.templates`, looked up when asked
    for."""

    def __getitem__(self, name: str) -> Path:
        from importlib.resources import files  # slow to import, and seldom needed

        return Path(str(files(offered("floe.templates")[name].load())))

    def __iter__(self) -> Iterator[str]:
        return iter(offered("floe.templates"))

    def __len__(self) -> int:
        return len(offered("floe.templates"))


def _names_in(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return ()


def local_state() -> Mapping[str, str]:
    """The addresses of the embedded stack, by the names that `${local:NAME}` has for them; none while it is down."""
    path = state_dir() / "local" / "state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in state.items()} if isinstance(state, dict) else {}


@dataclass(frozen=True)
class FoundFiles:
    """What paths stand for. A file that is named is always in `files`.

    `skipped` are YAML files below a folder that are not floe's; `empty` are the named folders without one that is.
    """

    files: tuple[Path, ...]
    skipped: tuple[Path, ...] = ()
    empty: tuple[Path, ...] = ()


def find_files(paths: Sequence[str | Path]) -> FoundFiles:
    """The files, with each folder replaced by floe's *.yaml and *.yml files in it and below it.

    Folders whose names begin with a dot, those of installed packages and `node_modules` are left out.
    """
    files: list[Path] = []
    skipped: list[Path] = []
    empty: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        below = [(each, _is_ours(each)) for each in _yaml_below(path)]
        files += [each for each, is_ours in below if is_ours]
        skipped += [each for each, is_ours in below if not is_ours]
        empty += [] if any(is_ours for _, is_ours in below) else [path]
    found = dict.fromkeys(files)
    return FoundFiles(tuple(found), tuple(path for path in dict.fromkeys(skipped) if path not in found), tuple(empty))


def _yaml_below(folder: Path) -> list[Path]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and name != "node_modules" and not Path(parent, name, "pyvenv.cfg").exists()
        ]
        found += [Path(parent, name) for name in names if name.endswith(YAML_ENDINGS)]
    return sorted(found)


def _is_ours(path: Path) -> bool:
    try:
        return is_floe_file(read_text(path))
    except (OSError, UnicodeDecodeError):
        return True  # what cannot be read is reported, not passed over


def expand(paths: Sequence[str | Path]) -> list[Path]:
    """The files that paths stand for, see `find_files`.

    Raises:
        ConfigError: FLOE-C113, a folder holds none.
    """
    found = find_files(paths)
    if found.empty:
        finding = no_files(found.empty[0])
        raise ConfigError(finding.message, code=finding.code, place=str(found.empty[0]), remedy=finding.remedy or "")
    return list(found.files)


def no_files(folder: Path) -> Diagnostic:
    """The finding for a folder in which there is nothing to check: a check of nothing must not pass."""
    return Diagnostic(
        "FLOE-C113",
        "the folder holds no floe file",
        start_of(str(folder)),
        remedy="check the path; floe's files are *.yaml or *.yml and begin with `apiVersion: floe/v1`",
    )


def pipeline_files(paths: Sequence[str | Path], world: World) -> list[Path]:
    """The pipeline files among them: a file that is named is taken as it is, of a folder targets and templates are left
    out.

    Raises:
        ConfigError: there is none.
    """
    from framework.config.check_files import kind_of  # with all rules: not for verbs that read a target alone

    named = {Path(path) for path in paths}
    found = [path for path in find_files(paths).files if path in named or kind_of(path, world) == "Pipeline"]
    if not found:
        raise no_pipelines(paths)
    return found


def no_pipelines(paths: Sequence[str | Path]) -> ConfigError:
    """The error for paths without a pipeline file: a verb that had nothing to do must not pass."""
    return ConfigError(
        "there is no pipeline file here",
        code="FLOE-P004",
        place=", ".join(map(str, paths)),
        remedy="name a file, or a folder with pipeline files; what was deployed from files that are gone ends with "
        "`floe stop PIPELINE`",
    )


def load_or_raise(
    paths: Sequence[str | Path],
    target: str | None,
    variables: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    offline: bool = False,
) -> list[LoadedPipeline]:
    """All files as pipelines, for a command that is about to use them. A folder stands for the pipeline files below it.

    Args:
        offline: nothing will be connected to, so a target's own values may be missing here.

    Raises:
        ConfigError: one or more files are wrong; carries every finding.
        SetupError: the files are right, but the environment lacks a value that they need.
    """
    from framework.config.load import load_pipelines

    world = real_world(offline)
    results = load_pipelines(pipeline_files(paths, world), target, world, variables, sets)
    return pipelines_or_raise(results)


def pipelines_or_raise(results: Sequence[LoadResult]) -> list[LoadedPipeline]:
    """The pipelines of results without errors; see `load_or_raise`."""
    findings = tuple(dict.fromkeys(finding for result in results for finding in result.diagnostics))
    if lacking := [result.file for result in results if result.ok and result.pipeline is None]:
        # Checking files can do without the values of the place where they run; what is made of a file cannot.
        raise SetupError(
            "the file refers to a value that is missing here",
            code="FLOE-C305",
            place=", ".join(lacking),
            remedy="set it in the environment, or run `floe local up`; `floe validate` names it",
        )
    errors = [finding for finding in findings if finding.is_error]
    if errors:
        wrong = len({finding.span.file for finding in errors if finding.span}) or 1
        raise_findings(f"{counted(len(errors), 'error')} in {counted(wrong, 'file')}", findings)
    return [result.pipeline for result in results if result.pipeline is not None]


def raise_findings(message: str, findings: tuple[Diagnostic, ...]) -> NoReturn:
    """Raise what the findings amount to.

    Raises:
        SetupError: the files are right; only the embedded stack, whose addresses they ask for, is not up.
        ConfigError: anything else; carries every finding.
    """
    errors = [finding for finding in findings if finding.is_error]
    if errors and all(finding.code == "FLOE-C306" for finding in errors):
        raise SetupError(
            "the embedded stack is not up", code="FLOE-C306", place=errors[0].path, remedy=errors[0].remedy or ""
        )
    raise ConfigError(message, findings)
