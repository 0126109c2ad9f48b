"""The loader that every command uses: turns a pipeline file into its spec, or into a list of everything that is wrong.

In: a path, and the environment as values. Out: a `LoadResult`; a wrong file never raises. The chain is: text, template,
strict YAML tree, shared template below, target overlay and `--set` above, references in values, JSON Schema, rules,
frozen spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framework.config.document import Files, Head, read_head, read_source, read_tree
from framework.config.filled.build import build_pipeline
from framework.config.filled.former_owner import with_owners
from framework.config.filled.overlay import apply_set, lay_over, without, without_additions
from framework.config.filled.reference import Scope, resolve
from framework.config.filled.variables import Declared, declarations, values_of
from framework.config.rules import create as rules_create
from framework.config.rules import format as rules_format
from framework.config.rules import routes as rules_routes
from framework.config.rules import secrets as rules_secrets
from framework.config.rules import source as rules_source
from framework.config.rules import tables as rules_tables
from framework.config.rules import tests as rules_tests
from framework.config.rules.across import findings_between
from framework.config.rules.operation import maintenance as rules_maintenance
from framework.config.rules.operation import objectives as rules_objectives
from framework.config.rules.rules import Document, DoubtfulDocument, findings_of
from framework.config.rules.upsert import history as rules_history
from framework.config.rules.upsert import surroundings as rules_upsert_surroundings
from framework.config.rules.upsert import table as rules_upsert
from framework.config.schema.document_schema import check_document, published
from framework.config.schema.echoes import refused_paths
from framework.config.schema_files import with_schemas
from framework.config.spec import LoadedPipeline, PipelineSpec, TemplateUse
from framework.config.target import TargetResult, load_target
from framework.config.templates.library import use_template
from framework.config.tree import Mapping, Node, Scalar, plain
from framework.config.tree import Path as TreePath
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import nearest

__all__ = ["LoadResult", "World", "load_pipeline", "load_pipelines", "load_target"]

RULES = (
    *rules_source.RULES,
    *rules_format.RULES,
    *rules_routes.RULES,
    *rules_secrets.RULES,
    *rules_create.RULES,
    *rules_tables.RULES,
    *rules_upsert.RULES,
    *rules_upsert_surroundings.RULES,
    *rules_history.RULES,
    *rules_maintenance.RULES,
    *rules_objectives.RULES,
    *rules_tests.RULES,
)
DEFAULT_TARGET = "local"


@dataclass(frozen=True)
class LoadResult:
    """What came of one file. `pipeline` is None when there are errors, or when values are missing here (offline).

    `tree` is the resolved tree, `files` the texts it came from; `known_variables` are the names that `--var` may give.
    """

    file: str
    pipeline: LoadedPipeline | None
    diagnostics: tuple[Diagnostic, ...]
    tree: Mapping | None = None
    spec: PipelineSpec | None = None
    files: Files = field(default_factory=Files)
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
        if path.parent not in targets:
            targets[path.parent] = load_target(target_name or DEFAULT_TARGET, world, path.parent)
        results.append(Loading(path, targets[path.parent], world, variables or {}, sets or {}).result())
    return tuple(with_findings_between(results, variables or {}))


class Loading:
    """One file on its way through the chain; gathers what is found on the way."""

    def __init__(
        self, path: Path, target: TargetResult, world: World, given: Mapped[str, str], sets: Mapped[str, str]
    ) -> None:
        self.path, self.target, self.world, self.given, self.sets = path, target, world, given, sets
        self.files = Files()
        self.files.add(target.source)
        self.findings: list[Diagnostic] = list(target.diagnostics)
        self.known: tuple[str, ...] = ()
        self.template: TemplateUse | None = None

    def result(self) -> LoadResult:
        source, problem = read_source(self.path, self.world)
        if source is None:
            return self._end([problem.diagnostic] if problem else [])
        self.files.add(source)
        return self.of_head(read_head(source))

    def of_head(self, head: Head) -> LoadResult:
        """The result of a file whose text is read."""
        other = _other_kind(head.tree) if head.tree else None
        if head.tree is None or other:
            return self._end([*head.findings, *([other] if other else [])])
        if wrong := _wrong_variables(head):
            return self._end([*head.findings, *wrong])
        declared = declarations(_variables(head.tree))
        self.known = (*(one.name for one in declared), *(self.target.variables.keys if self.target.variables else ()))
        scope, tree = self._tree(head, declared)
        if tree is None:
            return self._end()
        resolved, found, unresolved = resolve(self._overlaid(tree, scope), scope)
        self.findings += found
        checked, document, violations = check_document(resolved, "pipeline", unresolved)
        if isinstance(resolved, Mapping) and "template" in resolved.keys:
            # The template could not be used, and why is reported; what it would have given is not missing in this file.
            violations = [one for one in violations if not _template_may_give(one.finding)]
        found = [one.finding for one in violations]
        self.findings = [one for one in self.findings if not _is_refused_variable(one, found)] + found
        assert isinstance(checked, Mapping)
        return self._checked(checked, document, unresolved, refused_paths(violations))

    def _tree(self, head: Head, declared: tuple[Declared, ...]) -> tuple[Scope, Mapping | None]:
        """What references may name, and the file's own tree after rendering."""
        # A template's structure may hang on any variable, so each must have a value.
        offline = self.world.offline and not head.templated
        values, found, open_names = values_of(declared, self.target.variables, self.given, offline)
        self.findings += found
        allowed = frozenset(self.target.target.allow_environment) if self.target.target else frozenset()
        scope = Scope(self.world, values, open_names, environment=allowed)
        if head.templated and any(finding.is_error for finding in found):
            return scope, None
        tree, found = read_tree(head, {"var": values}, self.world, self.files)
        self.findings += found
        return scope, tree

    def _overlaid(self, tree: Mapping, scope: Scope) -> Node:
        """The tree over its shared template and below the target's overrides and `--set`."""
        tree = with_owners(tree)
        whole: Node = tree
        use = tree.entry("template")
        body = None
        if use:
            body, found, self.template = use_template(use, self.path, scope, self.world, self.files)
            self.findings += found
            # Without its template a file is not whole; what is missing then is not the file's fault.
            whole = head_first(lay_over(body, without(tree, "template"))) if body else tree
        named, _, _ = resolve(without(tree, *(key for key in tree.keys if key != "metadata")), scope)
        name = pipeline_name(named) if isinstance(named, Mapping) else None
        for overlay in self.target.overlays_for(name or ""):
            whole = lay_over(whole, overlay)
        for set_path, set_value in self.sets.items():
            whole, option, found = apply_set(whole, set_path, set_value)
            self.files.add(option)
            self.findings += found
        whole, found = without_additions(with_owners(whole, former_wins=True) if isinstance(whole, Mapping) else whole)
        # What should lie below is not there without the template, and that is reported already.
        self.findings += found if use is None or body else []
        return whole

    def _checked(
        self, checked: Mapping, values: Any, unresolved: frozenset[TreePath], refused: frozenset[str]
    ) -> LoadResult:
        """The result of a tree that the schema has seen, and of its values as dicts and lists."""
        if "template" not in checked.keys:
            kind = DoubtfulDocument if refused else Document
            document = kind(checked, self.target.target, unresolved, refused)
            self.findings += findings_of(RULES, document)
        tree, found = with_schemas(checked, self.path, self.world)
        self.findings += found
        broken = any(finding.is_error for finding in self.findings)
        # Invariant of the chain: a spec is built only from a tree that nothing is wrong with and nothing is missing in.
        whole = values if tree is checked else plain(tree)
        spec = build_pipeline(whole) if not broken and not unresolved else None
        target = self.target.target
        pipeline = LoadedPipeline(str(self.path), spec, target, self.template) if spec and target else None
        return self._end(tree=tree, spec=spec, pipeline=pipeline)

    def _end(
        self,
        more: Iterable[Diagnostic] = (),
        tree: Mapping | None = None,
        spec: PipelineSpec | None = None,
        pipeline: LoadedPipeline | None = None,
    ) -> LoadResult:
        findings = self.files.finish([*self.findings, *more])
        return LoadResult(str(self.path), pipeline, findings, tree, spec, self.files, self.known)


