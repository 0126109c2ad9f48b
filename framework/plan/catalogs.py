"""Which catalogs a plan needs, and the full names of its tables.

In: a plan. Out: catalogs' names and tables' full names. Pure. A catalog that no route can reach is not among them, so
the pipeline can run even if that catalog does not answer.
"""

from __future__ import annotations

from framework.config.names.table_names import catalog_of, full_name, reachable, template_glob
from framework.plan.model import Plan


def used_catalogs(*plans: Plan) -> tuple[str, ...]:
    """The catalogs in which tables of these plans may live, in order."""
    found = set()
    for plan in plans:
        tables = plan.write.tables
        for rule in plan.route.rules:
            found |= {catalog for _, catalog in reachable(template_glob(rule.table), tables.catalogs, tables.fold)}
        found |= {catalog_of(tables.full_name(history.table)) for history in tables.histories}
        if plan.write.dead_letter_table:
            found.add(catalog_of(plan.write.dead_letter_table))
    return tuple(sorted(found))


def shown_table(plan: Plan, table: str) -> str:
    """The full name of a rule's table; of a table whose name comes from the record, if all that it may be are in one
    catalog, and else as the rule writes it."""
    tables = plan.write.tables
    places = reachable(template_glob(table), tables.catalogs, tables.fold)
    return full_name(places[0][1], table) if len(places) == 1 else table
