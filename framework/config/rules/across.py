"""Rules between pipeline files that run together: names are unique, one table has one policy.

In: the tree and the spec of each file, in order. Out: the findings of each file, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.config.spec import PipelineSpec
from framework.config.table_names import identifier_of, matches_glob, template_glob
from framework.config.tree import Mapping, Node, Path, Scalar, find
from framework.config.tree import Sequence as Items
from framework.config.variables import unknown_variable
from framework.diagnose.diagnostic import Diagnostic, Span

Loaded = tuple[Mapping | None, PipelineSpec | None]


def findings_between(
    files: Sequence[Loaded], unknown_variables: Sequence[str], known: list[str]
) -> list[list[Diagnostic]]:
    """What is wrong between files. A variable that no file declares is told with the first."""
    findings: list[list[Diagnostic]] = [[] for _ in files]
    if files:
        findings[0] += [unknown_variable(name, known) for name in unknown_variables]
    names: dict[str, Span] = {}
    tables: dict[str, tuple[object, Span]] = {}
    dead_letter_tables: dict[str, Span] = {}
    for (tree, spec), found in zip(files, findings, strict=True):
        if tree is None or spec is None:
            continue
        found += _names(tree, spec, names)
        found += _policies(tree, spec, tables, dead_letter_tables)
        if spec.errors.dead_letter_table:
            dead_letter_tables.setdefault(spec.tables.full_name(spec.errors.dead_letter_table), tree.span)
    for (tree, spec), found in zip(files, findings, strict=True):
        if tree is not None and spec is not None:
            found += _histories(tree, spec, files)
    return findings


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
    bare = identifier_of(table)
    patterns = [template_glob(rule.table) for rule in spec.routes.rules if "{" in rule.table]
    is_there = tables.fold(tables.full_name(bare)) == tables.fold(table)
    return is_there and any(matches_glob(tables.fold(bare), tables.fold(pattern)) for pattern in patterns)


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
    tree: Mapping, spec: PipelineSpec, tables: dict[str, tuple[object, Span]], dead_letter_tables: dict[str, Span]
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
        if table in dead_letter_tables:
            message = f"`{table}` is the dead-letter table of {dead_letter_tables[table].file}"
            findings.append(
                Diagnostic(
                    "FLOE-C416", message, node.span, path=f"routes.rules[{index}].table", remedy="choose another table"
                )
            )
    return findings
