"""Rules about where records come from: topics, format, declared fields, SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from zoneinfo import available_timezones

from framework.config.names.column_names import SiblingNames
from framework.config.names.metadata import is_metadata, metadata_column
from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.spec import BASE64, DIGITS, HEX
from framework.config.tree import Mapping, Path, Scalar, dotted
from framework.config.values.evolution import EVOLVE_SHORTHANDS
from framework.config.values.time_format import DIRECTIVES, format_fault
from framework.config.values.type_text import fields_inside, innermost, structure, text_of
from framework.config.values.value_kinds import nested_type
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed

# Texts, quoted names and comments; one that is not closed takes the rest.
_NO_WORDS = r"'(?:[^'\\]|\\.|'')*(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)"
_REFUSED_SQL = (
    (r"\bGROUP\s+BY\b", "GROUP BY"),
    (r"\bJOIN\b", "JOIN"),
    (r"\bORDER\s+BY\b", "ORDER BY"),
    (r"\bLIMIT\b", "LIMIT"),
    (r"\bSELECT\s+DISTINCT\b", "DISTINCT"),
    (r"\b(UNION|INTERSECT|EXCEPT)\b(?!\s*\()", "UNION"),
    (r"\bOVER\s*\(", "a window"),
    (r"\bHAVING\b", "HAVING"),
    (r"\b(COUNT|SUM|AVG|MIN|MAX)\s*\(", "an aggregate"),
    (r"\bEXPLODE(_OUTER)?\s*\(", "EXPLODE"),
    (r"\bLATERAL\s+VIEW\b", "LATERAL VIEW"),
)
_DATED = ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def topics_or_pattern(document: Document) -> Iterator[Diagnostic]:
    """A source names its topics, or gives a pattern for them, and not both."""
    entry = document.entry("source", "kafka")
    if entry is None or not isinstance(entry.value, Mapping):
        return
    topics, pattern = document.entry("source", "kafka", "topics"), document.entry("source", "kafka", "topic_pattern")
    if topics and pattern:
        yield at(
            "FLOE-C407",
            "`topics` and `topic_pattern` are both given",
            pattern,
            ("source", "kafka", "topic_pattern"),
            "keep one of them",
        )
    elif not topics and not pattern:
        yield at(
            "FLOE-C407",
            "`source.kafka` names no topic",
            entry,
            ("source", "kafka"),
            "add `topics: [name]` or `topic_pattern:`",
        )


def name_is_free(document: Document) -> Iterator[Diagnostic]:
    """A pipeline's name does not make its consumer group that of the coordinator."""
    path = ("metadata", "name")
    name, entry = document.text(*path), document.entry(*path)
    if entry is not None and name is not None and (name == "coordinator" or name.startswith("coordinator-")):
        yield at(
            "FLOE-C430",
            f"`{name}` would share the consumer group of the coordinator",
            entry.value,
            path,
            "choose another name: coordinators use the groups `<prefix>-coordinator` and `<prefix>-coordinator-<control topic>`",
        )


def declared_connection(document: Document) -> Iterator[Diagnostic]:
    """A pipeline's connection is one that the target declares."""
    path = ("source", "kafka", "connection")
    name = document.text(*path)
    target, parent = document.target, document.entry("source", "kafka")
    if target is None or parent is None or (name is None and document.entry(*path)):
        return
    if (name or "main") not in target.kafka:
        known = sorted(target.kafka)
        place = document.node(*path) or parent
        message = f"the target `{target.name}` declares no Kafka connection `{name or 'main'}`"
        yield at(
            "FLOE-C401",
            message,
            place,
            path,
            f"use {listed(known)}, or declare it under `connections.kafka`",
            did_you_mean(name or "main", known),
        )


