"""What a person looks at in a file: a key with its description, a code, the name of a template.

In: a file's text, a place in it, and what is wrong with it. Out: the text that explains the place, or the place that it leads
to. All of it is what `floe explain`, the published schemas and the loader say; nothing is said here that they do not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.config.document import read_head
from framework.config.filled.variables import Declared, declarations
from framework.config.names.file_kinds import kind_in
from framework.config.schema.document_schema import published
from framework.config.templates.find import find_template
from framework.config.text import SourceText, start_of
from framework.config.tree import Mapping, Node, Scalar, dotted, find, parse
from framework.config.tree import Path as TreePath
from framework.config.tree import Sequence as Items
from framework.config.world import World
from framework.diagnose.codes.catalogue import explanation, lookup
from framework.diagnose.diagnostic import Diagnostic, Span

_CODE = re.compile(r"\bFLOE-[A-Z][0-9]{3}\b")
_NAME, _PARAMETERS = ("template", "name"), ("template", "parameters")


@dataclass(frozen=True)
class Hover:
    """`text` is Markdown; `span` is what it explains."""

    text: str
    span: Span


def explained_at(
    source: SourceText, line: int, column: int, findings: Sequence[Diagnostic], world: World
) -> Hover | None:
    """What is known of a place: the code that stands there, or the key, and the codes of what is wrong there."""
    for found in _CODE.finditer(source.line(line)):
        if found.start() < column <= found.end() and (entry := lookup(found[0])) is not None:
            span = source.at(line, found.start() + 1, len(found[0]))
            return Hover(_as_text(explanation(entry)), span)
    here = [finding for finding in findings if finding.span and _covers(finding.span, line, column)]
    parts = [_as_text(explanation(entry)) for finding in here if (entry := lookup(finding.code)) is not None]
    path, at = _path_at(_tree(source), line, column)
    if path and (reported := _key_explained(source, path, world)):
        parts.insert(0, reported)
    if not parts:
        return None
    return Hover("\n\n---\n\n".join(dict.fromkeys(parts)), at or here[0].span or start_of(source.file))


def definition_at(source: SourceText, line: int, column: int, world: World) -> Span | None:
    """Where the template is that a place names, or the parameter that it gives."""
    tree = _tree(source)
    path, _ = _path_at(tree, line, column)
    if not path or tree is None or path[:2] not in (_NAME, _PARAMETERS):
        return None
    template = _template(tree, source, world)
    if template is None or path[:2] == _NAME:
        return start_of(template.file) if template else None
    declared = _parameter(template, path)
    return declared.span if declared else None


def _as_text(page: str) -> str:
    """A page of `floe explain` as Markdown: its examples are indented, which is a block of code there, too."""
    title, _, rest = page.partition("\n")
    return f"**{title}**\n{rest}"


def _tree(source: SourceText) -> Mapping | None:
    """The tree of a file as it is written; None where a half-written line is no YAML."""
    tree, _ = parse(source)
    return tree if isinstance(tree, Mapping) else None


def _covers(span: Span, line: int, column: int) -> bool:
    return (span.line, span.column) <= (line, column) < (span.end_line, span.end_column)


def _path_at(node: Node | None, line: int, column: int) -> tuple[TreePath, Span | None]:
    """The path of the innermost key or value at a place."""
    if isinstance(node, Mapping):
        for entry in node.entries:
            if _covers(entry.key_span, line, column):
                return (entry.key,), entry.key_span
            if _covers(entry.value.span, line, column):
                return _inside(entry.key, entry.value, line, column)
    if isinstance(node, Items):
        for index, item in enumerate(node.items):
            if _covers(item.span, line, column):
                return _inside(index, item, line, column)
    return (), None


def _inside(part: str | int, value: Node, line: int, column: int) -> tuple[TreePath, Span | None]:
    """As `_path_at`; between the keys of a mapping there is nothing to look at."""
    if isinstance(value, Scalar):
        return (part,), value.span
    path, span = _path_at(value, line, column)
    return ((part, *path), span) if path else ((), None)


# ---- keys ------------------------------------------------------------------------------------------------------------


def _key_explained(source: SourceText, path: TreePath, world: World) -> str | None:
    """What a key means: by the template that it is a parameter of, or by the schema of its file."""
    kind = kind_in(source.text).lower()
    if path[:2] == _PARAMETERS and len(path) > 2 and kind == "pipeline":
        tree = _tree(source)
        template = _template(tree, source, world) if tree else None
        declared = _parameter(template, path) if template else None
        if declared is not None:
            default = f"\n\nDefault: `{json.dumps(declared.default)}`" if declared.has_default else ""
            return f"**{declared.name}** ({declared.type})\n\n{declared.description}{default}"
    schema = next(_schemas(published(kind), path), None)
    return _schema_explained(schema, path) if schema else None


def _schemas(schema: Any, path: TreePath) -> Iterator[Any]:
    """What the schema says of the value at a path, the most exact first. Items of lists have no description of their own
    that helps, so theirs is that of the list."""
    if not isinstance(schema, dict):
        return
    for branch in schema.get("anyOf", ()):
        yield from _schemas(branch, path)
    if not path:
        if "description" in schema:
            yield schema
        return
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        yield from _schemas(schema.get("items"), rest)
        if not rest and "description" in schema:
            yield schema
        return
    named = schema.get("properties", {}).get(part)
    patterns = schema.get("patternProperties", {}).items()
    others = [named] if named is not None else [each for pattern, each in patterns if re.search(pattern, part)]
    for each in others or [schema.get("additionalProperties")]:
        yield from _schemas(each, rest)


def _schema_explained(schema: Any, path: TreePath) -> str:
    words = [f"**{dotted(path)}**", str(schema["description"])]
    if values := [value for value in schema.get("enum", ()) if value is not None]:
        words.append("One of " + ", ".join(f"`{value}`" for value in values) + ".")
    if "default" in schema:
        words.append(f"Default: `{_value(schema['default'])}`")
    words += [f"Example: `{_value(example)}`" for example in schema.get("examples", ())[:2]]
    return "\n\n".join(words)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- templates -------------------------------------------------------------------------------------------------------


def _template(tree: Mapping, source: SourceText, world: World) -> SourceText | None:
    name = find(tree, _NAME)
    if not isinstance(name, Scalar) or not isinstance(name.value, str) or not name.value:
        return None
    return find_template(name.value, name.span, Path(source.file).parent, world).source


def _parameter(template: SourceText, path: TreePath) -> Declared | None:
    tree = read_head(template).tree
    declared = declarations(tree.get("parameters")) if tree else ()
    return next((one for one in declared if one.name == path[2]), None) if len(path) > 2 else None