def _template_may_give(finding: Diagnostic) -> bool:
    """Whether it is that a key is missing inside what a template and the file give together."""
    head, _, inside = (finding.path or "").partition(".")
    return finding.code == "FLOE-C202" and bool(inside) and head not in ("metadata", "template", "variables")


def pipeline_name(tree: Mapping) -> str | None:
    """`metadata.name` of a tree, where it is text."""
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name.value if isinstance(name, Scalar) and isinstance(name.value, str) else None


def head_first(tree: Node) -> Node:
    """The same tree with the keys that say what it is before the others, for people who read it."""
    if not isinstance(tree, Mapping):
        return tree
    head = ("apiVersion", "kind", "metadata", "variables")
    first = tuple(entry for key in head if (entry := tree.entry(key)) is not None)
    return Mapping((*first, *without(tree, *head).entries), tree.span)


def _variables(tree: Mapping) -> Node | None:
    """What is under `variables`, or under the key that was meant to be it: then only the key is wrong."""
    others = [key for key in tree.keys if key not in published("pipeline")["properties"]]
    return tree.get("variables") or tree.get(nearest("variables", others) or "")


def _wrong_variables(head: Head) -> list[Diagnostic]:
    """What is wrong with the variables that a file is rendered with: without them each place that names one is wrong, too."""
    if not head.templated or head.tree is None:
        return []
    known = published("pipeline")["properties"]
    entries = tuple(entry for entry in head.tree.entries if entry.key == "variables" or entry.key not in known)
    _, _, found = check_document(Mapping(entries, head.tree.span), "pipeline")
    return [
        one.finding
        for one in found
        if one.meant == ("variables",)
        or (one.finding.path == "variables" and one.finding.code == "FLOE-C203")
        or (one.finding.path.startswith("variables.") and one.meant)
    ]


