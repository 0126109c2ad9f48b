"""An object store that answers 500 and 503, a catalog process that is stopped and resumed: what a real service does.

The store is a real S3 server behind a proxy; the catalog is Iceberg's own REST server.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from testbed.servers.s3 import SECRET_KEY, S3Server
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.conftest import ProxiedCatalog
from tests.chaos.harness import Running, fan_out, kill, landed, lands, records, wait_for
from tests.chaos.proxy import Answer, HttpProxy, s3_error
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]


@pytest.mark.failure("F35", "F08", "F37")
def test_object_store_that_fails_writes(
    project: Project, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUTs that are refused with 503 SlowDown, applied and answered 500, a store that answers nothing but 503 for a
    while, and one that finds the credentials expired: batches and commits fail, `floe status` says why, they are tried
    again, and every record lands once."""
    server = S3Server(tmp_path / "s3")
    proxy = HttpProxy(int(server.endpoint.rpartition(":")[2]))
    try:
        monkeypatch.setenv("CHAOS_S3_SECRET", SECRET_KEY)
        settings = {**project.catalog_settings, **server.settings()}
        project.catalog_settings = {**settings, "s3.secret-access-key": SECRET_KEY}
        secret = "${secret:env:CHAOS_S3_SECRET}"
        project.write_target(catalog={**settings, "s3.secret-access-key": secret, "s3.endpoint": proxy.uri})
        topic = broker.new_topic("store", partitions=2)
        broker.produce(topic, records(100))
        with Running(project, "run", project.pipeline("store", fan_out(topic))) as run:
            lands(project, 100, run)

            refused: list[str] = []

            def refuse_some(method: str, path: str) -> Answer | None:
                if method in ("PUT", "POST") and len(refused) < 12:
                    refused.append(path)
                    return s3_error(503, "SlowDown")
                return None

            proxy.before = refuse_some
            broker.produce(topic, records(100, start=100))
            lands(project, 200, run)
            assert len(refused) == 12, "the client tries a few times by itself, and we after it"

            applied: list[str] = []

            def lose_some(method: str, path: str) -> int | None:
                if method in ("PUT", "POST") and len(applied) < 6:
                    applied.append(path)
                    return 500
                return None

            proxy.after = lose_some
            broker.produce(topic, records(100, start=200))
            lands(project, 300, run)
            assert len(applied) == 6

            proxy.before = lambda method, path: 503
            broker.produce(topic, records(100, start=300))
            run.wait_for_output("batch failed")
            assert run.running, run.output
            proxy.before = lambda method, path: None
            lands(project, 400, run)

            proxy.before = lambda method, path: s3_error(400, "ExpiredToken")
            broker.produce(topic, records(100, start=400))
            reported = wait_for(lambda: degraded(project, "store"), "a state that tells of it")
            # An answer to HEAD has no body, so there the status is all that a store can say.
            assert "ExpiredToken" in reported["reason"] or "HTTP status 400" in reported["reason"], reported
            proxy.before = lambda method, path: None
            lands(project, 500, run)
            assert run.terminate() == 0, run.output
        assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
        assert_sum_holds(project.status(), "store", 500)
    finally:
        proxy.close()
        server.stop()


def degraded(project: Project, pipeline: str) -> dict[str, Any] | None:
    found = next(each for each in project.status()["pipelines"] if each["pipeline"] == pipeline)
    return found if found["state"] == "DEGRADED" else None


@pytest.mark.failure("F35", "F08")
def test_catalog_process_stopped_and_resumed(project: Project, broker: Broker, rest_catalog: ProxiedCatalog) -> None:
    """A catalog that is stopped with connections open answers nothing and refuses nothing: requests end by their own
    time-out, nothing is repeated blindly, and after its return the same clients go on."""
    topic = broker.new_topic("stopped", partitions=2)
    project.catalog_settings = rest_catalog.direct
    project.write_target(catalog={**rest_catalog.direct, "rest.client.socket-timeout-ms": "3000"})
    broker.produce(topic, records(150))
    server = rest_catalog.server.process
    assert server is not None
    with Running(project, "run", project.pipeline("stopped", fan_out(topic))) as run:
        lands(project, 150, run)
        kill([server.pid], signal.SIGSTOP)
        try:
            broker.produce(topic, records(150, start=150))
            run.wait_for_output("Read timed out")
        finally:
            kill([server.pid], signal.SIGCONT)
        lands(project, 300, run)
        snapshots = {name: len(project.catalog().load_table(name).snapshots()) for name in project.tables("shop")}
        assert max(snapshots.values()) <= 3, snapshots
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


@pytest.mark.failure("F35", "F08")
def test_catalog_answers_every_status_once(project: Project, broker: Broker, rest_catalog: ProxiedCatalog) -> None:
    """Each of 401, 403, 409, 419, 500, 502, 503 and 504, once before and once after the commit was applied, costs a
    retry and nothing else."""
    statuses = (401, 403, 409, 419, 500, 502, 503, 504)
    topic = broker.new_topic("statuses", partitions=2)
    project.catalog_settings = rest_catalog.direct
    project.write_target(catalog=rest_catalog.proxied)
    broker.produce(topic, records(20, kinds=1))
    proxy = rest_catalog.proxy
    with Running(project, "run", project.pipeline("statuses", fan_out(topic))) as run:
        lands(project, 20, run)
        rows = 20
        for status in statuses:
            for door in ("before", "after"):
                reported: list[str] = []

                def once(method: str, path: str, status: int = status, reported: list[str] = reported) -> int | None:
                    if method == "POST" and "/tables/" in path and not reported:
                        reported.append(path)
                        return status
                    return None

                setattr(proxy, door, once)
                broker.produce(topic, records(20, start=rows, kinds=1))
                rows += 20
                wait_for(lambda wanted=rows: landed(project) == wanted, f"row {rows} in spite of {status} {door}")
                assert reported, f"no commit met {status} {door}"
                setattr(proxy, door, lambda method, path: None)
        (table,) = project.tables("shop")
        batches = run.output.count("announced in")
        assert len(project.catalog().load_table(table).snapshots()) == batches >= 1 + 2 * len(statuses)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
