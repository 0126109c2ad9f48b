"""How the tables of running pipelines are to be maintained, from the plans that their runs told.

In: canonical plans by pipeline, perhaps written by another version of floe. Out: the policy for a table by the
pipelines that fill it; None where no plan of them is known. Pure; an unreadable plan counts as unknown, so that nothing
is done to a table on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from framework.config.maintenance import MaintenancePolicy
from framework.config.spec import Case, TablePolicy, TablesSpec

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
