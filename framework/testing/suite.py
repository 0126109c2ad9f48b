"""Runs all cases of a file. In: the loader's result for the file. Out: a `FileReport`, with what is wrong or what
differs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.config.load import LoadResult
from framework.config.spec import LoadedPipeline, PipelineSpec, TargetSpec
from framework.config.tree import Mapping
from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic, Severity, Span
from framework.errors import ConfigError
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.record.process import Sql
from framework.testing.case import Case, read_cases
from framework.testing.compare import compare
from framework.testing.encode import EncodeFault
from framework.testing.execute import CaseOutcome, run_case
from framework.testing.sql import SqlEngine

_NO_TARGET = TargetSpec(name="test", kafka={}, catalogs={})


@dataclass(frozen=True)
class CaseReport:
    """One case: what came of it, and where that differs from what is expected."""

    case: Case
    outcome: CaseOutcome
    differences: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        return not self.differences


@dataclass(frozen=True)
class FileReport:
    """One file. `findings` holds what is wrong with it, and then no case was run; warnings stop nothing."""

    file: str
    findings: tuple[Diagnostic, ...]
    cases: tuple[CaseReport, ...] = ()

    @property
    def is_wrong(self) -> bool:
        return any(finding.is_error for finding in self.findings)


def run_file(result: LoadResult, engine: SqlEngine | None = None) -> FileReport:
    """Runs the tests of one loaded file; without an engine, those of a file with SQL are left out with a warning.

    Raises:
        SetupError: the engine does not start.
    """
    tree, spec = result.tree, result.spec
    if not result.ok or tree is None:
        return FileReport(result.file, tuple(finding for finding in result.diagnostics if finding.is_error))
    if spec is None:
        # Validation elsewhere can do without the run's values; a test needs them.
        missing = tuple(f for f in result.diagnostics if f.code == "FLOE-C305")
        return FileReport(result.file, result.files.finish(_as_errors(missing) or [_unresolved(tree)]))
    try:
        cases = read_cases(tree, spec)
    except EncodeFault as fault:
        remedy = "give a value that the schema allows; `raw` takes bytes as they are"
        return FileReport(
            result.file, result.files.finish([Diagnostic("FLOE-R406", fault.message, fault.span, remedy=remedy)])
        )
    plan = plan_of(result.file, spec)
    if not cases or plan.transform is None:
        return FileReport(result.file, (), tuple(_run(case, plan, result) for case in cases))
    if engine is None:
        return FileReport(result.file, result.files.finish([_not_run(tree, len(cases))]))
    conf = result.pipeline.target.spark_conf if result.pipeline else {}
    sql = engine.bind(plan.transform.sql, conf)
    try:
        return FileReport(result.file, (), tuple(_run(case, plan, result, sql) for case in cases))
    except ConfigError as refused:
        return FileReport(result.file, result.files.finish([_refused(tree, refused)]))


def plan_of(file: str, spec: PipelineSpec) -> Plan:
    """The plan of a file's pipeline. No target takes part: tests need neither broker nor catalog, and name tables as
    the routes do."""
    spec = replace(spec, tables=spec.tables.in_one_catalog())
    return compile_plan(LoadedPipeline(file, spec, _NO_TARGET))


def _run(case: Case, plan: Plan, result: LoadResult, sql: Sql | None = None) -> CaseReport:
    outcome = run_case(case, plan, sql)
    return CaseReport(case, outcome, result.files.finish(compare(case, outcome)))


def _not_run(tree: Mapping, cases: int) -> Diagnostic:
    message = f"{counted(cases, 'test was', 'tests were')} not run: only Spark can run `transform.sql`"
    remedy = "run `floe test` without `--no-spark`"
    return Diagnostic("FLOE-R407", message, _sql_span(tree), Severity.WARNING, path="transform.sql", remedy=remedy)


def _refused(tree: Mapping, error: ConfigError) -> Diagnostic:
    return Diagnostic(error.code, error.message, _sql_span(tree), path="transform.sql", remedy=error.remedy)


def _sql_span(tree: Mapping) -> Span:
    transform = tree.get("transform")
    node = transform.get("sql") if isinstance(transform, Mapping) else None
    return node.span if node else tree.span


def _as_errors(findings: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    return [
        Diagnostic(f.code, f.message.replace("its value was not checked", "its tests cannot run"), f.span, path=f.path,
                   remedy=f.remedy, excerpt=f.excerpt)
        for f in findings
    ]  # fmt: skip


def _unresolved(tree: Mapping) -> Diagnostic:
    message = "the file uses a value of the local stack that is not known here, so the tests cannot run"
    return Diagnostic(
        "FLOE-C306", message, tree.entries[0].key_span, remedy="run `floe local up`, or give the value with `--set`"
    )
