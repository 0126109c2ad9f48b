"""Shared templates: checked against the version that is asked for, and filled with typed parameters.

In: the `template:` key of a pipeline file. Out: the tree that the template makes, to lie under the pipeline's own keys;
or diagnostics at the parameter, or at the line of the template that a person wrote.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping as Mapped
from functools import lru_cache
from pathlib import Path

from framework.config.document import Files, read_head, read_tree
from framework.config.filled.reference import Scope, resolve
from framework.config.filled.variables import Declared, Value, check_value, declarations, fits_type
from framework.config.schema.document_schema import check, published
from framework.config.spec import TemplateUse
from framework.config.templates.find import find_template, not_as_locked
from framework.config.templates.given import GivenValues
from framework.config.text import SourceText
from framework.config.tree import Entry, Mapping, Node, Scalar, dotted, find, plain
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed


def use_template(
    use: Entry, pipeline_file: Path, variables: Scope, world: World, files: Files
) -> tuple[Mapping | None, list[Diagnostic], TemplateUse | None]:
    """The body of the template that `template:` names, with its parameters filled in, and which template it is.

    Args:
        variables: what `${var.NAME}` in the parameters may name.
    """
    resolved, findings, _ = resolve(use.value, variables)
    findings += _shape(Entry(use.key, use.key_span, resolved))
    name = resolved.get("name") if isinstance(resolved, Mapping) else None
    if (
        not isinstance(resolved, Mapping)
        or not isinstance(name, Scalar)
        or not isinstance(name.value, str)
        or not name.value
    ):
        return None, findings, None
    template = find_template(name.value, name.span, pipeline_file.parent, world)
    files.add(template.lock)
    if template.source is None:
        return None, [*findings, *([template.finding] if template.finding else [])], None
    source = template.source
    tree, declared, found = read_template(source)
    files.add(source)
    findings += found
    if tree is None:
        return None, findings, None
    findings += _version(resolved, tree, name.value)
    entry = resolved.entry("parameters")
    given = entry.value if entry and isinstance(entry.value, Mapping) else None
    values, found = _parameters(declared, given, use, name.value)
    findings += found
    if entry and given:
        files.given = GivenValues({each.key: each.value.span for each in given.entries}, entry.key_span)
    if any(finding.is_error for finding in findings):
        return None, findings, None
    body, found = fill(source, values, template.world, files)
    if template.spoiled:
        return None, [*findings, not_as_locked(name.value, template, name.span)], None
    digest = content_hash(source.text, files.included.get(source.file, {}))
    return body, findings + found, TemplateUse(name.value, version_of(tree), digest)


def content_hash(text: str, included: Mapped[str, str]) -> str:
    """`sha256:` and the hash of a template's text, and of the files that it includes, by their names."""
    whole = hashlib.sha256(text.encode())
    for name in sorted(included):
        whole.update(hashlib.sha256(f"{name}\0{included[name]}".encode()).digest())
    return f"sha256:{whole.hexdigest()}"


def _shape(use: Entry) -> list[Diagnostic]:
    """What the schema says of the `template:` key alone; the pipeline is checked without it, as it is with the body."""
    _, findings = check(Mapping((use,), use.key_span), "pipeline", below="template")
    return findings


def read_template(source: SourceText) -> tuple[Mapping | None, tuple[Declared, ...], list[Diagnostic]]:
    """A template file's head: its tree before rendering and its parameters."""
    tree, declared, findings = _checked(source)
    return tree, declared, list(findings)


@lru_cache(maxsize=32)
def _checked(source: SourceText) -> tuple[Mapping | None, tuple[Declared, ...], tuple[Diagnostic, ...]]:
    head = read_head(source)
    findings = list(head.findings)
    if head.tree is None or any(finding.is_error for finding in findings):
        return None, (), tuple(findings)
    kind = head.tree.get("kind")
    if kind is not None and (not isinstance(kind, Scalar) or kind.value != "Template"):
        span, hint = kind.span, did_you_mean(str(kind.value), ("Template",)) if isinstance(kind, Scalar) else None
        message, remedy = "this file is not a Template", "write `kind: Template`"
        findings.append(Diagnostic("FLOE-C211", message, span, path="kind", hint=hint, remedy=remedy))
        return None, (), tuple(findings)
    body = head.tree.entry("pipeline")
    shown = tuple(entry for entry in head.tree.entries if entry is not body)
    _, found = check(
        Mapping(
            (*shown, *((Entry("pipeline", body.key_span, Mapping((), body.key_span)),) if body else ())), head.tree.span
        ),
        "template",
    )
    swallowed = _swallowed(body.value) if body else None
    found = [*found, *([swallowed] if swallowed else [])]
    return head.tree, declarations(head.tree.get("parameters")), (*findings, *found)


