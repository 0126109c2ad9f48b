"""Settings of a control topic that lose announcements are told from those that a person should mend."""

from __future__ import annotations

import pytest

from framework.adapters.kafka.admin import known_id
from framework.errors import SetupError
from framework.plan.control_topic import MIN_RETENTION_BYTES, SETTINGS, what_is_weak, what_is_wrong

DURABLE = {**SETTINGS, "min.insync.replicas": "2"}


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_what_floe_makes_is_right(replicas: int) -> None:
    """A topic with the settings that floe makes it with is accepted on any cluster."""
    assert what_is_wrong(1, replicas, DURABLE) is None
    assert what_is_weak(replicas, DURABLE) is None


@pytest.mark.parametrize(
    ("setting", "value", "mend"),
    [
        ("cleanup.policy", "compact", "cleanup.policy=delete"),
        ("retention.ms", "3600000", "retention.ms="),
        ("retention.bytes", "0", "retention.bytes=-1"),
        ("retention.bytes", str(MIN_RETENTION_BYTES - 1), "retention.bytes=-1"),
        ("max.message.bytes", "999999", "max.message.bytes="),
        ("unclean.leader.election.enable", "true", "unclean.leader.election.enable=false"),
    ],
)
def test_what_loses_announcements_is_refused(setting: str, value: str, mend: str) -> None:
    """Each setting that could remove an announcement is refused, with the setting that mends it."""
    wrong = what_is_wrong(1, 3, {**DURABLE, setting: value})
    assert wrong is not None
    assert wrong.setting.startswith(mend)


def test_an_unclean_election_needs_another_replica() -> None:
    """With one replica nobody else can lead, whatever the setting says."""
    assert what_is_wrong(1, 1, {**DURABLE, "unclean.leader.election.enable": "true"}) is None


@pytest.mark.parametrize(
    ("replicas", "in_sync", "said"),
    [(1, "1", ""), (2, "1", "replication factor to 3"), (2, "2", ""), (3, "1", "min.insync.replicas=2"), (3, "2", "")],
)
def test_what_one_broker_alone_may_lose_is_said(replicas: int, in_sync: str, said: str) -> None:
    """Where one broker of several may acknowledge alone, a person is told what to raise; it stops nothing."""
    config = {**DURABLE, "min.insync.replicas": in_sync}
    weak = what_is_weak(replicas, config)
    assert what_is_wrong(1, replicas, config) is None
    assert (f"{weak.setting} {weak.otherwise}" if weak else "").count(said) > 0
    assert (weak is None) == (said == "")


def test_a_broker_without_topic_ids_is_refused() -> None:
    """Invariant 11 rests on topic ids: a broker that gives zeros is refused with a code of its own."""
    assert known_id("t", "dHJlZXMgYXJlIGdyZWVu", "b:9092") == "dHJlZXMgYXJlIGdyZWVu"
    for none in ("AAAAAAAAAAAAAAAAAAAAAA", ""):
        with pytest.raises(SetupError, match="topic t no id") as caught:
            known_id("t", none, "b:9092")
        assert (caught.value.code, caught.value.exit_code) == ("FLOE-E113", 3)
        assert "2.8" in caught.value.remedy
