"""Explains violations of the JSON Schema in plain words.

In: a violation as jsonschema reports it, the tree and the schema. Out: diagnostics with a position, a guess and a
remedy. Only the schema decides whether a value is right; `value_kinds` explains values with a form of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator

from framework.config.schema.echoes import Violation
from framework.config.text import SourceText
from framework.config.tree import Entry, Mapping, Node, Path, Scalar, Sequence, dotted, find, nearest_span, parse, plain
from framework.config.units import quoted
from framework.config.values.value_kinds import EXPLAINERS, explained, show, unsaid_name
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
    "envelope", "percent",
)  # fmt: skip
_GUESS = re.compile(r"did you mean `(.*)`\?", re.DOTALL)
_TOP = "the top of the file"
_OWN_KEYS = "keys of your own begin with `x-`"
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


def explain(error: ValidationError, tree: Node, root: Any, rule: Validator) -> Iterator[Violation]:
    """What to say of one violation.

    Args:
        root: the whole schema, to find where a misplaced key belongs.
        rule: of the part that was violated: a value that is guessed in its place must fit it.
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
        finding = _bad_leaf(node, path, rule, keyword)
        yield Violation(finding, empty=node.value is None and finding.code == "FLOE-C203")
    else:
        yield Violation(_bad_shape(node, path, error.schema, keyword))


# ---- keys ----------------------------------------------------------------------------------------------------------


def _unknown_keys(node: Mapping, path: Path, schema: Any, root: Any) -> Iterator[Violation]:
    known = schema.get("properties", {})
    # What a template gives lies below this file, which may give it, too.
    given_in: dict[str, set[str]] = {}
    for entry in node.entries:
        given_in.setdefault(entry.key_span.file, set()).add(entry.key)
    together: dict[tuple[str, ...], list[Entry]] = {}
    for entry in node.entries:
        if entry.key in known or entry.key.startswith("x-"):
            continue
        given = given_in[entry.key_span.file]
        near = _nearest_key(entry.key, [key for key in known if key not in given])
        homes = () if near or (path == ("source", "kafka") and "." in entry.key) else _homes_of(entry.key, path, root)
        if near:
            yield _unknown([entry], path, _meant_key(entry, near), (dotted((*path, near)),))
        elif homes:
            together.setdefault(homes, []).append(entry)
        else:
            yield _unknown([entry], path, _otherwise(entry, path, [name for name in known if name in given], known))
    for homes, entries in together.items():
        keys = [entry.key for entry in entries]
        where = _TOP if _TOP in homes else listed(homes[:3])
        hint = f"{listed(keys, 'and')} {'belongs' if len(keys) == 1 else 'belong'} {'at' if _TOP in homes else 'in'} {where}"
        remedy = "correct its place or its name" if len(keys) == 1 else "correct their place or their names"
        meant = tuple(key if home == _TOP else f"{home}.{key}" for home in homes for key in keys)
        yield _unknown(entries, path, (hint, f"{remedy}; {_OWN_KEYS}"), meant, moved=True)


def _unknown(
    entries: list[Entry], path: Path, said: tuple[str | None, str], meant: tuple[str, ...] = (), moved: bool = False
) -> Violation:
    where = f"in {_where(path)}" if path else f"at {_TOP}"
    keys = listed([entry.key for entry in entries], "and")
    message = f"unknown key{'s' if len(entries) > 1 else ''} {keys} {where}"
    first, (hint, remedy) = entries[0], said
    place = dotted((*path, first.key))
    return Violation(
        Diagnostic("FLOE-C201", message, first.key_span, path=place, hint=hint, remedy=remedy), meant, moved
    )


def _nearest_key(key: str, free: list[str]) -> str | None:
    """The key that was probably meant: one that is written alike, or another word for the same thing."""
    word = _first_word(key)
    meant = [name for words in _SAME_KEYS if key.lower() in words for name in free if name in words]
    return word if word in free else nearest(key, free) or (meant[0] if meant else None)


def _first_word(key: str) -> str:
    """`kind` of what YAML takes for the key where a colon is missing or is not the only one: `kind:: Target`, `kind Target`,
    `kind = Target`, `kind:Target`, `kind {a: b}`."""
    return re.split(r"[\s:={]", key, maxsplit=1)[0]


def _meant_key(entry: Entry, near: str) -> tuple[str, str]:
    hint = f"did you mean `{near}`?"
    if _first_word(entry.key) == near != entry.key:
        return hint, f"write one `: ` after the key: `{near}: ...`"
    return hint, f"correct the name; {_OWN_KEYS}"


