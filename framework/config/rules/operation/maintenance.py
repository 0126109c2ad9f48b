"""Rules about maintenance: what a rollback, a reader or a transaction may still need stays longer than it is needed.

In: a pipeline's tree. Out: a diagnostic per violation. What a table's policy leaves out comes from the defaults, so
each rule looks at the two together, and a fault in the defaults is reported once.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.tree import Path
from framework.config.units import duration_ms, duration_text
from framework.config.values.maintenance import ORPHAN_SAFETY_AGE_MS, ExpirePolicy, OrphansPolicy
from framework.diagnose.diagnostic import Diagnostic

_DEFAULTS: Path = ("tables", "defaults")
_EXPIRE = ExpirePolicy()
_KEPT = {
    "rollback_window": (_EXPIRE.rollback_window_ms, "`floe rollback` may go back to it"),
    "reader_lease": (_EXPIRE.reader_lease_ms, "a query may still read it"),
}


def snapshots_outlive_their_use(document: Document) -> Iterator[Diagnostic]:
    """A snapshot does not expire while a rollback may go back to it or a query may read it."""
    if "maintenance" not in document.policy_keys:
        return
    for policy in table_policies(document):
        where, age_ms = _duration(document, policy, "expire", "max_snapshot_age", _EXPIRE.max_snapshot_age_ms)
        for word, (default_ms, why) in _KEPT.items():
            kept_at, kept_ms = _duration(document, policy, "expire", word, default_ms)
            place = where if where[: len(policy)] == policy and document.entry(*where) is not None else kept_at
            entry = document.entry(*place)
            if (
                entry is None
                or place[: len(policy)] != policy
                or kept_ms is None
                or age_ms is None
                or age_ms >= kept_ms
            ):
                continue
            yield at(
                "FLOE-C470",
                f"a snapshot expires after {duration_text(age_ms)}, and for {duration_text(kept_ms)} {why}",
                entry.value,
                place,
                f"let `max_snapshot_age` be at least {duration_text(kept_ms)}, or shorten `{word}`",
            )


def orphans_are_old(document: Document) -> Iterator[Diagnostic]:
    """A file counts as an orphan only when no batch and no transaction can still be about to announce it."""
    if "maintenance" not in document.policy_keys:
        return
    for policy in table_policies(document):
        path, age_ms = _duration(document, policy, "orphans", "older_than", OrphansPolicy.older_than_ms)
        node = document.node(*path)
        if node is None or path[: len(policy)] != policy or age_ms is None or age_ms >= ORPHAN_SAFETY_AGE_MS:
            continue
        yield at(
            "FLOE-C471",
            f"a file of {duration_text(age_ms)} may belong to a batch or a transaction that is still open",
            node,
            path,
            f"write `older_than: {duration_text(ORPHAN_SAFETY_AGE_MS)}` or more",
        )


def _duration(document: Document, policy: Path, part: str, word: str, default_ms: int) -> tuple[Path, int | None]:
    """Where a duration is written, here or else in the defaults, and how long it is; None where that is not known."""
    own: Path = (*policy, "maintenance", part, word)
    path = own if document.entry(*own) is not None else (*_DEFAULTS, "maintenance", part, word)
    if document.entry(*path) is None:
        return path, default_ms
    text = document.text(*path)
    return path, duration_ms(text) if text is not None else None


RULES: tuple[Rule, ...] = (snapshots_outlive_their_use, orphans_are_old)
