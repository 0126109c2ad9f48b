"""The tests of a template, each turned into the pipeline file that it describes.

In: a template file and a target. Out: what is wrong with the template itself, and one `LoadResult` per test, with
findings at the line of the template that a person wrote. A test with records becomes a test of that pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from framework.config.document import Files, Head, read_source
from framework.config.load import Loading, LoadResult
from framework.config.target import TargetResult
from framework.config.templates.library import read_template
from framework.config.text import SourceText
from framework.config.tree import Entry, Mapping, Node, Scalar, Sequence
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Severity, Span

_OF_THE_USE = ("name", "parameters", "pipeline")


@dataclass(frozen=True)
class TemplateUses:
    """`findings` are about the template's head; `results` are its tests in order, none where the head is wrong."""

    findings: tuple[Diagnostic, ...]
    results: tuple[LoadResult, ...] = ()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that is wrong, the head first."""
        return (*self.findings, *(finding for result in self.results for finding in result.diagnostics))


def load_uses(path: Path, target: TargetResult, world: World) -> TemplateUses:
    """Loads each test of a template as a pipeline file that uses it."""
    source, problem = read_source(path, world)
    if source is None:
        return TemplateUses((problem.diagnostic,) if problem else ())
    files = Files()
    files.add(source)
    tree, _, findings = read_template(source)
    if tree is None or any(finding.is_error for finding in findings):
        return TemplateUses(files.finish(findings))
    tests = tree.get("tests")
    items = tests.items if isinstance(tests, Sequence) else ()
    if not items:
        message = "the template has no tests, so what it produces was not checked"
        remedy = "add `tests:` with the parameters of at least one use"
        span = _key_span(tree, "metadata")
        findings.append(Diagnostic("FLOE-C613", message, span, Severity.WARNING, remedy=remedy))
    results = []
    for item in items:
        if isinstance(item, Mapping):
            loading = Loading(path, target, world, {}, {})
            loading.files.add(source)
            results.append(loading.of_head(Head(source, _use(source, tree, item), (), templated=False)))
    return TemplateUses(files.finish(findings), tuple(results))


def _use(source: SourceText, template: Mapping, test: Mapping) -> Mapping:
    """The pipeline file that a test stands for: the template's name, the parameters, what it adds, and its records."""
    metadata = template.get("metadata")
    version = metadata.get("version") if isinstance(metadata, Mapping) else None
    span = test.span

    def entry(key: str, value: Node) -> Entry:
        return Entry(key, span, value)

    parameters, added = test.get("parameters"), test.get("pipeline")
    use = [entry("name", Scalar(f"./{Path(source.file).name}", span)), entry("version", version or Scalar("", span))]
    if parameters:
        use.append(entry("parameters", parameters))
    case = tuple(each for each in test.entries if each.key == "name" or each.key not in _OF_THE_USE)
    return Mapping(
        (
            entry("apiVersion", Scalar("floe/v1", span)),
            entry("kind", Scalar("Pipeline", span)),
            entry("metadata", Mapping((entry("name", Scalar("template-test", span)),), span)),
            entry("template", Mapping(tuple(use), span)),
            *(added.entries if isinstance(added, Mapping) else ()),
            *((entry("tests", Sequence((Mapping(case, span),), span)),) if len(case) > 1 else ()),
        ),
        span,
    )


def _key_span(tree: Mapping, key: str) -> Span:
    entry = tree.entry(key)
    return entry.key_span if entry else tree.span
