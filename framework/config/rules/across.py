"""Rules between pipeline files that run together: names are unique, one table has one policy.

In: the tree and the spec of each file, in order. Out: the findings of each file, in the same order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.config.filled.variables import unknown_variable
from framework.config.names.table_names import identifier_of, matches_glob, template_glob
from framework.config.rules.meeting import templates_that_meet
from framework.config.spec import PipelineSpec
from framework.config.tree import Mapping, Node, Path, Scalar, find
from framework.config.tree import Sequence as Items
from framework.diagnose.diagnostic import Diagnostic, Span

Loaded = tuple[Mapping | None, PipelineSpec | None]


def findings_between(
    files: Sequence[Loaded], unknown_variables: Sequence[str], known: list[str]
) -> list[list[Diagnostic]]:
    """What is wrong between files. A variable that no file declares is reported with the first."""
    findings: list[list[Diagnostic]] = [[] for _ in files]
    if files:
        findings[0] += [unknown_variable(name, known) for name in unknown_variables]
    names: dict[str, Span] = {}
    tables: dict[str, tuple[object, Span]] = {}
    written = _written(files)
    for (tree, spec), found in zip(files, findings, strict=True):
        if tree is None or spec is None:
            continue
        found += _names(tree, spec, names)
        found += _policies(tree, spec, tables, written)
        found += _templates(tree, spec, written)
    for (tree, spec), found in zip(files, findings, strict=True):
        if tree is not None and spec is not None:
            found += _histories(tree, spec, files)
    return [[*found, *more] for found, more in zip(findings, templates_that_meet(files), strict=True)]


@dataclass(frozen=True)
class _Named:
    """A table that a file names: its full name, the file's spec, and where it stands."""

    table: str
    spec: PipelineSpec
    span: Span


@dataclass(frozen=True)
class _NamesInUse:
    """What the files name by whole names: `records` in the order of their names in small letters, which are
    `record_names`, and who has each dead-letter table."""

    records: tuple[_Named, ...]
    record_names: tuple[str, ...]
    dead_letters: dict[str, list[Span]]

    def beginning(self, prefix: str) -> Iterator[_Named]:
        """The tables of records whose names without the catalog begin so, in whatever case."""
        prefix = prefix.lower()
        for index in range(bisect_left(self.record_names, prefix), len(self.records)):
            if not self.record_names[index].startswith(prefix):
                return
            yield self.records[index]


def _written(files: Sequence[Loaded]) -> _NamesInUse:
    records: list[_Named] = []
    dead_letters: dict[str, list[Span]] = defaultdict(list)
    for tree, spec in files:
        if tree is None or spec is None:
            continue
        for index, rule in enumerate(spec.routes.rules):
            if "{" not in rule.table:
                node = find(tree, ("routes", "rules", index, "table")) or tree
                records.append(_Named(spec.tables.full_name(rule.table), spec, node.span))
        if spec.errors.dead_letter_table:
            dead_letters[spec.tables.full_name(spec.errors.dead_letter_table)].append(tree.span)
    records.sort(key=lambda each: identifier_of(each.table).lower())
    return _NamesInUse(tuple(records), tuple(identifier_of(each.table).lower() for each in records), dict(dead_letters))


def _templates(tree: Mapping, spec: PipelineSpec, written: _NamesInUse) -> list[Diagnostic]:
    """A name that a record takes part in leads into no upsert table of another file, and upserts no table of
    another file."""
    findings = []
    for index, rule in enumerate(spec.routes.rules):
        if "{" not in rule.table:
            continue
        node = find(tree, ("routes", "rules", index, "table")) or tree
        path = f"routes.rules[{index}].table"
        for other in written.beginning(rule.table.partition("{")[0]):
            if other.spec is spec or not _leads_to(spec, rule.table, other.table):
                continue
            upserts = other.spec.tables.policy_for(other.table).write.is_upsert
            if not upserts and not spec.tables.policy_for(other.table).write.is_upsert:
                continue
            where = f"{other.span.file}:{other.span.line}"
            message = (
                f"a record may lead `{rule.table}` to `{other.table}`, which {where} upserts"
                if upserts
                else f"a record may lead `{rule.table}` to `{other.table}`, to be upserted; {where} appends to it"
            )
            remedy = f"let no glob of `allow_tables` match `{identifier_of(other.table)}`, or write it by one pipeline"
            findings.append(Diagnostic("FLOE-C462", message, node.span, path=path, remedy=remedy))
            break
    return findings


