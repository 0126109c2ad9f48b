"""Files of every kind, checked: pipelines together, targets alone, templates through their own tests.

In: paths and the outside as values. Out: all findings, file by file in the order that was asked for. This is what
`floe validate` prints; it decides nothing that `framework.config.load` does not decide for a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Mapped
from collections.abc import Sequence as Listed
from pathlib import Path

from framework.config.document import Files, Head, read_source
from framework.config.library import read_template
from framework.config.load import DEFAULT_TARGET, Loading, load_pipelines
from framework.config.target import TargetResult, load_target, read_target
from framework.config.text import SourceText
from framework.config.tree import Entry, Mapping, Node, Scalar, Sequence
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Severity, Span

_KIND = re.compile(r"^kind:[ ]*(Target|Template)[ ]*(#.*)?$", re.MULTILINE)


def check_files(
    paths: Listed[Path],
    target_name: str | None,
    world: World,
    variables: Mapped[str, str] | None = None,
    sets: Mapped[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with some files, each finding once.

    Args:
        target_name: what pipelines and templates are checked under.
        variables, sets: for pipelines only.
    """
    kinds = {path: _kind(path, world) for path in paths}
    pipelines = [path for path in paths if kinds[path] == "Pipeline"]
    loaded = iter(load_pipelines(pipelines, target_name, world, variables, sets))
    findings: list[Diagnostic] = []
    for path in paths:
        if kinds[path] == "Pipeline":
            findings += next(loaded).diagnostics
        elif kinds[path] == "Target":
            findings += _check_target(path, world)
        else:
            findings += _check_template(path, load_target(target_name or DEFAULT_TARGET, world, path.parent), world)
    return tuple(dict.fromkeys(findings))


def _kind(path: Path, world: World) -> str:
    """The kind that a file says it is of; everything that is unclear is left to the pipeline's loader."""
    source, _ = read_source(path, world)
    found = _KIND.search(source.text) if source else None
    return found[1] if found else "Pipeline"


def _check_target(path: Path, world: World) -> tuple[Diagnostic, ...]:
    source, problem = read_source(path, world)
    if source is None:
        return (problem.diagnostic,) if problem else ()
    return read_target(source, world).diagnostics


def _check_template(path: Path, target: TargetResult, world: World) -> tuple[Diagnostic, ...]:
    """A template's head, and each of its tests as a pipeline file that uses it."""
    source, problem = read_source(path, world)
    if source is None:
        return (problem.diagnostic,) if problem else ()
    files = Files()
    files.add(source)
    tree, _, findings = read_template(source)
    if tree is None or any(finding.is_error for finding in findings):
        return files.finish(findings)
    tests = tree.get("tests")
    items = tests.items if isinstance(tests, Sequence) else ()
    if not items:
        message = "the template has no tests, so what it makes was not checked"
        remedy = "add `tests:` with the parameters of at least one use"
        span = _key_span(tree, "metadata")
        findings.append(Diagnostic("FLOE-C613", message, span, Severity.WARNING, remedy=remedy))
    results = list(files.finish(findings))
    for item in items:
        if isinstance(item, Mapping):
            head = Head(source, _use(source, tree, item), (), templated=False)
            loading = Loading(path, target, world, {}, {})
            loading.files.add(source)
            results += loading.of_head(head).diagnostics
    return tuple(results)


def _use(source: SourceText, template: Mapping, test: Mapping) -> Mapping:
    """The pipeline file that a template's test stands for: the template's name, the parameters, and what it adds."""
    metadata = template.get("metadata")
    version = metadata.get("version") if isinstance(metadata, Mapping) else None
    span = test.span

    def entry(key: str, value: Node) -> Entry:
        return Entry(key, span, value)

    parameters = test.get("parameters")
    use = [entry("name", Scalar(f"./{Path(source.file).name}", span)), entry("version", version or Scalar("", span))]
    added = test.get("pipeline")
    return Mapping(
        (
            entry("apiVersion", Scalar("floe/v1", span)),
            entry("kind", Scalar("Pipeline", span)),
            entry("metadata", Mapping((entry("name", Scalar("template-test", span)),), span)),
            entry("template", Mapping((*use, *((entry("parameters", parameters),) if parameters else ())), span)),
            *(added.entries if isinstance(added, Mapping) else ()),
        ),
        span,
    )


def _key_span(tree: Mapping, key: str) -> Span:
    entry = tree.entry(key)
    return entry.key_span if entry else tree.span
