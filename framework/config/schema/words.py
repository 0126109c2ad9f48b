"""Explains violations of the JSON Schema in plain words.

In: a violation as jsonschema reports it, the tree and the schema. Out: diagnostics with a position, a guess and a
remedy. Only the schema decides whether a value is right; `value_kinds` explains values with a form of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from framework.config.tree import Mapping, Node, Path, Scalar, Sequence, dotted, find, nearest_span, plain
from framework.config.values.value_kinds import EXPLAINERS, show
from framework.config.versions import CURRENT, unknown_version
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.secrets import HIDDEN, is_secret_name
from framework.diagnose.suggest import did_you_mean, listed, nearest

_TYPES = {
    "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "number": "a number",
    "boolean": "`true` or `false`", "null": "nothing",
}  # fmt: skip
_EXPLAINED_TYPES = (
    "integer", "number", "boolean", "duration", "duration-or-auto", "size", "evolution", "write-order", "delete-when",
)  # fmt: skip
_TOP = "the top of the file"
_OTHER_KINDS = tuple(f"`{kind}`" for kind in ("Pipeline", "Target", "Template"))
# What people write who come from other tools, and the word for it here.
_SYNONYMS = {
    "beginning": "earliest", "oldest": "earliest", "smallest": "earliest", "end": "latest", "newest": "latest",
    "seconds": "s", "milliseconds": "ms", "millis": "ms", "microseconds": "us", "micros": "us", "nanoseconds": "ns",
    "ignore": "drop", "skip": "drop", "discard": "drop", "dlq": "dead_letter", "stop": "fail", "add": "evolve",
}  # fmt: skip
# Words for one key, in other tools and elsewhere in these files.
_SAME_KEYS = (
    {"type", "kind", "format"}, {"interval", "every", "frequency", "period"}, {"sql", "query", "statement"},
    {"control_topic", "topic"}, {"dead_letter_table", "dead_letters", "dlq"}, {"equals", "eq", "value", "is"},
    {"matches", "regex", "pattern", "match"}, {"partition_by", "partition", "partitions", "partitioned_by"},
    {"allow_tables", "allow", "tables"}, {"expect", "output", "outputs", "expected"}, {"topics", "topic"},
)  # fmt: skip


def explain(error: ValidationError, tree: Node, root: Any) -> Iterator[Diagnostic]:
    """The findings that one violation stands for.

    Args:
        root: the whole schema, to find where a misplaced key belongs.
    """
    path: Path = tuple(error.absolute_path)
    node = find(tree, path) or tree
    keyword = str(error.validator)
    if "propertyNames" in error.schema_path:
        yield _bad_key(error, tree, path)
    elif keyword == "additionalProperties" and isinstance(node, Mapping):
        yield from _unknown_keys(node, path, error.schema, root)
    elif keyword == "required" and isinstance(node, Mapping):
        yield _missing(error, node, path)
    elif isinstance(node, Scalar):
        yield _bad_leaf(node, path, error.schema, keyword)
    else:
        yield _bad_shape(node, path, error.schema, keyword)


def without_echoes(findings: list[Diagnostic]) -> list[Diagnostic]:
    """Without "has no `table`" where "unknown key `tabel`, did you mean `table`?" has said it, and without what follows
    from a file's being of another kind than the one asked for."""
    other = [finding for finding in findings if finding.path == "kind" and finding.message.endswith(_OTHER_KINDS)]
    if other:
        return other
    meant = set()
    for finding in findings:
        if finding.code == "FLOE-C201" and finding.hint and finding.hint.startswith("did you mean"):
            parent = finding.path.rpartition(".")[0]
            key = finding.hint.split("`")[1]
            meant.add(f"{parent}.{key}" if parent else key)
    return [finding for finding in findings if finding.code != "FLOE-C202" or finding.path not in meant]


# ---- keys ----------------------------------------------------------------------------------------------------------


def _unknown_keys(node: Mapping, path: Path, schema: Any, root: Any) -> Iterator[Diagnostic]:
    known = schema.get("properties", {})
    place = f"in {_where(path)}" if path else f"at {_TOP}"
    # What a template gives lies below this file, which may give it, too.
    given_in: dict[str, set[str]] = {}
    for entry in node.entries:
        given_in.setdefault(entry.key_span.file, set()).add(entry.key)
    for entry in node.entries:
        if entry.key in known or entry.key.startswith("x-"):
            continue
        given = given_in[entry.key_span.file]
        free = [key for key in known if key not in given]
        hint = did_you_mean(entry.key, free) or _same_key(entry.key, free)
        remedy = "correct the name; keys of your own begin with `x-`"
        if hint is None:
            hint = _belongs(entry.key, path, [name for name in known if name in given], root)
            remedy = f"{'correct its place or its name' if hint else f'use {listed(known)}'}; keys of your own begin with `x-`"
        where = dotted((*path, entry.key))
        message = f"unknown key `{entry.key}` {place}"
        yield Diagnostic("FLOE-C201", message, entry.key_span, path=where, hint=hint, remedy=remedy)


