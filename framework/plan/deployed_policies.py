"""How the tables of running pipelines are to be maintained, from the plans that their runs published.

In: canonical plans by pipeline, perhaps written by another version of floe. Out: the policy for a table by the
pipelines that fill it; None where no plan of them is known. Pure; an unreadable plan counts as unknown, so that nothing
is done to a table on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

from pydantic import TypeAdapter, ValidationError

from framework.commit.recovery.missing import REPLAY
from framework.config.names.table_names import identifier_of
from framework.config.spec import CommitPolicy, NameCase, TablePolicy, TablesSpec
from framework.config.values.maintenance import (
    ExpirePolicy,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)

_POLICY = TypeAdapter(MaintenancePolicy)


def maintained_tables(plan: Mapping[str, Any]) -> TablesSpec | None:
    """The tables of a canonical plan with their maintenance and their branch alone."""
    try:
        tables = plan["write"]["tables"]
        overrides = tuple((str(glob), _policy(policy)) for glob, policy in tables["overrides"])
        return TablesSpec(_policy(tables["defaults"]), overrides)
    except (LookupError, TypeError, ValueError, AttributeError, ValidationError):
        return None


def published_tables(published: Mapping[str, object]) -> TablesSpec | None:
    """The same of what a run published of itself."""
    value = published.get("plan")
    return maintained_tables(value) if isinstance(value, dict) else None


def policy_of(table: str, pipelines: Iterable[str], reported: Mapping[str, TablesSpec]) -> MaintenancePolicy | None:
    """The policy of one table: the strictest words of all pipelines that fill it, so that nothing goes which one of them
    wants to keep. Where a plan of one is unknown nothing is removed at all; None where no plan is known."""
    names = {name.partition(REPLAY)[0] for name in pipelines}
    known = [reported[name].policy_for(table).maintenance for name in sorted(names) if name in reported]
    if not known:
        return None
    found = reduce(_stricter, known)
    if len(known) == len(names):
        return found
    return replace(found, expire=replace(found.expire, enabled=False), orphans=replace(found.orphans, enabled=False))


def branch_of(table: str, pipelines: Iterable[str], reported: Mapping[str, TablesSpec]) -> str:
    """The branch that the pipelines of a table write, as far as their plans are known: `main`, unless all name one other."""
    names = {name.partition(REPLAY)[0] for name in pipelines} & reported.keys()
    branches = {reported[name].policy_for(table).commit.branch for name in names}
    return branches.pop() if len(branches) == 1 else "main"


_MODES = (MaintenanceMode.ALWAYS, MaintenanceMode.AUTO, MaintenanceMode.NEVER)


def _stricter(one: MaintenancePolicy, other: MaintenancePolicy) -> MaintenancePolicy:
    """What both let happen."""
    return MaintenancePolicy(
        max(one.mode, other.mode, key=_MODES.index),
        replace(one.compaction, enabled=one.compaction.enabled and other.compaction.enabled),
        ExpirePolicy(
            one.expire.enabled and other.expire.enabled,
            max(one.expire.max_snapshot_age_ms, other.expire.max_snapshot_age_ms),
            max(one.expire.max_snapshots, other.expire.max_snapshots),
            max(one.expire.rollback_window_ms, other.expire.rollback_window_ms),
            max(one.expire.reader_lease_ms, other.expire.reader_lease_ms),
        ),
        OrphansPolicy(
            one.orphans.enabled and other.orphans.enabled,
            max(one.orphans.older_than_ms, other.orphans.older_than_ms),
        ),
        ManifestsPolicy(
            one.manifests.enabled and other.manifests.enabled, max(one.manifests.min_count, other.manifests.min_count)
        ),
    )


def _policy(value: Mapping[str, Any]) -> TablePolicy:
    said = value.get("maintenance")
    maintenance = MaintenancePolicy() if said is None else _POLICY.validate_python(said)
    branch = str((value.get("commit") or {}).get("branch", "main"))
    return TablePolicy(commit=CommitPolicy(branch=branch), case=NameCase(value["case"]), maintenance=maintenance)


def dead_letters_of(plan: Mapping[str, Any]) -> tuple[str, str] | None:
    """The table and the branch of the dead letters in what a run published; None where it keeps none, or cannot be read."""
    try:
        write = plan["plan"]["write"]
        table, tables = write["dead_letter_table"], write["tables"]
        if not isinstance(table, str) or not table:
            return None
        matching = (policy for glob, policy in tables["overrides"] if fnmatchcase(identifier_of(table), str(glob)))
        return table, str(next(matching, tables["defaults"])["commit"]["branch"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
