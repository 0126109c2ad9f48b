"""Lists the templates that pipelines in a folder could use, by the names under which they would.

In: a folder and the world. Out: names, in order: those of folders `templates/`, of the lock's libraries, of installed
packages. Which file a name means is `framework.config.templates.find`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from framework.adapters.host.plugins import offered
from framework.config.document import upwards
from framework.config.names.file_kinds import YAML_ENDINGS, kind_in
from framework.config.templates.find import lock_above
from framework.config.templates.lock import read_lock
from framework.config.world import World

TEMPLATE = "Template"


def template_names(folder: Path, world: World) -> list[str]:
    """The names; of two files with one name the nearer counts, as it does for a pipeline."""
    return list(dict.fromkeys([*_beside(folder, world), *_locked(folder, world), *_packaged(world)]))


def _beside(folder: Path, world: World) -> Iterator[str]:
    for parent in upwards(folder):
        for place in ("templates", "pipelines/templates"):
            yield from _in(parent / place, world)


def _locked(folder: Path, world: World) -> Iterator[str]:
    lock = lock_above(folder, world)
    for library in read_lock(lock)[0] if lock else ():
        for path, _ in library.files:
            yield f"{library.name}:{path.rpartition('.')[0]}@{library.tag.removeprefix('v')}"


def _packaged(world: World) -> Iterator[str]:
    for package in sorted(offered("floe.templates")):
        try:
            root = (world.packaged_templates or {})[package]
        except (ImportError, AttributeError, KeyError):
            continue  # reported where it is used
        yield from (f"{package}:{name}" for name in _in(root, world))


def _in(folder: Path, world: World) -> Iterator[str]:
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if path.suffix in YAML_ENDINGS:
            try:
                text = world.read_file(path)
            except (OSError, UnicodeDecodeError):
                continue
            if kind_in(text) == TEMPLATE:
                yield path.stem
