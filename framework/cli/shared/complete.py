"""What a shell offers for codes, targets, pipelines and tables.

In: what was typed so far, and the files below the working directory. Out: words. Invariant: no broker, catalog or
registry is asked, no engine is loaded, and nothing is printed: a file that cannot be loaded offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from framework.errors import FloeError

if TYPE_CHECKING:
    from framework.config.load import LoadResult

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
# A shell waits for an answer: in a large folder only some files are read.
MOST_FILES = 200


def codes(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Codes, long or short as they were begun, with their titles."""
    from framework.diagnose.codes.catalogue import CODES

    short = bool(typed) and not "FLOE-".startswith(typed.upper()[:5])
    shown = ((code.removeprefix("FLOE-") if short else code, entry.title) for code, entry in sorted(CODES.items()))
    return [CompletionItem(code, help=title) for code, title in shown if code.startswith(typed.upper())]


def targets(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the files in the `targets` folders here and above."""
    from framework.config.names.file_kinds import YAML_ENDINGS

    here = Path.cwd()
    found = [
        file.stem
        for folder in (here, *here.parents)
        if (folder / "targets").is_dir()
        for file in (folder / "targets").iterdir()
        if file.name.endswith(YAML_ENDINGS)
    ]
    return _beginning(found, typed)


def pipelines(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the pipelines in the files here and below, and the files themselves."""
    return [*_beginning(_named()[0], typed), CompletionItem(typed, type="file")]


def pipeline_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the pipelines in the files here and below."""
    return _beginning(_named()[0], typed)


def tables(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The tables that the files here and below name; not those whose names come from records."""
    return _beginning(_named()[1], typed)


def _beginning(words: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in sorted(set(words)) if word.startswith(typed)]


def _named() -> tuple[list[str], list[str]]:
    """The pipelines and the tables of the files."""
    from framework.adapters.project.files import find_files, real_world
    from framework.config.load import load_pipelines

    try:
        paths = [str(path.relative_to(Path.cwd())) for path in find_files([Path.cwd()]).files[:MOST_FILES]]
        results = load_pipelines(paths, None, real_world(offline=True))
    except (FloeError, OSError):
        return [], []
    specs = [found.spec for found in results if found.spec]
    names = [name for found in results if (name := _name_of(found))]
    rules = [spec.tables.full_name(rule.table) for spec in specs for rule in spec.routes.rules if "{" not in rule.table]
    histories = [spec.tables.full_name(history.table) for spec in specs for history in spec.tables.histories]
    return names, [
        *rules,
        *histories,
        *(spec.errors.dead_letter_table for spec in specs if spec.errors.dead_letter_table),
    ]


def _name_of(found: LoadResult) -> str:
    """The pipeline's name, also where a variable of the file is not set here; "" where there is none."""
    from framework.config.tree import plain

    metadata = plain(found.tree).get("metadata") if found.tree else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and "$" not in name else ""