def _otherwise(entry: Entry, path: Path, present: list[str], known: Any) -> tuple[str | None, str]:
    """What to say of a key that is near no other one and known nowhere else."""
    if path == ("source", "kafka") and "." in entry.key:
        hint = "settings of the connection belong in the target, under `connections.kafka`"
        return hint, f"correct its place or its name; {_OWN_KEYS}"
    if given := nearest(entry.key, present):
        return f"`{given}` is already given", f"correct its place or its name; {_OWN_KEYS}"
    return None, f"use {listed(known)}; {_OWN_KEYS}"


def _homes_of(key: str, path: Path, root: Any) -> tuple[str, ...]:
    """Where a key belongs that is not known in its place."""
    # Words of tests, of owners, of objectives and of rebuilds are common ones; they help only those who write such.
    homes = _homes_in(root).get(key, ())
    return tuple(home for home in homes if all(path[:1] in at or not home.startswith(part) for part, at in _APART))


_APART = (
    ("tests", (("tests",),)),
    ("owners", (("owners",), ("metadata",))),
    ("objectives", (("objectives",),)),
    ("source.rebuild_from", ()),
)
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


def _missing(error: ValidationError, node: Mapping, path: Path) -> Violation:
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    key = next((name for name in wanted if error.message == f"{name!r} is a required property"), str(wanted[:1]))
    schema: Any = error.schema
    known = schema.get("properties", {}) if isinstance(schema, dict) else {}
    wanted_here = known.get(key, {})
    # Where any key may stand, one that is written alike is that one: the settings of a catalog that has no `type`.
    near = nearest(key, [one for one in node.keys if one not in known]) if "additionalProperties" in schema else None
    if near is not None and schema["additionalProperties"] is not False:
        entry = node.entry(near)
        assert entry is not None
        return _unknown([entry], path, _meant_key(entry, key), (dotted((*path, key)),))
    span = node.entries[0].key_span if not path and node.entries else _head(node.span)
    message = f"{_where(path) if path else 'the file'} has no `{key}`"
    inside = [(entry.key, there) for entry in node.entries if (there := _entry_in(entry.value, key)) is not None]
    if not path and inside:  # a block that is indented too far
        message += f": that of line {inside[0][1].key_span.line} stands in `{inside[0][0]}`"
    value = wanted_here.get("const") or next((v for v in wanted_here.get("examples", ()) if isinstance(v, str)), None)
    remedy = f"add `{key}: {value}`" if value else f"add `{key}:`"
    if "enum" in wanted_here:
        remedy = f"add `{key}:` with {listed(_words_of(wanted_here))}"
    if "const" not in wanted_here and value:
        remedy = f"add `{key}:`, such as `{value}`"
    return Violation(Diagnostic("FLOE-C202", message, span, path=dotted((*path, key)), remedy=remedy), missing=(key,))


def _entry_in(node: Node, key: str) -> Entry | None:
    return node.entry(key) if isinstance(node, Mapping) else None


def _bad_key(error: ValidationError, tree: Node, path: Path) -> Violation:
    key = str(error.instance)
    node = find(tree, path)
    entry = node.entry(key) if isinstance(node, Mapping) else None
    span = entry.key_span if entry else nearest_span(tree, path)
    remedy, hint, meant = "use letters, digits and `_`, beginning with a letter", None, key.rstrip(": =")
    if meant != key and meant.isidentifier():
        hint, remedy = f"did you mean `{meant}`?", f"write one `: ` after the key: `{meant}: ...`"
    elif path == ("source", "schema") and (way := quoted(key)) is not None:
        remedy = f"write `{json.dumps(way, ensure_ascii=False)}: ...`"
    place, message = dotted((*path, key)), f"`{key}` cannot be a name here"
    if path == ("source", "schema") and (refused := unsaid_name(key)) is not None:
        message, remedy = refused.message, refused.remedy
    finding = Diagnostic("FLOE-C209", message, span, path=place, hint=hint, remedy=remedy)
    return Violation(finding, (dotted((*path, meant)),) if hint else ())


# ---- values --------------------------------------------------------------------------------------------------------


def _bad_leaf(node: Scalar, path: Path, rule: Validator, keyword: str) -> Diagnostic:
    value, schema = node.value, cast("Any", rule.schema)
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
        reported = explained(kind, value)
        guess = _GUESS.fullmatch(reported.hint or "")
        is_right = guess is None or any(rule.is_valid(each) for each in _values_of(guess[1]))
        return found(reported.code, reported.message, reported.remedy, reported.hint if is_right else None)
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


def _values_of(text: str) -> tuple[Any, ...]:
    """What a text may be in a file."""
    value, findings = parse(SourceText("", text))
    return (text,) if value is None or findings else (text, plain(value))


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
