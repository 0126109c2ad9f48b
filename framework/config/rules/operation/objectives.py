"""Rules about objectives: what floe cannot measure is not promised, and neither is what can never be kept.

In: a pipeline's tree. Out: a diagnostic per violation. Only what a file says of errors, drops and intervals is looked at: whether
the objectives are kept is for `floe status` to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.spec import CommitPolicy
from framework.config.tree import Path, dotted
from framework.config.units import duration_ms, duration_text
from framework.config.values.objectives import is_possible, share_of
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import listed

_STAGES = ("decode", "route", "convert")


def objectives_are_measured(document: Document) -> Iterator[Diagnostic]:
    """What is promised is something that the control log has."""
    recovery = document.entry("objectives", "recovery")
    if recovery is not None:
        yield at(
            "FLOE-C476",
            "`recovery` cannot be measured: a process that is killed says nothing, so nobody knows when an outage began",
            recovery,
            ("objectives", "recovery"),
            "remove it, and write `freshness`, which counts each outage from the moment at which readers see it",
        )
    complete = document.entry("objectives", "complete")
    dropping = [place for place, policy in _policies(document) if policy == "drop"]
    if complete is not None and dropping:
        yield at(
            "FLOE-C476",
            f"`complete` cannot be measured where {listed(dropping[:1])} drops records with errors: they are counted together "
            "with records that rules drop",
            complete,
            ("objectives", "complete"),
            "write `dead_letter` or `fail` there, or remove `complete`",
        )
    letters = document.entry("objectives", "dead_letters")
    is_kept = document.entry("errors", "dead_letter_table") is not None
    makes_letters = any(policy == "dead_letter" for _, policy in _policies(document)) or is_kept
    if letters is not None and not makes_letters:
        yield at(
            "FLOE-C476",
            "`dead_letters` cannot be measured: the file makes none of any record",
            letters,
            ("objectives", "dead_letters"),
            "write `errors: {policy: dead_letter}`, or remove `dead_letters`",
        )


def shares_leave_a_budget(document: Document) -> Iterator[Diagnostic]:
    """A share leaves a budget for errors, and one whose burn rate can be seen."""
    for key, words in (("complete", "95% to below 100%"), ("dead_letters", "above 0% to 5%")):
        share, node = share_of(document.text("objectives", key)), document.node("objectives", key)
        if share is None or node is None or is_possible(1 - share if key == "complete" else share):
            continue
        text = document.text("objectives", key)
        message = f"`{key}: {text}` leaves an error budget that is too small or too large to alert on"
        yield at("FLOE-C477", message, node, ("objectives", key), f"write a share of {words}")


def freshness_outlasts_commits(document: Document) -> Iterator[Diagnostic]:
    """Commits are frequent enough for the freshness that is promised."""
    text, node = document.text("objectives", "freshness"), document.node("objectives", "freshness")
    freshness_ms = duration_ms(text) if text is not None else None
    if freshness_ms is None or node is None:
        return
    where = max(_waits(document), key=lambda place: _every_ms(document, place))
    longest_ms = _every_ms(document, where)
    if freshness_ms <= longest_ms:
        every = duration_text(longest_ms)
        message = f"`freshness: {text}` can never be kept: records wait for up to {every} by `{dotted(where)}`"
        remedy = f"write a freshness well above {every}, or a shorter interval"
        yield at("FLOE-C477", message, node, ("objectives", "freshness"), remedy)


def _policies(document: Document) -> Iterator[tuple[str, str]]:
    """What becomes of records with errors, by where the file says it."""
    policy = document.text("errors", "policy")
    yield "errors.policy", policy or ("dead_letter" if document.entry("errors", "policy") is None else "")
    for stage in _STAGES:
        if (word := document.text("errors", "stages", stage)) is not None:
            yield f"errors.stages.{stage}", word


def _waits(document: Document) -> Iterator[Path]:
    """Where a file says how long records wait."""
    for policy in table_policies(document):
        yield (*policy, "commit", "interval")
    yield "trigger", "every"


def _every_ms(document: Document, path: Path) -> int:
    text = document.text(*path)
    found = duration_ms(text) if text is not None else None
    if found is not None:
        return found
    return CommitPolicy.interval_ms if path == ("tables", "defaults", "commit", "interval") else 0


RULES: tuple[Rule, ...] = (objectives_are_measured, shares_leave_a_budget, freshness_outlasts_commits)