def _leads_to(spec: PipelineSpec, template: str, table: str) -> bool:
    """Whether a record may take the template to this full name."""
    tables, bare = spec.tables, identifier_of(table)
    return (
        matches_glob(tables.fold(bare), tables.fold(template_glob(template)))
        and any(matches_glob(tables.fold(bare), tables.fold(glob)) for glob in spec.routes.allow_tables)
        and tables.fold(tables.full_name(bare)) == tables.fold(table)
    )


def _histories(tree: Mapping, spec: PipelineSpec, files: Sequence[Loaded]) -> list[Diagnostic]:
    """A history holds the changes of one table and nothing else, whoever writes."""
    findings = []
    for history in spec.tables.histories:
        table = spec.tables.full_name(history.table)
        writer = next((s for t, s in files if t is not tree and s is not None and _may_write(s, table)), None)
        if writer is not None:
            message = f"`{history.table}` cannot be the history of `{history.of}`: the pipeline {writer.name} writes it"
            node = _history_node(tree, history.table) or tree
            findings.append(
                Diagnostic("FLOE-C456", message, node.span, path="tables", remedy="choose another table in one of them")
            )
    return findings


def _may_write(spec: PipelineSpec, table: str) -> bool:
    tables = spec.tables
    named = [rule.table for rule in spec.routes.rules if "{" not in rule.table]
    named += [history.table for history in tables.histories]
    named += [spec.errors.dead_letter_table] if spec.errors.dead_letter_table else []
    if tables.fold(table) in (tables.fold(tables.full_name(name)) for name in named):
        return True
    return any(_leads_to(spec, rule.table, table) for rule in spec.routes.rules if "{" in rule.table)


def _history_node(tree: Mapping, history: str) -> Node | None:
    overrides = find(tree, ("tables", "overrides"))
    policies: list[Path] = [("tables", "defaults")]
    if isinstance(overrides, Items):
        policies += [("tables", "overrides", index) for index in range(len(overrides.items))]
    nodes = (find(tree, (*policy, "write", "history")) for policy in policies)
    return next((node for node in nodes if isinstance(node, Scalar) and node.value == history), None)


def _names(tree: Mapping, spec: PipelineSpec, names: dict[str, Span]) -> list[Diagnostic]:
    node = find(tree, ("metadata", "name")) or tree
    first = names.setdefault(spec.name, node.span)
    if first == node.span:
        return []
    message = f"the name `{spec.name}` is already that of the pipeline at {first.file}:{first.line}"
    remedy = "give each pipeline its own name: the consumer group and the transactional id contain it"
    return [Diagnostic("FLOE-C412", message, node.span, path="metadata.name", remedy=remedy)]


def _policies(
    tree: Mapping, spec: PipelineSpec, tables: dict[str, tuple[object, Span]], written: _NamesInUse
) -> list[Diagnostic]:
    """One table has one policy, whoever writes it; otherwise its interval and its shape hang on which batch comes
    first."""
    findings = []
    for index, rule in enumerate(spec.routes.rules):
        if "{" in rule.table:
            continue
        path = ("routes", "rules", index, "table")
        node = find(tree, path) or tree
        table, policy = spec.tables.full_name(rule.table), spec.tables.policy_for(rule.table)
        known, first = tables.setdefault(table, (policy, node.span))
        if known != policy:
            message = f"`{table}` has a different policy here than at {first.file}:{first.line}"
            remedy = "give the table the same policy in both files, or put it in a shared template"
            findings.append(
                Diagnostic("FLOE-C423", message, node.span, path=f"routes.rules[{index}].table", remedy=remedy)
            )
        elif first != node.span and first.file != node.span.file and policy.write.is_upsert:
            message = f"`{table}` is upserted here and by {first.file}:{first.line}, whose records have no common order"
            remedy = "write it by one pipeline that reads all of the topics"
            findings.append(
                Diagnostic("FLOE-C462", message, node.span, path=f"routes.rules[{index}].table", remedy=remedy)
            )
        home = next((each for each in written.dead_letters.get(table, ()) if each.file != node.span.file), None)
        if home is not None:
            message = f"`{table}` is the dead-letter table of {home.file}"
            findings.append(
                Diagnostic(
                    "FLOE-C416", message, node.span, path=f"routes.rules[{index}].table", remedy="choose another table"
                )
            )
    return findings