def _same_key(key: str, free: list[str]) -> str | None:
    """Another word for the same thing that is a key here."""
    meant = [name for words in _SAME_KEYS if key.lower() in words for name in free if name in words]
    return f"did you mean `{meant[0]}`?" if meant else None


def _belongs(key: str, path: Path, present: list[str], root: Any) -> str | None:
    if path == ("source", "kafka") and "." in key:
        return "settings of the connection belong in the target, under `connections.kafka`"
    given = nearest(key, present)
    if given:
        return f"`{given}` is already given"
    # What tests say of records are common words; they help only those who write tests.
    homes = [home for home in _homes_in(root).get(key, ()) if path[:1] == ("tests",) or not home.startswith("tests")]
    if not homes:
        return None
    if _TOP in homes:
        return f"`{key}` belongs at {_TOP}"
    return f"`{key}` belongs in {listed(homes[:3])}"


# By the schema's identity, which is kept with it: schemas are read once.
_HOMES: dict[int, tuple[Any, dict[str, list[str]]]] = {}


def _homes_in(root: Any) -> dict[str, list[str]]:
    """Where in the schema each key exists, to tell people who indented it wrongly."""
    found = _HOMES.get(id(root))
    if found is None:
        if len(_HOMES) > 16:
            _HOMES.clear()
        homes: dict[str, list[str]] = {}
        for key, home in _homes(root, ""):
            homes.setdefault(key, []).append(home)
        found = _HOMES[id(root)] = root, homes
    return found[1]


