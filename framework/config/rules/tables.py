"""Rules about tables: how they may change, which override applies, and how they are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from framework.config.rules.routes import may_meet
from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.tree import Mapping, Path
from framework.config.values.evolution import EVOLVE_SHORTHANDS
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed

_WILD = frozenset("*?[")
_HEAD, _TAIL = re.compile(r"[^*?\[]*"), re.compile(r"[^*?\]]*\Z")
_TYPED = ("avro", "protobuf", "raw")


def _evolve_word(document: Document, policy: Path, aspect: str) -> str | None:
    """What a policy says of an aspect, by itself or by the defaults; None where nothing is written."""
    for place in (policy, ("tables", "defaults")):
        short = document.text(*place, "evolve")
        word = EVOLVE_SHORTHANDS.get(short, {}).get(aspect) if short else document.text(*place, "evolve", aspect)
        if word or short:
            return word
    return None


def evolution_is_possible(document: Document) -> Iterator[Diagnostic]:
    """Words of `evolve` that contradict each other, the SQL, or the lack of a dead-letter table."""
    for policy in table_policies(document):
        node, path = document.node(*policy, "evolve", "data_type"), (*policy, "evolve", "data_type")
        columns = _evolve_word(document, policy, "columns") or "evolve"
        if node is not None and document.text(*path) == "new_column":
            kind = document.text("source", "format", "type")
            if document.entry("transform", "sql") or kind in _TYPED:
                with_types = "`transform.sql`" if document.entry("transform", "sql") else f"`format: {kind}`"
                message = f"`new_column` cannot be used with {with_types}, whose columns have one type each"
                yield at("FLOE-C440", message, node, path, "use `widen`, and cast in SQL what it cannot widen")
            elif columns != "evolve":
                message = f"`new_column` adds columns, and `columns: {columns}` forbids it"
                yield at("FLOE-C440", message, node, path, "use `columns: evolve`, or another word for `data_type`")
        for entry in document.mapping(*policy, "evolve"):
            path = (*policy, "evolve", entry.key)
            if document.text(*path) == "dead_letter" and document.entry("errors", "dead_letter_table") is None:
                yield at(
                    "FLOE-C405",
                    f"`{entry.key}: dead_letter` sends records to the dead-letter table, but none is named",
                    entry.value,
                    path,
                    "add `errors: {dead_letter_table: NAMESPACE.dead_letters}`, or use another word",
                )


def overrides_apply(document: Document) -> Iterator[Diagnostic]:
    """Of two overrides with the same `match`, or behind one that matches more, the later is never used."""
    seen = _Globs()
    lines: list[int] = []
    for path, item in document.items("tables", "overrides"):
        glob = document.text(*path, "match")
        if glob is None:
            continue
        covering = seen.first_covering(glob)
        if covering is not None:
            yield at(
                "FLOE-C411",
                f"this override is never used: `{seen.globs[covering]}` on line {lines[covering]} matches first",
                item,
                path,
                "put the narrower pattern first, or merge the two",
            )
        seen.add(glob)
        lines.append(item.span.line)


class _Globs:
    """Patterns in the order in which they were added, found by how they begin and end: a pattern is compared with those
    alone that may cover it, so that twice as many take twice as long."""

    def __init__(self) -> None:
        self.globs: list[str] = []
        self._first: dict[str, int] = {}
        self._by_ends: dict[tuple[str, str], list[int]] = {}
        self._lengths: dict[tuple[int, int], None] = {}

    def add(self, glob: str) -> None:
        index = len(self.globs)
        self.globs.append(glob)
        self._first.setdefault(glob, index)
        if set(glob) & _WILD:
            head, tail = _HEAD.match(glob), _TAIL.search(glob)
            assert head is not None
            assert tail is not None
            ends = head.group(), tail.group()
            self._by_ends.setdefault(ends, []).append(index)
            self._lengths[len(ends[0]), len(ends[1])] = None

    def first_covering(self, glob: str) -> int | None:
        """The first pattern that matches all that this one matches."""
        found = [self._first[glob]] if glob in self._first else []
        if "?" not in glob:
            for head, tail in self._lengths:
                ends = glob[:head], glob[len(glob) - tail :] if tail <= len(glob) else glob
                covering = (i for i in self._by_ends.get(ends, ()) if fnmatchcase(glob, self.globs[i]))
                found += [first] if (first := next(covering, None)) is not None else []
        return min(found, default=None)


def overrides_are_meant(document: Document) -> Iterator[Diagnostic]:
    """An override matches the dead-letter table, a history or a table of the routes; of a name that a record takes part
    in, its beginning counts."""
    tables = [document.text(*path, "table") for path, _ in document.items("routes", "rules")]
    if not tables or not all(tables):
        return
    names = [table for table in tables if table and "{" not in table]
    beginnings = [table.partition("{")[0] for table in tables if table and "{" in table]
    dead_letters = document.text("errors", "dead_letter_table")
    histories = (document.text(*policy, "write", "history") for policy in table_policies(document))
    written = [*names, *(name for name in (dead_letters, *histories) if name)]
    known = set(written)
    for path, _ in document.items("tables", "overrides"):
        glob, node = document.text(*path, "match"), document.node(*path, "match")
        is_met = glob in known or any(document.names_match(name, glob) for name in written if glob)
        is_met = is_met or any(may_meet(document, beginning, glob) for beginning in beginnings if glob)
        if glob and node is not None and not is_met:
            yield at(
                "FLOE-C413",
                f"no route leads to a table that `{glob}` matches",
                node,
                path,
                f"the tables are {listed([table for table in tables if table][:6], 'and')}",
                did_you_mean(glob, names),
            )


def declared_catalogs(document: Document) -> Iterator[Diagnostic]:
    """A table's catalog is one that the target declares."""
    for policy in table_policies(document):
        path = (*policy, "catalog")
        name, node = document.text(*path), document.node(*path)
        if document.target is None or name is None or node is None or name in document.target.catalogs:
            continue
        known = sorted(document.target.catalogs)
        yield at(
            "FLOE-C401",
            f"the target `{document.target.name}` declares no catalog `{name}`",
            node,
            path,
            f"use {listed(known)}, or declare it under `connections.catalog`",
            did_you_mean(name, known),
        )


