"""When a pipeline's batches begin and how large they are, from its plan.

In: a Plan. Out: the pacing rules that the driver follows and that `floe plan` shows.
"""

from __future__ import annotations

from framework.commit.pacing import MOST_GROWTH, SENT_BYTES_PER_TASK, PaceRules
from framework.plan.model import Plan


def pace_rules(plan: Plan) -> PaceRules:
    """The smallest limits of all tables hold, since a batch is of all of them."""
    tables = plan.write.tables
    commits = [policy.commit for policy in (tables.defaults, *(policy for _, policy in tables.overrides))]
    usual = plan.read.max_records_per_batch
    return PaceRules(
        plan.announce.trigger_every_ms,
        plan.announce.heartbeat_ms,
        usual,
        usual * MOST_GROWTH if plan.may_grow_batches else usual,
        min(commit.max_bytes for commit in commits),
        min(commit.max_rows for commit in commits),
        plan.read.slices * SENT_BYTES_PER_TASK if plan.is_distributed else None,
    )
