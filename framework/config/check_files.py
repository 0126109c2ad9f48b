"""Checks files of every kind: pipelines together, targets alone, templates through their own tests.

In: paths, and the environment as values. Out: all findings, file by file in the order of the paths. This is what
`floe validate` prints; it decides nothing that `framework.config.load` does not decide for a run, but for CODEOWNERS: who
reviews a file is no question of a run.
"""

from __future__ import annotations

from collections.abc import Mapping as Mapped
from collections.abc import Sequence as Listed
from dataclasses import replace
from functools import cache
from pathlib import Path

from framework.config.document import read_source
from framework.config.load import DEFAULT_TARGET, load_pipelines
from framework.config.names.file_kinds import kind_in
from framework.config.review.code_owners import asks_the_owner
from framework.config.target import load_target, read_target
from framework.config.templates.uses import load_uses
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic


def check_files(
    paths: Listed[Path],
    target_name: str | None,
    world: World,
    variables: Mapped[str, str] | None = None,
    sets: Mapped[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with some files, each finding once.

    Args:
        target_name: what pipelines and templates are checked under.
        variables, sets: for pipelines only.
    """
    world = replace(world, read_file=cache(world.read_file))  # its kind, then the file itself: one text for both
    kinds = {path: kind_of(path, world) for path in paths}
    pipelines = [path for path in paths if kinds[path] == "Pipeline"]
    loaded = iter(load_pipelines(pipelines, target_name, world, variables, sets))
    findings: list[Diagnostic] = []
    for path in paths:
        if kinds[path] == "Pipeline":
            result = next(loaded)
            findings += result.diagnostics
            if result.spec is not None and result.tree is not None and result.spec.owners.schema is not None:
                more = asks_the_owner(path, result.tree, result.spec.owners.schema, world)
                findings += result.files.finish(more)
        elif kinds[path] == "Target":
            findings += _check_target(path, world)
        else:
            target = load_target(target_name or DEFAULT_TARGET, world, path.parent)
            findings += load_uses(path, target, world).diagnostics
    return tuple(dict.fromkeys(findings))


def kind_of(path: Path, world: World) -> str:
    """The kind that a file says it is of; everything that is unclear is left to the pipeline's loader."""
    source, _ = read_source(path, world)
    return kind_in(source.text) if source else "Pipeline"


def _check_target(path: Path, world: World) -> tuple[Diagnostic, ...]:
    source, problem = read_source(path, world)
    if source is None:
        return (problem.diagnostic,) if problem else ()
    return read_target(source, world).diagnostics