def _homes(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    for name, child in schema.get("properties", {}).items():
        yield name, path or _TOP
        yield from _homes(child, f"{path}.{name}" if path else name)
    yield from _homes(schema.get("items"), f"{path}[]")


def _missing(error: ValidationError, node: Mapping, path: Path) -> Diagnostic:
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    key = next((name for name in wanted if error.message == f"{name!r} is a required property"), str(wanted[:1]))
    schema: Any = error.schema
    wanted_here = schema.get("properties", {}).get(key, {}) if isinstance(schema, dict) else {}
    span = node.entries[0].key_span if not path and node.entries else _head(node.span)
    message = f"{_where(path) if path else 'the file'} has no `{key}`"
    value = wanted_here.get("const") or next((v for v in wanted_here.get("examples", ()) if isinstance(v, str)), None)
    remedy = f"add `{key}: {value}`" if value else f"add `{key}:`"
    if "enum" in wanted_here:
        remedy = f"add `{key}:` with {listed(_words_of(wanted_here))}"
    if "const" not in wanted_here and value:
        remedy = f"add `{key}:`, such as `{value}`"
    return Diagnostic("FLOE-C202", message, span, path=dotted((*path, key)), remedy=remedy)


def _bad_key(error: ValidationError, tree: Node, path: Path) -> Diagnostic:
    key = str(error.instance)
    node = find(tree, path)
    entry = node.entry(key) if isinstance(node, Mapping) else None
    span = entry.key_span if entry else nearest_span(tree, path)
    remedy = "use letters, digits and `_`, beginning with a letter"
    return Diagnostic("FLOE-C209", f"`{key}` cannot be a name here", span, path=dotted((*path, key)), remedy=remedy)


# ---- values --------------------------------------------------------------------------------------------------------


def _bad_leaf(node: Scalar, path: Path, schema: Any, keyword: str) -> Diagnostic:
    value = node.value
    if path and path[:2] != ("source", "schema") and is_secret_name(str(path[-1])):
        value = HIDDEN if isinstance(value, str) else value
        node = Scalar(value, node.span, node.plain)
    shown = f"`{node.text}`" if node.text and not isinstance(value, str) else show(value)
    where, types = _where(path), _types(schema)

    def found(code: str, message: str, remedy: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(code, message, node.span, path=dotted(path), hint=hint, remedy=remedy)

    if value is None and keyword in ("type", "enum", "const"):
        return found("FLOE-C203", f"{where} has no value", _expected(schema, "give it"))
    if keyword == "const" and schema["const"] == CURRENT:
        return unknown_version(str(value), node.span)
    if keyword == "const":
        wanted = schema["const"]
        return found("FLOE-C204", f"{where} is {shown}", f"write `{wanted}`", f"did you mean `{wanted}`?")
    if keyword == "enum":
        words = _words_of(schema)
        message = f"{shown} is not one of the values of {where}"
        return found("FLOE-C204", message, f"use {listed(words)}", _meant(str(value), words))
    if keyword in ("minimum", "maximum"):
        limit = f"{'at least' if keyword == 'minimum' else 'at most'} {schema[keyword]}"
        return found("FLOE-C210", f"{where} must be {limit}, not {shown}", f"write a number of {limit}")
    kind = schema.get("x-floe-kind")
    if kind in EXPLAINERS and (keyword in ("pattern", "format", "minLength") or kind in _EXPLAINED_TYPES):
        reported = EXPLAINERS[kind](value)
        return found(reported.code, reported.message, reported.remedy, reported.hint)
    if keyword == "minLength":
        return found("FLOE-C203", f"{where} is empty", "give it a value, or remove the key")
    if keyword == "pattern":
        return found("FLOE-C215", f"{shown} does not have the form of {where}", _formed(schema))
    if types == ["object"] and (key := _key_of(value, schema)):
        meant = f"did you mean `{{{key}: {value}}}`?"
        return found("FLOE-C203", f"{where} must be a mapping, not {shown}", _expected(schema, "write"), meant)
    if types == ["string"]:
        read_as = "a boolean" if isinstance(value, bool) else "a number"
        return found("FLOE-C203", f"{shown} is read as {read_as}, but {where} is text", "put quotes around it")
    if types == ["array"]:
        return found("FLOE-C203", f"{where} must be a list", f"write `[{value}]`")
    return found("FLOE-C203", f"{where} must be {_kinds(types)}, not {shown}", _expected(schema, "write"))


def _words_of(schema: Any) -> list[str]:
    """The values to choose from as they are written; what YAML makes of `null` without quotes is none of its own."""
    return [str(word) for word in schema["enum"] if word is not None]


def _key_of(value: Any, schema: Any) -> str | None:
    """The one key of a mapping whose words hold a value that was written in the mapping's place."""
    keys = [name for name, child in schema.get("properties", {}).items() if value in child.get("enum", ())]
    return keys[0] if len(keys) == 1 else None


def _meant(word: str, words: list[str]) -> str | None:
    synonym = _SYNONYMS.get(word.lower())
    return f"did you mean `{synonym}`?" if synonym in words else did_you_mean(word, words)


def _bad_shape(node: Node, path: Path, schema: Any, keyword: str) -> Diagnostic:
    where = _where(path) if path else "the file"
    span = _head(node.span)
    if keyword == "minItems":
        remedy = "give at least one item, or remove the key"
        return Diagnostic("FLOE-C213", f"{where} is empty", span, path=dotted(path), remedy=remedy)
    if keyword == "minProperties":
        remedy = f"use {listed(schema['properties'])}" if "properties" in schema else "give at least one"
        return Diagnostic("FLOE-C213", f"{where} is empty", span, path=dotted(path), remedy=remedy)
    if keyword == "uniqueItems" and isinstance(node, Sequence):
        message = f"{where} holds the same item twice"
        return Diagnostic("FLOE-C218", message, _repeated(node), path=dotted(path), remedy="keep one of them")
    given = "a mapping" if isinstance(node, Mapping) else "a list"
    remedy = "begin each item with `- `" if _types(schema) == ["array"] else _expected(schema, "write")
    if isinstance(node, Sequence) and _types(schema) == ["string"] and "commas" in str(schema.get("description")):
        remedy = f"write one text: `{','.join(str(plain(item)) for item in node.items)}`"
    if isinstance(node, Sequence) and path[:1] == ("routes",) and path[-1:] == ("equals",):
        remedy = "write a rule for each value, or one with `matches:` and a regular expression such as `^(a|b)$`"
    message = f"{where} must be {_kinds(_types(schema))}, not {given}"
    return Diagnostic("FLOE-C203", message, span, path=dotted(path), remedy=remedy)


def _repeated(node: Sequence) -> Span:
    seen: list[Any] = []
    for item in node.items:
        if plain(item) in seen:
            return item.span
        seen.append(plain(item))
    return node.span


# ---- phrases -------------------------------------------------------------------------------------------------------


def _where(path: Path) -> str:
    """A path for a sentence. Items have no number, since the line is shown and a loop's turns are one finding."""
    shown = re.sub(r"\[[0-9]+\]", "[]", dotted(path))
    return f"`{shown}`"


def _types(schema: Any) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _kinds(types: list[str]) -> str:
    words = [_TYPES[name] for name in types if name != "boolean"]
    words += ["`true`", "`false`"] if "boolean" in types else []
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words) or "something else"


def _expected(schema: Any, verb: str) -> str:
    if "const" in schema:
        return f"{verb} `{schema['const']}`"
    if "enum" in schema:
        return f"{verb} {listed(_words_of(schema))}"
    types = _types(schema)
    examples = schema.get("examples") or ([schema["default"]] if "default" in schema else [])
    if examples:
        return f"{verb} {_kinds(types)}, such as `{json.dumps(examples[0], ensure_ascii=False)}`"
    if types == ["object"] and schema.get("properties"):
        return f"{verb} {_kinds(types)} with {listed(schema['properties'])}"
    others = schema.get("additionalProperties")
    if types == ["object"] and isinstance(others, dict):
        return f"{verb} {_kinds(types)}: {'a name, then its settings' if others.get('properties') else 'a key and a value each'}"
    return f"{verb} {_kinds(types)}"


def _described(schema: Any) -> str:
    text = str(schema.get("description", "see the reference")).rstrip(".")
    return f"give {text[0].lower()}{text[1:]}"


def _formed(schema: Any) -> str:
    example = next(iter(schema.get("examples", ())), None)
    return f"write it like `{example}`" if example else _described(schema)


def _head(span: Span) -> Span:
    """The first character of a block, or the whole of a value on one line."""
    if span.end_line == span.line:
        return span
    return Span(span.file, span.line, span.column, span.line, span.column + 1)
