"""How the tables of running pipelines are to be maintained, from the plans that their runs told.

In: canonical plans by pipeline, perhaps written by another version of floe. Out: the policy for a table by the
pipelines that fill it; None where no plan of them is known. Pure; an unreadable plan counts as unknown, so that nothing
is done to a table on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import TypeAdapter, ValidationError

from framework.config.maintenance import MaintenancePolicy
from framework.config.spec import Case, TablePolicy, TablesSpec
from framework.config.table_names import identifier_of

_POLICY = TypeAdapter(MaintenancePolicy)


def maintained_tables(plan: Mapping[str, Any]) -> TablesSpec | None:
    """The tables of a canonical plan with their maintenance alone."""
    try:
        tables = plan["write"]["tables"]
        overrides = tuple((str(glob), _policy(policy)) for glob, policy in tables["overrides"])
        return TablesSpec(_policy(tables["defaults"]), overrides)
    except (KeyError, TypeError, ValueError, ValidationError):
        return None


def policy_of(table: str, pipelines: Iterable[str], told: Mapping[str, TablesSpec]) -> MaintenancePolicy | None:
    """The policy of one table: that of the first of its pipelines, in order of their names, of which a plan is known."""
    known = (told[name] for name in sorted(pipelines) if name in told)
    spec = next(known, None)
    return spec.policy_for(table).maintenance if spec is not None else None


def _policy(value: Mapping[str, Any]) -> TablePolicy:
    said = value.get("maintenance")
    maintenance = MaintenancePolicy() if said is None else _POLICY.validate_python(said)
    return TablePolicy(case=Case(value["case"]), maintenance=maintenance)


def letters_of(plan: Mapping[str, Any]) -> tuple[str, str] | None:
    """The table and the branch of the dead letters in what a run told; None where it keeps none, or cannot be read."""
    try:
        write = plan["plan"]["write"]
        table, tables = write["dead_letter_table"], write["tables"]
        if not isinstance(table, str) or not table:
            return None
        matching = (policy for glob, policy in tables["overrides"] if fnmatchcase(identifier_of(table), str(glob)))
        return table, str(next(matching, tables["defaults"])["commit"]["branch"])
    except (KeyError, TypeError, ValueError):
        return None
