"""A broker's answer that never comes, or comes to a process that stood still meanwhile, is an error of floe's, whatever was
asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import framework
from framework.adapters.kafka import admin as admin_module
from framework.adapters.kafka.admin import KafkaAdmin
from framework.errors import FloeError, SetupError
from framework.observe.status.read import read_status


class Silent:
    """A client whose futures are never done."""

    def __init__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name == "poll":
            return lambda *_: 0

        def ask(asked: Any, **_: object) -> dict[Any, Future[Any]]:
            keys = getattr(asked, "topic_names", asked)
            return {getattr(key, "group_id", getattr(key, "topic", key)): Future() for key in keys}

        return ask


ASKED: list[Callable[[KafkaAdmin], object]] = [
    lambda admin: admin.topics(["orders"]),
    lambda admin: admin.replicas("orders"),
    lambda admin: admin.group_members("group"),
    lambda admin: admin.end_offsets([("orders", 0)]),
]


@pytest.mark.parametrize("ask", ASKED, ids=["topics", "replicas", "members", "log ends"])
def test_no_answer_is_floes_own_error(ask: Callable[[KafkaAdmin], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of the broker, silence ends in FLOE-E101 with its remedy, and not in a trace."""
    monkeypatch.setattr(admin_module, "AdminClient", Silent)
    monkeypatch.setattr(admin_module, "build", lambda made, *_: made())
    monkeypatch.setattr(KafkaAdmin, "_await_coordinator", lambda *_: None)
    admin = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=-1.9)
    with pytest.raises(FloeError) as raised:
        ask(admin)
    assert raised.value.code == "FLOE-E101"


@pytest.mark.parametrize("ask", ASKED, ids=["topics", "replicas", "members", "log ends"])
def test_after_silence_a_new_client_is_asked(
    ask: Callable[[KafkaAdmin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that got no answer may get none when the broker is back: it is asked nothing more."""
    made: list[Silent] = []

    def make(_: object, *__: object) -> Silent:
        made.append(Silent())
        return made[-1]

    monkeypatch.setattr(admin_module, "build", make)
    monkeypatch.setattr(KafkaAdmin, "_await_coordinator", lambda *_: None)
    admin = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=-1.9)
    for count in (1, 2, 3):
        assert admin.raw is made[-1]
        assert len(made) == count
        with pytest.raises(FloeError):
            ask(admin)


def test_nobody_else_waits_for_the_client() -> None:
    """`KafkaAdmin.answer` alone waits for a future of the client; `floe local` fills a topic of its own broker, and
    `observe/status` waits for threads of floe's own."""
    root = Path(__file__).parents[3] / "framework"
    found = {
        str(path.relative_to(root)): text.count(".result(")
        for path in root.rglob("*.py")
        if ".result(" in (text := path.read_text(encoding="utf-8")) and re.search("confluent_kafka|KafkaAdmin", text)
    }
    assert found == {"adapters/kafka/admin.py": 1, "local/fill_topic.py": 1, "observe/status/read.py": 1}


def test_nobody_asks_the_admin_client_for_a_groups_offsets() -> None:
    """The admin request ends the whole process when the group's coordinator moves or dies under it
    (confluentinc/librdkafka#5040): offsets of a group are read through `KafkaAdmin.group_offsets` alone."""
    sources = Path(framework.__file__).parent
    found = [
        path for path in sources.rglob("*.py") if "list_consumer_group_offsets" in path.read_text(encoding="utf-8")
    ]
    assert found == []


# Who ends with the process where a broker dies under the question: verbs, which are run again, and whoever only watches.
ASKS_FOR_MEMBERS = {
    r"describe_consumer_groups\(": {"adapters/kafka/admin.py", "ops/doctor/kafka.py"},
    r"\.group_members\b": {
        "observe/live/reader.py", "observe/liveness.py", "observe/status/read.py", "ops/doctor/kafka.py",
    },
    r"(?<!def )live_members\(": {
        "deploy/removed_runs.py", "observe/live/reader.py", "observe/liveness.py", "observe/status/read.py",
        "recovery/requests.py",
    },
    r"OverviewReader\(": {"cli/watch/ops.py", "cli/watch/top.py", "runtime/monitoring/page_process.py"},
}  # fmt: skip


def test_no_run_asks_who_is_in_a_group() -> None:
    """The request aborts its process where the broker dies under it, as the one for offsets does: verbs and watchers ask
    it, and of a run only the page's own process (decision 0103). Who is added here is none of a run's."""
    root = Path(framework.__file__).parent
    texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    for pattern, allowed in ASKS_FOR_MEMBERS.items():
        assert {path for path, text in texts.items() if re.search(pattern, text)} == allowed, pattern


def test_status_waits_once_where_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is asked beside the first question, whose time-out would be waited for, too."""
    asked: list[str] = []

    def silent(admin: KafkaAdmin, *_: object) -> None:
        asked.append("check")
        raise SetupError("no answer", code="FLOE-E101", place="", remedy="")

    monkeypatch.setattr(KafkaAdmin, "check", silent)
    monkeypatch.setattr(KafkaAdmin, "group_members", lambda *_: asked.append("members"))
    monkeypatch.setattr(KafkaAdmin, "topics", lambda *_: asked.append("topics"))
    with pytest.raises(SetupError):
        read_status("prod", "floe", {"bootstrap.servers": "127.0.0.1:1"}, "control-iceberg")
    assert asked == ["check"]