def _swallowed(body: Node) -> Diagnostic | None:
    """A parameter that stands below `pipeline:`: every use that gives it would be wrong."""
    known = {*published("pipeline")["properties"], *published("template")["properties"]}
    for entry in body.entries if isinstance(body, Mapping) else ():
        is_declared = isinstance(entry.value, Mapping) and "type" in entry.value.keys
        if entry.key not in known and is_declared:
            message, hint = f"unknown key `{entry.key}` in `pipeline`", f"`{entry.key}` belongs in `parameters`"
            where, remedy = f"pipeline.{entry.key}", "correct its place or its name"
            return Diagnostic("FLOE-C201", message, entry.key_span, path=where, hint=hint, remedy=remedy)
    return None


def fill(
    source: SourceText, values: Mapped[str, Value], world: World, files: Files
) -> tuple[Mapping | None, list[Diagnostic]]:
    """Renders a template's text with its parameters and gives its `pipeline:` part, `${param.NAME}` resolved."""
    tree, findings = read_tree(read_head(source), {"param": values}, world, files)
    body = tree.get("pipeline") if tree else None
    if not isinstance(body, Mapping):
        return None, findings
    filled, found, _ = resolve(body, Scope(world, values, kind="param"))
    assert isinstance(filled, Mapping)
    return filled, findings + found


def version_of(template: Mapping) -> str:
    """The version in a template's head, "" where it has none."""
    version = find(template, ("metadata", "version"))
    return str(version.value) if isinstance(version, Scalar) and version.value is not None else ""


def _version(use: Mapping, template: Mapping, name: str) -> list[Diagnostic]:
    metadata, wanted = template.get("metadata"), use.get("version")
    actual = metadata.get("version") if isinstance(metadata, Mapping) else None
    if not isinstance(actual, Scalar) or not isinstance(wanted, Scalar):
        return []
    well_formed = re.match(r"[0-9]+(\.[0-9]+){0,2}\Z", str(wanted.value))
    if not well_formed or f"{actual.value}.".startswith(f"{wanted.value}."):
        return []
    message = f"the template `{name}` has version {actual.value}, not {wanted.value}"
    remedy = f'read what changed, then write `version: "{re.match(r"[0-9]*", str(actual.value))[0]}"`'  # type: ignore[index]
    return [Diagnostic("FLOE-C612", message, wanted.span, path="template.version", remedy=remedy)]


def _parameters(
    declared: tuple[Declared, ...], given: Mapping | None, use: Entry, name: str
) -> tuple[dict[str, Value], list[Diagnostic]]:
    findings: list[Diagnostic] = []
    missing: list[Declared] = []
    values: dict[str, Value] = {}
    names = [parameter.name for parameter in declared]
    for entry in given.entries if given else ():
        if entry.key not in names:
            message = f"the template `{name}` has no parameter `{entry.key}`"
            remedy = (
                f"its parameters are {listed(names, 'and')}" if names else "remove it: the template has no parameters"
            )
            findings.append(
                Diagnostic(
                    "FLOE-C609",
                    message,
                    entry.key_span,
                    path=dotted(("template", "parameters", entry.key)),
                    hint=did_you_mean(entry.key, names),
                    remedy=remedy,
                )
            )
    for parameter in declared:
        node: Node | None = given.get(parameter.name) if given else None
        if node is not None:
            value = plain(node)
            findings += check_value(
                parameter, value, fits_type(value, parameter.type), node.span, f"the parameter `{parameter.name}`"
            )
        elif parameter.has_default:
            value = parameter.default
        else:
            missing.append(parameter)
            continue
        values[parameter.name] = value
    if missing:
        about = [f" ({one.description.rstrip('.')})" if one.description else "" for one in missing]
        *others, last = [f"`{one.name}`{said}" for one, said in zip(missing, about, strict=True)]
        needed = f"{', '.join(others)} and {last}" if others else last
        message = f"the template `{name}` needs the parameter{'s' if len(missing) > 1 else ''} {needed}"
        where = dotted(("template", "parameters", missing[0].name))
        remedy = f"add {listed([f'{one.name}:' for one in missing], 'and')} under `template.parameters`"
        findings.append(Diagnostic("FLOE-C611", message, use.key_span, path=where, remedy=remedy))
    return values, findings
