"""What another version of a template would change, pipeline by pipeline.

In: a pipeline file as it is and as it would be. Out: a value that says what changes for it, or why it would not load.
Invariant: nothing is read and nothing is asked; whether the pipeline ever ran is not known, so breaking changes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from framework.config.load import LoadResult
from framework.config.spec import LoadedPipeline, TemplateUse
from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.render import as_dict
from framework.plan.canonical import canonical
from framework.plan.diff.diff import PlanChange, diff


@dataclass(frozen=True)
class TemplateChange:
    """`after` None: the file would not load, and `findings` say why. `changes` are of what runs."""

    pipeline: str
    file: str
    before: TemplateUse
    after: TemplateUse | None
    changes: tuple[PlanChange, ...]
    findings: tuple[Diagnostic, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline,
            "file": self.file,
            "before": asdict(self.before),
            "after": asdict(self.after) if self.after else None,
            "changes": [change.to_json() for change in self.changes],
            "diagnostics": [as_dict(finding) for finding in self.findings],
        }


def template_change(now: LoadedPipeline, then: LoadResult | None, findings: Sequence[Diagnostic]) -> TemplateChange:
    """What changes for one pipeline.

    Args:
        then: the file with the other template; None where there is no such template, which `findings` then say.
    """
    assert now.template is not None
    errors = tuple(finding for finding in (*findings, *(then.diagnostics if then else ())) if finding.is_error)
    if then is None or then.pipeline is None:
        return TemplateChange(now.spec.name, now.file, now.template, None, (), errors)
    changes = diff(canonical(now), canonical(then.pipeline))
    # What the template is called is said once, above the changes.
    shown = tuple(change for change in changes if change.subject != "template")
    return TemplateChange(now.spec.name, now.file, now.template, then.pipeline.template, shown, ())


def summary(changes: Sequence[TemplateChange], name: str, others: int) -> str:
    """One line with the sums."""
    return ", ".join(_sums(changes, name, others))


def _sums(changes: Sequence[TemplateChange], name: str, others: int) -> Iterator[str]:
    wrong = sum(change.after is None for change in changes)
    differ = sum(bool(change.changes) for change in changes)
    yield f"{name} is used by {len(changes)} of {counted(len(changes) + others, 'pipeline')}: {differ} would change"
    yield f"{wrong} would not load"
    yield f"{len(changes) - wrong - differ} would stay as they are"
