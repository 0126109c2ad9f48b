"""Reads the schemas that a pipeline file names by path, and puts them into its tree.

In: a checked tree, and the environment as values. Out: the tree with the text of each `schema_file` under `schema`, so
that it holds all a run needs; findings where a file cannot be read. A protobuf descriptor set is bytes and becomes
Base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

from framework.config.document import read_source
from framework.config.rules.permitted import inside
from framework.config.tree import Entry, Mapping, Scalar
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic

_NO_FILES = ("/proc/", "/sys/", "/dev/")
_KEYS = ("format", "key")


def with_schemas(tree: Mapping, file: Path, world: World) -> tuple[Mapping, list[Diagnostic]]:
    """The tree with the schemas in it."""
    findings: list[Diagnostic] = []
    source = tree.get("source")
    if not isinstance(source, Mapping):
        return tree, findings
    entries = tuple(
        Entry(entry.key, entry.key_span, _read(entry, file, world, findings))
        if entry.key in _KEYS and isinstance(entry.value, Mapping)
        else entry
        for entry in source.entries
    )
    if all(new.value is old.value for new, old in zip(entries, source.entries, strict=True)):
        return tree, findings
    filled = Mapping(entries, source.span)
    whole = tuple(Entry(e.key, e.key_span, filled) if e.key == "source" else e for e in tree.entries)
    return Mapping(whole, tree.span), findings


def _read(entry: Entry, file: Path, world: World, findings: list[Diagnostic]) -> Mapping:
    assert isinstance(entry.value, Mapping)
    named = entry.value.entry("schema_file")
    if named is None or not isinstance(named.value, Scalar):
        return entry.value
    path = file.parent / str(named.value.value)
    kind = entry.value.get("type")
    where = f"source.{entry.key}.schema_file"
    if (problem := _outside(path, file.parent, world.real_path)) is not None:
        remedy = "keep it in the folder of the pipeline file or below it, or below the current folder"
        findings.append(Diagnostic("FLOE-C434", f"`{path}`: {problem}", named.value.span, path=where, remedy=remedy))
        return entry.value
    is_binary = isinstance(kind, Scalar) and kind.value == "protobuf"
    text, problem = _read_base64(path, world) if is_binary else _read_text(path, world)
    if text is None:
        findings.append(
            Diagnostic("FLOE-C434", f"`{path}`: {problem}", named.value.span, path=where, remedy="check the path")
        )
        return entry.value
    if not is_binary and (fault := avro_fault(text)):
        remedy = 'begin with `{"type": "record", "name": ..., "fields": [...]}`'
        message = f"`{path}` is not an Avro schema: {fault}"
        findings.append(Diagnostic("FLOE-C433", message, named.value.span, path=where, remedy=remedy))
    schema = Entry("schema", named.key_span, Scalar(text, named.value.span, plain=False))
    return Mapping(tuple(schema if e is named else e for e in entry.value.entries), entry.value.span)


def _outside(path: Path, folder: Path, real_path: Callable[[Path], Path]) -> str | None:
    """Why a schema's file may not be read: it would become part of the plan, which people see."""
    real = str(real_path(path))
    if real.startswith(_NO_FILES) or not any(inside(str(real_path(root)), real) for root in (folder, Path())):
        return "it is outside the folder of the pipeline file"
    return None


def avro_fault(text: str) -> str | None:
    """Why a text is no Avro schema, as far as its outermost type says."""
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        return f"it is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    except (ValueError, RecursionError):
        return "its JSON cannot be read: a number is too long, or it is nested too deeply"
    is_type = isinstance(schema, (str, list)) or (isinstance(schema, dict) and "type" in schema)
    return None if is_type else "it names no type"


def _read_text(path: Path, world: World) -> tuple[str | None, str]:
    source, problem = read_source(path, world)
    return (source.text, "") if source else (None, problem.diagnostic.message if problem else "")


def _read_base64(path: Path, world: World) -> tuple[str | None, str]:
    try:
        return base64.b64encode(world.read_bytes(path)).decode(), ""
    except OSError as error:
        return None, f"the file cannot be read: {error.strerror or error}"
