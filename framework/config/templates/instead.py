"""A pipeline file as it would be with another version of its template.

In: the text of a pipeline file and the name of a template. Out: the same text with that name and that template's version
in it, every other character as it was. Whether the file then loads is the loader's to say.
"""

from __future__ import annotations

from pathlib import Path

from framework.config.document import read_head
from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.templates.find import find_template
from framework.config.templates.library import read_template, version_of
from framework.config.text import SourceText
from framework.config.tree import Mapping, Scalar
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Span


def same_template(one: str, other: str) -> bool:
    """Whether two names mean versions of one template: the same library and name, whatever stands behind an `@`."""
    return _without_version(one) == _without_version(other)


def _without_version(name: str) -> str:
    library, colon, short = name.partition(":")
    if colon:
        return f"{library}:{short.partition('@')[0]}"
    return Path(name).stem if "/" in name or name.endswith(YAML_ENDINGS) else name


def with_template(source: SourceText, name: str, world: World) -> tuple[SourceText, list[Diagnostic]]:
    """The text with `name` as its template, and what hinders it."""
    template = find_template(name, None, Path(source.file).parent, world)
    if template.source is None:
        return source, [template.finding] if template.finding else []
    head, _, findings = read_template(template.source)
    if head is None or any(finding.is_error for finding in findings):
        return source, findings
    tree = read_head(source).tree
    use = tree.get("template") if tree else None
    if not isinstance(use, Mapping):
        return source, []
    wanted = {"name": name, "version": version_of(head)}
    for key in ("version", "name"):
        value = use.get(key)
        if isinstance(value, Scalar):
            source = _replaced(source, value.span, f'"{wanted[key]}"')
    return source, []


def _replaced(source: SourceText, span: Span, text: str) -> SourceText:
    lines = list(source.lines)
    first, last = lines[span.line - 1], lines[span.end_line - 1]
    lines[span.line - 1 : span.end_line] = [first[: span.column - 1] + text + last[span.end_column - 1 :]]
    return SourceText(source.file, "\n".join(lines))