def hints_agree(document: Document) -> Iterator[Diagnostic]:
    """A declared field's `format`, `unit` and `zone` fit its type."""
    for entry in document.mapping("source", "schema"):
        path = ("source", "schema", entry.key)
        kind = _leaf(document.text(*path, "type") or "")
        format_, unit, zone = (document.entry(*path, key) for key in ("format", "unit", "zone"))
        of_times = [(document.entry(*path, key), key) for key in ("on_extra_precision", "infinity")]
        words = _format_words(kind)
        for found, key in ((format_, "format"), (unit, "unit"), (zone, "zone"), *of_times):
            if found and kind and kind not in _DATED and not (words and key == "format"):
                kinds = "dates, times, decimals and bytes" if key == "format" else "dates and times"
                yield at(
                    "FLOE-C409",
                    f"`{key}` is for {kinds}, but `{entry.key}` is `{kind}`",
                    found,
                    (*path, key),
                    f"remove `{key}`, or declare a date or time type",
                )
        if format_ and unit:
            yield at(
                "FLOE-C409",
                f"`{entry.key}` has both `format` (for text) and `unit` (for numbers)",
                unit,
                (*path, "unit"),
                "keep the one that the records need",
            )
        if (infinity := document.entry(*path, "infinity")) and kind == "time":
            message = "`infinity` does not apply to `time`: no time of day is infinite"
            yield at("FLOE-C409", message, infinity, (*path, "infinity"), "remove `infinity`")
        if zone and kind in ("date", "time", "timestamp", "timestamp_ns"):
            yield at(
                "FLOE-C409",
                f"`zone` does not apply to `{kind}`, which has no zone",
                zone,
                (*path, "zone"),
                "declare `timestamptz`, or remove `zone`",
            )
        if words:
            yield from _format_word(document, path, kind, words)
        elif not kind or kind in _DATED:
            yield from _format_directives(document, path, kind)


def _format_words(kind: str) -> tuple[str, ...]:
    """The formats of a type that is written as text in more than one way, and is no date or time."""
    if kind.startswith("decimal"):
        return (BASE64, DIGITS)
    return (BASE64, HEX) if kind == "binary" or kind.startswith("fixed") else ()


def _format_word(document: Document, path: Path, kind: str, words: tuple[str, ...]) -> Iterator[Diagnostic]:
    path = (*path, "format")
    text, node = document.text(*path), document.node(*path)
    if text is not None and node is not None and text not in words:
        message = f"`{text}` is no format of `{kind}`"
        yield at("FLOE-C217", message, node, path, f"write {listed(words, 'or')}", did_you_mean(text, words))


def _leaf(kind: str) -> str:
    """The type of the values in lists and maps, which `format`, `unit` and `zone` are for."""
    try:
        return innermost(kind)
    except ValueError:
        return kind


def declared_fields_say_something(document: Document) -> Iterator[Diagnostic]:
    """A declared field has a type, or is a text that is parsed."""
    for entry in document.mapping("source", "schema"):
        path: Path = ("source", "schema", entry.key)
        if not isinstance(entry.value, Mapping) or path in document.unresolved:
            continue
        if not any(document.entry(*path, key) for key in ("type", "parse")):
            message = f"`{dotted(path)}` has no `type`"
            yield at("FLOE-C202", message, entry.value, (*path, "type"), "add `type:`")
        elif document.entry(*path, "type") is None:
            others = [key for key in ("format", "unit", "zone", "required", "comment") if document.entry(*path, key)]
            if others:
                message = f"`{others[0]}` is for a field with a type, and `{entry.key}` has none"
                yield at(
                    "FLOE-C409",
                    message,
                    document.entry(*path, others[0]) or entry,
                    (*path, others[0]),
                    "declare `type`, too",
                )


def nested_types(document: Document) -> Iterator[Diagnostic]:
    """A declared list, map or struct is one, and a field inside of it is not declared as something else by its own
    path."""
    declared: dict[str, tuple[str, str]] = {}
    for entry in document.mapping("source", "schema"):
        path: Path = ("source", "schema", entry.key)
        node = document.node(*path, "type") or document.node(*path)
        text = document.text(*path, "type") or document.text(*path)
        if text is None or node is None or "<" not in text or "${" in text:
            continue
        try:
            inside = fields_inside(entry.key, text)
        except ValueError:
            found = nested_type(text)
            yield at(found.code, found.message, node, path, found.remedy)
            continue
        declared.update((name.lower(), (kind, entry.key)) for name, kind in inside)
    for entry in document.mapping("source", "schema"):
        path = ("source", "schema", entry.key)
        text = document.text(*path, "type") or document.text(*path) or ""
        kind, around = declared.get(entry.key.lower(), ("", ""))
        if kind and _canonical(text) != kind:
            yield at(
                "FLOE-C218",
                f"`{entry.key}` is also declared as `{kind}` inside `{around}`",
                entry,
                path,
                f"declare it in one place only, or here as `{kind}` too",
            )


