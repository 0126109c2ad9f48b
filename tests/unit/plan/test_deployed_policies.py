"""Whose word holds for a table that several pipelines fill."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from framework.config.spec import CommitPolicy, TablePolicy, TablesSpec
from framework.config.values.maintenance import (
    CompactionPolicy,
    ExpirePolicy,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)
from framework.plan.deployed_policies import branch_of, maintained_tables, policy_of

NUMBERS = st.integers(1, 1 << 40)
POLICIES = st.builds(
    MaintenancePolicy,
    st.sampled_from(MaintenanceMode),
    st.builds(CompactionPolicy, st.booleans()),
    st.builds(ExpirePolicy, st.booleans(), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(OrphansPolicy, st.booleans(), NUMBERS),
    st.builds(ManifestsPolicy, st.booleans(), NUMBERS),
)


def reported(**policies: MaintenancePolicy) -> dict[str, TablesSpec]:
    return {name: TablesSpec(TablePolicy(maintenance=policy)) for name, policy in policies.items()}


@given(POLICIES, POLICIES)
def test_the_strictest_word_wins(one: MaintenancePolicy, other: MaintenancePolicy) -> None:
    """Whatever one pipeline of a table keeps, is kept, in whichever order they are named."""
    found = policy_of("shop.t", ["a", "b"], reported(a=one, b=other))
    assert found == replace(policy_of("shop.t", ["b", "a"], reported(a=one, b=other)) or one)
    assert found is not None
    for each in (one, other):
        assert found.mode is MaintenanceMode.NEVER or each.mode is not MaintenanceMode.NEVER
        assert found.mode is not MaintenanceMode.ALWAYS or each.mode is MaintenanceMode.ALWAYS
        assert not found.expire.enabled or each.expire.enabled
        assert not found.compaction.enabled or each.compaction.enabled
        assert not found.orphans.enabled or each.orphans.enabled
        assert found.expire.max_snapshot_age_ms >= each.expire.max_snapshot_age_ms
        assert found.expire.max_snapshots >= each.expire.max_snapshots
        assert found.expire.rollback_window_ms >= each.expire.rollback_window_ms
        assert found.expire.reader_lease_ms >= each.expire.reader_lease_ms
        assert found.orphans.older_than_ms >= each.orphans.older_than_ms


@given(POLICIES)
def test_where_one_plan_is_unknown_nothing_is_removed(policy: MaintenancePolicy) -> None:
    """A pipeline that has told nothing may want to keep what another lets go; a replay of a known one is known."""
    found = policy_of("shop.t", ["a", "b"], reported(a=policy))
    assert found is not None
    assert (found.expire.enabled, found.orphans.enabled) == (False, False)
    assert policy_of("shop.t", ["b"], reported(a=policy)) is None
    assert policy_of("shop.t", ["a", "a.replay.x1"], reported(a=policy)) == policy


def test_a_table_is_maintained_on_the_branch_that_all_its_pipelines_name() -> None:
    """A replay writes where its pipeline does; where pipelines differ, or nobody is known, it is `main`. A plan of a version
    that published no branch means `main`."""
    audit, main = TablesSpec(TablePolicy(commit=CommitPolicy(branch="audit"))), TablesSpec()
    assert branch_of("shop.t", ["a", "a.replay.1"], {"a": audit, "b": main}) == "audit"
    assert branch_of("shop.t", ["a", "b"], {"a": audit, "b": main}) == "main"
    assert branch_of("shop.t", ["c"], {"a": audit}) == "main"
    defaults = {"case": "sensitive"}
    for commit, branch in (({}, "main"), ({"commit": {"branch": "audit"}}, "audit")):
        found = maintained_tables({"write": {"tables": {"defaults": {**defaults, **commit}, "overrides": []}}})
        assert found is not None
        assert found.defaults.commit.branch == branch
