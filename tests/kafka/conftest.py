"""What the Kafka tests share: settings of the run's broker, control topics of their own, and small events."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import framework.adapters
from framework.adapters.kafka import reader as kafka_reader
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Accounting, ControlEvent, DataComplete, Heartbeat, SourceRange
from tests.conftest import Broker

ROOT = Path(__file__).parents[2]
MEMBER = Path(__file__).with_name("leadership_member.py")


@pytest.fixture
def settings(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def admin(settings: dict[str, str]) -> KafkaAdmin:
    return KafkaAdmin(settings)


@pytest.fixture(scope="session")
def compiled_reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The version that the compiled reader reads through; a checkout without the extension gets one for this test
    run."""
    if found := kafka_reader.compiled():
        return found
    if shutil.which("cc") is None:
        pytest.skip("without a C compiler there is no compiled reader to test")
    folder = tmp_path_factory.mktemp("fetch")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(folder), "--build-temp", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    [library] = folder.rglob("_fetch*.so")
    spec = importlib.util.spec_from_file_location("framework.adapters.kafka._fetch", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[spec.name] = module
    framework.adapters.kafka._fetch = module
    kafka_reader.compiled.cache_clear()
    version = kafka_reader.compiled()
    assert version is not None, "the extension was built and cannot be used"
    return version


@pytest.fixture
def control_topic(admin: KafkaAdmin) -> str:
    """A control topic of the test's own, made by the code under test."""
    return ensure_control_topic(admin, unique("control")).name


@pytest.fixture
def new_producer(settings: dict[str, str], control_topic: str) -> Iterator[Callable[..., PipelineProducer]]:
    """Makes started producers of a pipeline; all are closed at the end."""
    made: list[PipelineProducer] = []

    def make(pipeline: str, **options: float) -> PipelineProducer:
        producer = PipelineProducer(settings, pipeline, pipeline, control_topic, **options)
        producer.start()
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def new_member(settings: dict[str, str]) -> Iterator[Callable[[str, str], subprocess.Popen[str]]]:
    """Starts coordinators as processes of their own, which print what befalls their leadership; none outlives the test."""
    made: list[subprocess.Popen[str]] = []

    def make(group: str, topic: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(MEMBER), settings["bootstrap.servers"], group, topic]
        member = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        made.append(member)
        return member

    yield make
    for member in made:
        member.kill()
        member.wait()
        if member.stdout:
            member.stdout.close()


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def heartbeat(pipeline: str, batch: int) -> Heartbeat:
    return Heartbeat(pipeline, "run", batch, (), Accounting())


def complete(pipeline: str, batch: int, ranges: tuple[SourceRange, ...] = ()) -> DataComplete:
    return DataComplete(pipeline, "run", batch, ranges, Accounting(), Accounting())


def batches(events: list[tuple[int, ControlEvent | None]]) -> list[tuple[str, int]]:
    """(pipeline, batch) of each heartbeat and completion, in log order."""
    return [(e.pipeline, e.batch) for _, e in events if isinstance(e, (Heartbeat, DataComplete))]


def wait_for(check: Callable[[], object], timeout_s: float = 60.0) -> object:
    """The first true value that `check` gives; fails the test after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not come about within {timeout_s:.0f} s")