def _canonical(text: str) -> str:
    try:
        return text_of(structure(text))
    except ValueError:
        return text


def _format_directives(document: Document, path: tuple[str, ...], kind: str) -> Iterator[Diagnostic]:
    text, node = document.text(*path, "format"), document.node(*path, "format")
    if text is None or node is None:
        return
    example = {"date": "%Y-%m-%d", "time": "%H:%M:%S"}.get(kind, "%Y-%m-%d %H:%M:%S")
    directives = re.findall(r"%(.?)", text)
    unknown = [letter for letter in directives if letter not in DIRECTIVES]
    if unknown:
        hint = "did you mean `%Y-%m-%d`?" if "%" not in text else None
        yield at(
            "FLOE-C217",
            f"`%{unknown[0]}` is not a strptime directive",
            node,
            (*path, "format"),
            f"use strptime directives, such as `{example}`",
            hint,
        )
    elif not directives:
        yield at(
            "FLOE-C217",
            f"`{text}` holds no strptime directive",
            node,
            (*path, "format"),
            f"use strptime directives, such as `{example}`",
        )
    elif kind in _DATED and (fault := format_fault(text, kind)) is not None:
        yield at(
            "FLOE-C217",
            f"`{text}` cannot be the format of `{path[-1]}`: {fault}",
            node,
            (*path, "format"),
            "name each part of the value once, and no part that its type does not have",
        )
    elif kind in ("timestamptz", "timestamptz_ns") and "z" not in directives and document.entry(*path, "zone") is None:
        message = f"the text of `{path[-1]}` names no zone and none is declared"
        yield at(
            "FLOE-C419",
            message,
            node,
            (*path, "format"),
            "add `zone: UTC` (or the zone that the producer means), or `%z` to the format",
        )


def decimals_hold(document: Document) -> Iterator[Diagnostic]:
    """A decimal's scale is not above its precision."""
    for entry in document.mapping("source", "schema"):
        for path in (("source", "schema", entry.key, "type"), ("source", "schema", entry.key)):
            text, node = document.text(*path), document.node(*path)
            match = re.match(r"decimal\( *(\d+) *, *(\d+) *\)", text or "")
            if match and node is not None and int(match[2]) > int(match[1]):
                message = f"`{text}` has more digits after the point than digits in all"
                yield at("FLOE-C214", message, node, path, f"write `decimal({match[2]}, {match[2]})` or more")


_ZONE = re.compile(r"(UTC|GMT|Etc/[A-Za-z0-9+-]+|[A-Z][A-Za-z_]+(/[A-Z][A-Za-z0-9_+-]*){1,2})\Z")


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def known_zone(document: Document) -> Iterator[Diagnostic]:
    """A zone is an IANA name, as far as this machine has a database of them."""
    for entry in document.mapping("source", "schema"):
        path = ("source", "schema", entry.key, "zone")
        zone, node = document.text(*path), document.node(*path)
        if (
            zone is not None
            and isinstance(node, Scalar)
            and (not _ZONE.match(zone) or (zone not in _zones() and "UTC" in _zones()))
        ):
            known = [name for name in _zones() if name.count("/") <= 1] or ["UTC", "Europe/Berlin", "America/New_York"]
            yield at(
                "FLOE-C216",
                f"`{zone}` is not an IANA time zone",
                node,
                path,
                "use a name such as `UTC` or `Europe/Berlin`",
                did_you_mean(zone, known),
            )


def declared_once(document: Document) -> Iterator[Diagnostic]:
    """Two declared fields do not differ in case alone, unless tables are case sensitive."""
    if document.text("tables", "defaults", "case") == "sensitive":
        return
    seen: dict[str, str] = {}
    for entry in document.mapping("source", "schema"):
        first = seen.setdefault(entry.key.lower(), entry.key)
        if first != entry.key:
            message = f"`{entry.key}` and `{first}` differ only in case and would be one column"
            yield at(
                "FLOE-C410",
                message,
                entry,
                ("source", "schema", entry.key),
                "keep one, or set `tables.defaults.case: sensitive`",
            )