def one_spelling(document: Document) -> Iterator[Diagnostic]:
    """Where case makes no difference, a table is spelled in one way."""
    if (document.text("tables", "defaults", "case") or "insensitive") != "insensitive":
        return
    spelled: dict[str, tuple[str, int]] = {}
    for path, _ in document.items("routes", "rules"):
        table, node = document.text(*path, "table"), document.node(*path, "table")
        if table is None or node is None:
            continue
        first, line = spelled.setdefault(_folded(table), (table, node.span.line))
        if first != table:
            yield at(
                "FLOE-C442",
                f"`{table}` and `{first}` on line {line} are the same table, since `case` is `insensitive`",
                node,
                (*path, "table"),
                "spell the name in one way, or use `case: sensitive`",
                f"did you mean `{first}`?",
            )


def _folded(template: str) -> str:
    """A table's name in lower case; what is in braces is a field and stays as it is."""
    return "".join(part if part.startswith("{") else part.lower() for part in re.split(r"(\{[^}]*(?:\}|\Z))", template))


def tests_are_named_once(document: Document) -> Iterator[Diagnostic]:
    """Two tests of a file have two names."""
    seen: dict[str, int] = {}
    for path, item in document.items("tests"):
        name, node = document.text(*path, "name"), document.node(*path, "name")
        if name is not None and node is not None and isinstance(item, Mapping) and document.sound(*path):
            if name in seen:
                yield at(
                    "FLOE-C422",
                    f"the test on line {seen[name]} has the same name",
                    node,
                    (*path, "name"),
                    "give each test its own name",
                )
            seen.setdefault(name, node.span.line)


RULES: tuple[Rule, ...] = (
    evolution_is_possible,
    overrides_apply,
    overrides_are_meant,
    declared_catalogs,
    one_spelling,
    tests_are_named_once,
)