def _is_refused_variable(finding: Diagnostic, found: list[Diagnostic]) -> bool:
    """Whether a variable has no value since its declaration is wrong."""
    return finding.code == "FLOE-C308" and any(one.path.startswith(f"{finding.path}.") for one in found)


def _other_kind(tree: Mapping) -> Diagnostic | None:
    kind = tree.get("kind")
    if isinstance(kind, Scalar) and kind.value in ("Target", "Template"):
        remedy = "give it to `--target`" if kind.value == "Target" else "name it under `template:` in a pipeline file"
        message = f"this file is a {kind.value}, not a Pipeline"
        return Diagnostic("FLOE-C211", message, kind.span, path="kind", remedy=remedy)
    return None


def with_findings_between(results: list[LoadResult], given: Mapped[str, str]) -> Iterable[LoadResult]:
    """The results with what is wrong between files added to the file that can repair it."""
    trees = [(result.tree, result.spec) for result in results]
    known = {name for result in results for name in result.known_variables}
    # A file that could not be read may declare the name, so nothing is said then.
    unknown = [name for name in given if name not in known] if all(result.tree for result in results) else []
    for result, extra in zip(results, findings_between(trees, unknown, sorted(known)), strict=True):
        if not extra:
            yield result
            continue
        findings = tuple(sorted([*result.diagnostics, *result.files.finish(extra)], key=lambda finding: finding.order))
        broken = any(finding.is_error for finding in findings)
        yield replace(result, pipeline=None if broken else result.pipeline, diagnostics=findings)