def metadata_columns_differ(document: Document) -> Iterator[Diagnostic]:
    """Two of Kafka's fields do not come to one column: `header.a-b` and `header.a.b` would both be `_kafka_header_a_b`."""
    sensitive = document.text("tables", "defaults", "case") == "sensitive"
    seen: dict[str, str] = {}
    for path, item in document.items("source", "metadata_columns"):
        name = document.text(*path)
        if name is None or not is_metadata(name):
            continue
        column = metadata_column(name)
        first = seen.setdefault(column if sensitive else column.lower(), name)
        if first != name:
            message = f"`{name}` and `{first}` would be one column, `{column}`"
            yield at("FLOE-C410", message, item, path, "keep one of them")


def declared_fields_have_columns(document: Document) -> Iterator[Diagnostic]:
    """A field is not declared where its name makes it no column: `evolve.names` says that it is left out, or an error."""
    words = [(policy, _word_for_names(document, policy)) for policy in table_policies(document)]
    word = next((word for _, word in words if word not in (None, "rename")), None)
    if word is None or document.entry("transform", "sql") is not None:
        return
    siblings = SiblingNames()
    for entry in document.mapping("source", "schema"):
        name = entry.key.partition(".")[0]
        if why := siblings.said(name):
            message = f"`{name}` is declared, but can be no column ({why}), and `evolve.names` is `{word}`"
            remedy = f"remove it, or set `evolve.names: rename`: then its column is `{siblings.renamed(name)}`"
            yield at("FLOE-C472", message, entry, ("source", "schema", entry.key), remedy)
        siblings.add(name)


def _word_for_names(document: Document, policy: Path) -> str | None:
    shorthand = EVOLVE_SHORTHANDS.get(document.text(*policy, "evolve") or "", {})
    return document.text(*policy, "evolve", "names") or shorthand.get("names")


def sql_is_projection(document: Document) -> Iterator[Diagnostic]:
    """`transform.sql` is one SELECT over `source`, by row, and says which fields it may name."""
    path = ("transform", "sql")
    sql, node = document.text(*path), document.node(*path)
    if node is None:
        return
    if not document.mapping("source", "schema"):
        yield at(
            "FLOE-C406",
            "`transform.sql` needs `source.schema`, which says what columns `source` has",
            node,
            path,
            "declare under `source.schema` every field that is used or kept",
        )
    if sql is None:
        return
    words = re.sub(_NO_WORDS, " ", sql, flags=re.DOTALL)
    if not re.match(r"\s*SELECT\b", words, re.I):
        yield at(
            "FLOE-C420",
            "`transform.sql` must begin with SELECT",
            node,
            path,
            "write one `SELECT ... FROM source WHERE ...`",
        )
        return
    if "${" in sql:
        yield at(
            "FLOE-C420",
            "`transform.sql` holds `${`, with which Spark would read a variable of the machine",
            node,
            path,
            "remove it; in a text, write `'$' || '{'`",
        )
    if ";" in words.rstrip().rstrip(";"):
        yield at("FLOE-C420", "`transform.sql` holds more than one statement", node, path, "keep one `SELECT`")
    if not re.search(r"\bFROM\s+(source\b|\s)", words, re.I):
        yield at("FLOE-C420", "`transform.sql` must read `FROM source`", node, path, "write `FROM source`")
    for pattern, name in _REFUSED_SQL:
        if re.search(pattern, words, re.I):
            yield at(
                "FLOE-C420",
                f"`transform.sql` uses {name}, but every record must remain one row",
                node,
                path,
                "use projection (SELECT) and filter (WHERE) only",
            )


RULES: tuple[Rule, ...] = (
    name_is_free,
    topics_or_pattern,
    declared_connection,
    hints_agree,
    declared_fields_say_something,
    nested_types,
    decimals_hold,
    known_zone,
    declared_once,
    metadata_columns_differ,
    declared_fields_have_columns,
    sql_is_projection,
)
