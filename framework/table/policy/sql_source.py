"""The policy of the columns that `transform.sql` reads: they are what the pipeline file declares, and never change.

In: the policy of `tables.defaults`. Out: the policy by which records become rows of `source`. A value that does not
fit, and one that is missing where it must be there, is an error; a field that is not declared is not seen.
"""

from __future__ import annotations

from framework.config.spec import EvolveMode, EvolvePolicy, TablePolicy
from framework.table.policy.rules import leaves_empty_out


def sql_source_policy(defaults: TablePolicy) -> TablePolicy:
    """What a value is in more than one way, the tables' defaults say."""
    data_type = EvolveMode.EVOLVE if leaves_empty_out(defaults) else EvolveMode.FREEZE
    return TablePolicy(
        evolve=EvolvePolicy(
            EvolveMode.FREEZE, EvolveMode.DISCARD_VALUE, data_type, EvolveMode.FREEZE, names=EvolveMode.EVOLVE
        ),
        case=defaults.case,
        values=defaults.values,
    )
