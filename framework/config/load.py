"""The one loader, used by every command: a pipeline file to its spec, or to everything that is wrong with it.

In: a path and the outside as values. Out: a `LoadResult`; a wrong file never raises. The chain is: text, template, strict
YAML tree, target overlay, `--set`, references in values, JSON Schema, rules between values, frozen spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, replace
from pathlib import Path

from framework.config import rules_routes, rules_source, rules_tables
from framework.config.build import build_pipeline
from framework.config.kinds import show
from framework.config.overlay import apply_set, lay_over
from framework.config.reference import Scope, resolve
from framework.config.rules import Document
from framework.config.schema import check
from framework.config.spec import LoadedPipeline
from framework.config.target import TargetResult, load_target
from framework.config.text import SourceText, start_of
from framework.config.tree import Mapping, Node, Scalar, parse, plain
from framework.config.variables import declarations, unknown_variable, values_of
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic

__all__ = ["LoadResult", "World", "load_pipeline", "load_pipelines", "load_target"]

_RULES = (*rules_source.RULES, *rules_routes.RULES, *rules_tables.RULES)
DEFAULT_TARGET = "local"


@dataclass(frozen=True)
class LoadResult:
    """What came of one file. `pipeline` is None when there are errors, or when values are missing here (offline).

    `tree` is the resolved tree, for rules across files; `known_variables` are the names that `--var` may give.
    """

    file: str
    pipeline: LoadedPipeline | None
    diagnostics: tuple[Diagnostic, ...]
    tree: Mapping | None = None
    known_variables: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(finding.is_error for finding in self.diagnostics)


def load_pipeline(
    path: Path | str,
    target_name: str | None,
    world: World,
    variables: Mapped[str, str] | None = None,
    sets: Mapped[str, str] | None = None,
) -> LoadResult:
    """Loads one pipeline file under one target (`local` where none is named).

    A name in `variables` that neither the file nor the target knows is an error.
    """
    return load_pipelines([path], target_name, world, variables, sets)[0]


def load_pipelines(
    paths: Iterable[Path | str],
    target_name: str | None,
    world: World,
    variables: Mapped[str, str] | None = None,
    sets: Mapped[str, str] | None = None,
) -> tuple[LoadResult, ...]:
    """Loads several files; one wrong file never hides another, and findings between files are added.

    `variables` may name what only one of the files declares.
    """
    targets: dict[Path, TargetResult] = {}
    results = []
    for path in map(Path, paths):
        folder = path.parent
        if folder not in targets:
            targets[folder] = load_target(target_name or DEFAULT_TARGET, world, folder)
        results.append(_load(path, targets[folder], world, variables or {}, sets or {}))
    return tuple(_across(results, variables or {}))


def _load(
    path: Path, target: TargetResult, world: World, given: Mapped[str, str], sets: Mapped[str, str]
) -> LoadResult:
    file = str(path)
    source, problem = read_source(path, world)
    if source is None:
        return LoadResult(file, None, (problem,) if problem else ())
    sources = {source.file: source, **({target.source.file: target.source} if target.source else {})}
    tree, findings = parse(source)
    findings += target.diagnostics
    if tree is None or not isinstance(tree, Mapping) or (other := _other_kind(tree)):
        if isinstance(tree, Mapping) and other:
            findings.append(other)
        elif tree is not None:
            findings.append(
                Diagnostic(
                    "FLOE-C203", "the file must be a mapping", tree.span, remedy="begin with `apiVersion: floe/v1`"
                )
            )
        return LoadResult(file, None, finish(findings, sources))

    declared = declarations(tree.get("variables"))
    values, found, open_names = values_of(declared, target.variables, given, world.offline)
    findings += found
    whole: Node = tree
    name = pipeline_name(tree)
    for overlay in target.overlays_for(name or ""):
        whole = lay_over(whole, overlay)
    for set_path, set_value in sets.items():
        whole, option, found = apply_set(whole, set_path, set_value)
        sources[option.file] = option
        findings += found

    resolved, found, unresolved = resolve(whole, Scope(world, values, open_names))
    findings += found
    checked, found = check(resolved, "pipeline", unresolved)
    findings += found
    assert isinstance(checked, Mapping)
    document = Document(checked, target.target, unresolved)
    for rule in _RULES:
        findings += rule(document)
    broken = any(finding.is_error for finding in findings)
    pipeline = None
    if not broken and not unresolved and target.target is not None:
        pipeline = LoadedPipeline(file, build_pipeline(plain(checked)), target.target)
    known = (*(variable.name for variable in declared), *(target.variables.keys if target.variables else ()))
    return LoadResult(file, pipeline, finish(findings, sources), checked, known)


def read_source(path: Path, world: World) -> tuple[SourceText | None, Diagnostic | None]:
    """The text of a file, or why it cannot be had."""
    place = start_of(str(path))
    try:
        text = world.read_file(path)
    except FileNotFoundError:
        return None, Diagnostic("FLOE-C101", "there is no such file", place, remedy="check the path")
    except UnicodeDecodeError as error:
        return None, Diagnostic(
            "FLOE-C102", f"the file is not UTF-8 text: byte {error.start + 1} is not", place, remedy="save it as UTF-8"
        )
    except OSError as error:
        return None, Diagnostic(
            "FLOE-C101",
            f"the file cannot be read: {error.strerror or error}",
            place,
            remedy="check the path and its permissions",
        )
    return SourceText(str(path), text), None


def pipeline_name(tree: Mapping) -> str | None:
    """`metadata.name` of a tree, where it is text."""
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name.value if isinstance(name, Scalar) and isinstance(name.value, str) else None


def _other_kind(tree: Mapping) -> Diagnostic | None:
    kind = tree.get("kind")
    if isinstance(kind, Scalar) and kind.value in ("Target", "Template"):
        remedy = "give it to `--target`" if kind.value == "Target" else "name it under `template:` in a pipeline file"
        return Diagnostic(
            "FLOE-C211", f"this file is a {kind.value}, not a Pipeline", kind.span, path="kind", remedy=remedy
        )
    return None


def finish(findings: Iterable[Diagnostic], sources: Mapped[str, SourceText]) -> tuple[Diagnostic, ...]:
    """Findings in file order, each once, with the line that it is about."""
    unique: dict[tuple[object, ...], Diagnostic] = {}
    for finding in findings:
        if finding.excerpt is None and finding.span is not None and finding.span.file in sources:
            finding = replace(finding, excerpt=sources[finding.span.file].line(finding.span.line))
        key = (finding.code, finding.span, finding.message)
        unique[key] = replace(unique[key], times=unique[key].times + finding.times) if key in unique else finding
    return tuple(sorted(unique.values(), key=lambda finding: finding.order))


def _across(results: list[LoadResult], given: Mapped[str, str]) -> Iterable[LoadResult]:
    """Findings between files: a variable that no file knows, two pipelines with one name."""
    known = {name for result in results for name in result.known_variables}
    unknown = [name for name in given if name not in known] if all(result.tree for result in results) else []
    names: dict[str, str] = {}
    for index, result in enumerate(results):
        extra = [unknown_variable(name, sorted(known)) for name in unknown] if index == 0 else []
        name = pipeline_name(result.tree) if result.tree else None
        if result.tree and name:
            if name in names:
                node = result.tree.get("metadata")
                place = node.get("name") if isinstance(node, Mapping) else None
                message = f"the pipeline {show(name)} is also in {names[name]}"
                extra.append(
                    Diagnostic(
                        "FLOE-C412",
                        message,
                        (place or result.tree).span,
                        path="metadata.name",
                        remedy="give each pipeline its own name",
                    )
                )
            names.setdefault(name, result.file)
        if not extra:
            yield result
            continue
        findings = finish([*result.diagnostics, *extra], {})
        broken = any(finding.is_error for finding in findings)
        yield replace(result, pipeline=None if broken else result.pipeline, diagnostics=findings)
