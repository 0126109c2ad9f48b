"""What a pipeline's plan says of a table's owner, held against what the table records.

In: a plan and a table as it was just loaded. Out: the properties to record before the first row is written, or why
the pipeline may not write the table. `floe plan` and `floe tap` ask the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, pipelines_of
from framework.config.names.table_names import identifier_of
from framework.errors import StateDisagreement, TableBlocked
from framework.plan.model import Plan
from framework.record.model import TableTarget
from framework.table.owner import (
    OWNED,
    OWNER_PROPERTY,
    Claim,
    UnreadableOwner,
    Use,
    first_owner,
    owner_after,
    owner_of,
    refusal,
    text_of,
)


def named_tables(plan: Plan) -> tuple[str, ...]:
    """The full names of the tables that the plan names as a whole, histories and dead letters included."""
    tables = plan.write.tables
    names = [tables.full_name(rule.table) for rule in plan.route.rules if "{" not in rule.table]
    names += [tables.full_name(history.table) for history in tables.histories]
    if plan.write.dead_letter_table:
        names.append(plan.write.dead_letter_table)
    return tuple(dict.fromkeys(names))


def claim_of(plan: Plan, table: str) -> Claim:
    """What the pipeline does with the table. A replay writes in the name of its pipeline."""
    tables = plan.write.tables
    pipeline = plan.pipeline.partition(".")[0]  # no pipeline's own name has a dot
    if table == plan.write.dead_letter_table:
        return Claim(pipeline, Use.DEAD_LETTERS, (), True)
    if tables.whose_history(table) is not None:
        return Claim(pipeline, Use.HISTORY, (), True)
    is_named = any(tables.fold(table) == tables.fold(name) for name in named_tables(plan))
    write = tables.policy_for(table).write
    return Claim(pipeline, Use.UPSERT if write.is_upsert else Use.APPEND, write.key, is_named)


def created_with(plan: Plan, table: str) -> tuple[str, str]:
    """The property of a table that the pipeline makes."""
    return OWNER_PROPERTY, text_of(first_owner(claim_of(plan, table)))


def to_record(plan: Plan, found: TableTarget) -> Mapping[str, str]:
    """What the table shall record of its owner and does not yet.

    Raises:
        TableBlocked: FLOE-D206, the table belongs to another pipeline.
    """
    check_owner(plan, found)
    claim = claim_of(plan, found.name)
    owner = owner_after(claim, owner_of(found.properties), claim.pipeline in _pipelines(found))
    text = text_of(owner) if owner is not None else None
    return {} if text is None or found.properties.get(OWNER_PROPERTY) == text else {OWNER_PROPERTY: text}


def check_owner(plan: Plan, found: TableTarget) -> None:
    """Refuse a table of another pipeline.

    Raises:
        TableBlocked: FLOE-D206, with the owner's name.
    """
    try:
        reason = refusal(claim_of(plan, found.name), owner_of(found.properties))
    except UnreadableOwner:
        reason = f"its property {OWNER_PROPERTY} cannot be read, so that nobody knows whose it is"
    if reason is not None:
        raise TableBlocked(reason, code=OWNED, place=found.name, remedy=remedy_for(found.name))


def remedy_for(table: str) -> str:
    """What lets another pipeline have the table."""
    return (
        f"let the records go to another table; or, once nobody else writes it, run in Spark: "
        f"ALTER TABLE {identifier_of(table)} UNSET TBLPROPERTIES ('{OWNER_PROPERTY}')"
    )


def _pipelines(found: TableTarget) -> frozenset[str]:
    try:
        return pipelines_of(found.properties.get(PROGRESS_PROPERTY))
    except StateDisagreement:  # reported where progress is asked for
        return frozenset()
