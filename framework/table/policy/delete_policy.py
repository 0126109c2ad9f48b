"""The policy by which a record that deletes is read: its key as a row's key is, and nothing else of it.

In: the policy of an upsert table. Out: the policy of its key columns alone. Whatever else the record has
is left out without asking, so that a delete never changes a table and never lacks a column.
"""

from __future__ import annotations

from dataclasses import replace

from framework.config.spec import EvolveMode, TablePolicy


def delete_policy(policy: TablePolicy) -> TablePolicy:
    """Whether the table may be made, and what becomes of a key that does not fit, the table's own words say."""
    evolve = replace(policy.evolve, columns=EvolveMode.DISCARD_VALUE, include=(), exclude=())
    return replace(policy, evolve=evolve)
