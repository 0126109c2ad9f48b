"""The words of maintenance as files have them, and the policies and limits that they become."""

from __future__ import annotations

from typing import Any

import pytest

from framework.config.filled.build import build_pipeline
from framework.config.spec import TablesSpec
from framework.config.values.maintenance import (
    MIB,
    CompactionPolicy,
    ExpirePolicy,
    MaintenanceLimits,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)


def tables(**words: Any) -> TablesSpec:
    """The tables of a small file with these words."""
    document = {
        "metadata": {"name": "orders"},
        "source": {"kafka": {"connection": "main", "topics": ["orders"]}},
        "routes": {"rules": [{"table": "shop.orders"}]},
        "tables": words,
    }
    return build_pipeline(document).tables


def test_a_file_that_says_nothing_has_the_defaults() -> None:
    """Without a word, tables that floe creates are maintained, and tables of others are not."""
    policy = tables().defaults.maintenance
    assert policy == MaintenancePolicy()
    assert policy.covers(created_by_floe=True)
    assert not policy.covers(created_by_floe=False)


def test_every_word_becomes_a_value_with_its_unit() -> None:
    """Durations are milliseconds, sizes are bytes."""
    policy = tables(
        defaults={
            "maintenance": {
                "mode": "always",
                "compaction": {
                    "target_file_size": "64MiB",
                    "min_input_files": "7",
                    "delete_ratio_threshold": "0.5",
                    "sort": False,
                },
                "expire": {
                    "max_snapshot_age": "2d",
                    "max_snapshots": 50,
                    "rollback_window": "90m",
                    "reader_lease": "10m",
                },
                "orphans": {"older_than": "36h"},
                "manifests": {"enabled": False, "min_count": 9},
            }
        }
    ).defaults.maintenance
    assert policy == MaintenancePolicy(
        MaintenanceMode.ALWAYS,
        CompactionPolicy(True, 64 * MIB, 7, 0.5, False),
        ExpirePolicy(True, 172_800_000, 50, 5_400_000, 600_000),
        OrphansPolicy(True, 129_600_000),
        ManifestsPolicy(False, 9),
    )


def test_an_override_changes_the_words_that_it_has() -> None:
    """An override lies over the defaults, key by key."""
    spec = tables(
        defaults={"maintenance": {"expire": {"max_snapshots": 50, "max_snapshot_age": "2d"}}},
        overrides=[{"match": "shop.orders", "maintenance": {"mode": "never", "expire": {"max_snapshots": 5}}}],
    )
    assert spec.policy_for("shop.other").maintenance.expire.max_snapshots == 50
    orders = spec.policy_for("shop.orders").maintenance
    assert (orders.mode, orders.expire.max_snapshots, orders.expire.max_snapshot_age_ms) == (
        MaintenanceMode.NEVER,
        5,
        172_800_000,
    )
    assert not orders.covers(created_by_floe=True)


@pytest.mark.parametrize(
    ("window", "minute", "is_open"),
    [
        (None, 0, True),
        ((60, 120), 60, True),
        ((60, 120), 120, False),
        ((1320, 300), 1400, True),
        ((1320, 300), 10, True),
        ((1320, 300), 300, False),
    ],
)
def test_a_window_may_go_past_midnight(window: tuple[int, int] | None, minute: int, is_open: bool) -> None:
    """The window holds its first minute and not its last; without one it is always open."""
    assert MaintenanceLimits(window=window).is_open(minute) is is_open
