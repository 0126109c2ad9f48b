"""Finds a template by its name: in a folder `templates/`, at a path, in a locked library, in an installed package.

In: a name as written, and the folder of the pipeline file. Out: the file, with a world that reads no more than may take
part; or the finding that says why there is none. What a lock names is read only with the very text that was locked.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from framework.config.document import names_above, read_source, upwards
from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.rules.permitted import inside
from framework.config.templates.lock import LOCK_FILE, Library, read_lock, text_hash
from framework.config.text import SourceText
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.shown import argument
from framework.diagnose.suggest import did_you_mean, listed

_PLACES = ("templates", "pipelines/templates")
_REMEDY = "check the name: a file of `templates/`, a path, `package:name` or `library:name`"


@dataclass
class TemplateLookup:
    """`source` None: `finding` says why. `spoiled` fills while files are read: those that are not what was locked."""

    source: SourceText | None
    world: World
    finding: Diagnostic | None = None
    lock: SourceText | None = None
    spoiled: list[str] = field(default_factory=list)


def find_template(name: str, span: Span | None, folder: Path, world: World) -> TemplateLookup:
    """The template that a name means.

    Args:
        span: where the name is written, for what is wrong with it; None for one that no file holds.
        folder: that of the pipeline file.
    """
    package, colon, short = name.partition(":")
    if colon:
        short, at, version = short.partition("@")
        lock = lock_above(folder, world)
        libraries, findings = read_lock(lock) if lock else ((), ())
        if findings:
            return TemplateLookup(None, world, findings[0], lock)
        mine = tuple(each for each in libraries if each.name == package)
        if mine or at:
            return _locked(_Asked(package, short, version, span), mine, lock, world)
        path, problem = _packaged(package, short, world)
    elif "/" in name or name.endswith(YAML_ENDINGS):
        path, problem = _inside((folder, Path()), folder / name, world)
    else:
        path, problem = _beside(name, folder, world)
    source = read_source(path, world)[0] if path else None
    if source is not None:
        return TemplateLookup(source, world)
    message = problem or f"the template `{name}` cannot be read"
    is_short = not path and not colon
    hint = did_you_mean(name, names_above(folder, _PLACES, world)) if is_short else None
    finding = Diagnostic("FLOE-C605", message, span, path="template.name", hint=hint, remedy=_REMEDY)
    return TemplateLookup(None, world, finding)


def _beside(name: str, folder: Path, world: World) -> tuple[Path | None, str | None]:
    for parent in upwards(folder):
        for place, ending in product(_PLACES, YAML_ENDINGS):
            path = parent / place / f"{name}{ending}"
            if read_source(path, world)[0] is not None:
                return path, None
    return None, f"there is no template `{name}` in a folder `templates/` beside the pipeline file or above it"


def _packaged(package: str, short: str, world: World) -> tuple[Path | None, str | None]:
    try:
        root = (world.packaged_templates or {}).get(package)
    except (ImportError, AttributeError) as error:
        return None, f"the installed package that offers `{package}` cannot be imported: {error}"
    if root is None:
        return None, f"no installed package and no library of a `{LOCK_FILE}` offers templates as `{package}`"
    here = [root / f"{short}{ending}" for ending in YAML_ENDINGS]
    path = next((path for path in here if read_source(path, world)[0] is not None), here[0])
    return _inside((root,), path, world)


def _inside(roots: Iterable[Path], path: Path, world: World) -> tuple[Path | None, str | None]:
    """The path, where it lies in one of the folders, whatever links are on the way; else why not."""
    if any(inside(str(world.real_path(root)), str(world.real_path(path))) for root in roots):
        return path, None
    return (
        None,
        "a template must be in the pipeline file's folder, the current folder or its package, or below one of them",
    )


def lock_above(folder: Path, world: World) -> SourceText | None:
    """The nearest lock, beside the pipeline file or above it."""
    return next((source for each in upwards(folder) if (source := read_source(each / LOCK_FILE, world)[0])), None)


@dataclass(frozen=True)
class _Asked:
    library: str
    template: str
    version: str
    span: Span | None

    def finding(self, code: str, message: str, remedy: str) -> Diagnostic:
        return Diagnostic(code, message, self.span, path="template.name", remedy=remedy)


def _locked(asked: _Asked, libraries: tuple[Library, ...], lock: SourceText | None, world: World) -> TemplateLookup:
    fitting = tuple(each for each in libraries if not asked.version or each.is_version(asked.version))
    if len(fitting) != 1:
        return TemplateLookup(None, world, _ambiguous(asked, libraries, fitting), lock)
    (library,) = fitting
    files = dict(library.files)
    file = next((name for ending in YAML_ENDINGS if (name := f"{asked.template}{ending}") in files), None)
    if file is None:
        names = [path.rpartition(".")[0] for path in files]
        message = f"`{library.shown}` has no template `{asked.template}`"
        return TemplateLookup(None, world, asked.finding("FLOE-C605", message, f"it has {listed(names, 'and')}"), lock)
    root = (world.template_cache or Path()) / library.content
    found = TemplateLookup(None, world, lock=lock)
    found.world = _only(world, root, files, found.spoiled)
    found.source = read_source(root / file, found.world)[0]
    if found.source is None:
        found.finding = not_as_locked(library.shown, found, asked.span)
    return found


def not_as_locked(library: str, found: TemplateLookup, span: Span | None) -> Diagnostic:
    """The finding for a library that is not here, or whose files are not those that were locked."""
    names = listed(list(dict.fromkeys(found.spoiled)), "and")
    message = (
        f"{names} of the library `{library}` is not what `{LOCK_FILE}` says: its hash is another"
        if names
        else f"the library `{library}` is locked and not on this machine"
    )
    file = found.lock.file if found.lock else LOCK_FILE
    command = "floe templates lock" + ("" if file == LOCK_FILE else f" --lock {argument(file)}")
    remedy = f"run `{command}`, which fetches what the lock names"
    return Diagnostic("FLOE-C614", message, span, path="template.name", remedy=remedy)


def _ambiguous(asked: _Asked, libraries: tuple[Library, ...], fitting: tuple[Library, ...]) -> Diagnostic:
    if not libraries:
        message = f"no `{LOCK_FILE}` beside the pipeline file or above it has the library `{asked.library}`"
        return asked.finding("FLOE-C605", message, f"run `floe templates lock {argument(asked.library)} URL --tag TAG`")
    tags = listed([f"{asked.library}:{asked.template}@{each.tag.removeprefix('v')}" for each in fitting or libraries])
    if not fitting:
        message = f"`{LOCK_FILE}` has no version {asked.version} of the library `{asked.library}`"
        command = f"floe templates lock {argument(asked.library)} {argument(libraries[0].url)} --tag v{argument(asked.version)}"
        return asked.finding("FLOE-C605", message, f"write {tags}, or lock the tag of that version too: `{command}`")
    message = f"`{LOCK_FILE}` has several versions of the library `{asked.library}`"
    return asked.finding("FLOE-C605", message, f"write {tags}")


def _only(world: World, root: Path, files: dict[str, str], spoiled: list[str]) -> World:
    """A world whose files are those of a library, each with the text that was locked."""

    def read(path: Path) -> str:
        name = posixpath.relpath(str(path), str(root))
        if name not in files:
            raise FileNotFoundError(errno.ENOENT, "the lock names no such file", str(path))
        text = world.read_file(path)
        if text_hash(text) != files[name]:
            spoiled.append(name)
            raise OSError(errno.EILSEQ, "it is not what was locked", str(path))
        return text

    return replace(world, read_file=read)
