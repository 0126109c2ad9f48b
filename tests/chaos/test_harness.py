"""The harness itself: a checker that finds nothing, or a proxy that loses nothing, would make every fault test pass."""

from __future__ import annotations

import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException, ServerError, ServiceUnavailableError

from tests.chaos.checker import check, damaged_files, produced_positions
from tests.chaos.conftest import FragileBroker, ProxiedCatalog
from tests.chaos.proxy import END_TXN, is_commit
from tests.conftest import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]


def rows(topic: str, offsets: list[int]) -> pa.Table:
    count = len(offsets)
    return pa.table(
        {
            "_kafka_topic": pa.array([topic] * count, pa.string()),
            "_kafka_partition": pa.array([0] * count, pa.int32()),
            "_kafka_offset": pa.array(offsets, pa.int64()),
        }
    )


def test_the_checker_finds_what_is_lost_twice_and_invented(broker: Broker, catalog_settings: dict[str, str]) -> None:
    """Lost, doubled and invented records, and a file that is live twice, are each found and named."""
    topic = broker.new_topic("check")
    broker.produce(topic, [{"i": i} for i in range(6)])
    catalog = load_catalog("check", **catalog_settings)
    catalog.create_namespace("shop")
    first = catalog.create_table("shop.a", rows(topic, []).schema)
    second = catalog.create_table("shop.b", rows(topic, []).schema)
    first.append(rows(topic, [0, 1, 2]))
    second.append(rows(topic, [3, 4, 5]))
    exact = check(catalog, broker.bootstrap_servers, [topic], ["shop", "absent"])
    assert exact.exact, str(exact)
    assert exact.rows == 6

    broker.produce(topic, [{"i": 6}])
    second.append(rows(topic, [2, 99]))
    path = str(first.inspect.files().column("file_path")[0])
    first.add_files([path], check_duplicate_files=False)

    verdict = check(catalog, broker.bootstrap_servers, [topic], ["shop"])
    assert verdict.lost == ((topic, 0, 6),)
    assert verdict.twice == ((topic, 0, 0), (topic, 0, 1), (topic, 0, 2))
    assert verdict.unknown == ((topic, 0, 99),)
    assert verdict.paths_twice == (path,)
    assert not verdict.exact


@pytest.mark.parametrize("harm", ["gone", "cut short", "a page of another", "fewer rows"])
def test_the_checker_finds_live_files_that_are_not_whole(catalog_settings: dict[str, str], harm: str) -> None:
    """A live file that is gone, damaged, or holds other rows than its manifest says is found and named; a whole one is
    not."""
    catalog = load_catalog("check", **catalog_settings)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.a", rows("t", []).schema)
    table.append(rows("t", list(range(50))))
    table.append(rows("t", list(range(50, 100))))
    assert damaged_files(catalog, ["shop.a"]) == []
    harmed = Path(str(table.inspect.files().column("file_path")[0]).removeprefix("file://"))
    whole = harmed.read_bytes()
    if harm == "gone":
        harmed.unlink()
    elif harm == "cut short":
        harmed.write_bytes(whole[:-20])
    elif harm == "a page of another":  # the footer, which says how many rows there are, stays whole
        harmed.write_bytes(whole[:4] + bytes(200) + whole[204:])
    else:
        pq.write_table(pq.read_table(harmed).slice(1), harmed)
    [found] = damaged_files(catalog, ["shop.a"])
    assert harmed.name in found


def test_the_proxy_delivers_and_loses_the_answer(fragile_broker: FragileBroker) -> None:
    """A commit whose answer is lost has happened: the transaction's record is in the log once."""
    proxy = fragile_broker.proxy
    topic = fragile_broker.new_topic("txn")
    producer = Producer({"bootstrap.servers": proxy.address, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"{}")
    lost_before = proxy.lost_answers
    proxy.lose_answer_to(END_TXN)
    producer.commit_transaction(20)
    assert proxy.lost_answers == lost_before + 1
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        _connect_and_read(proxy.port)
    proxy.accept()
    producer.begin_transaction()
    producer.produce(topic, b"{}")
    producer.commit_transaction(20)
    assert len(produced_positions(proxy.address, [topic])) == 2


def _connect_and_read(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
        if not probe.recv(1):
            raise ConnectionResetError("closed without an answer")


def test_the_http_proxy_applies_and_answers_504(rest_catalog: ProxiedCatalog) -> None:
    """A commit that is answered 504 after it was applied is in the table; one answered 503 before is not."""
    through = load_catalog("through", **rest_catalog.proxied)
    direct = load_catalog("direct", **rest_catalog.direct)
    through.create_namespace("shop")
    table = through.create_table("shop.a", rows("t", []).schema, properties={"commit.retry.num-retries": "0"})
    rest_catalog.proxy.after = lambda method, path: 504 if is_commit(method, path) else None
    with pytest.raises((CommitStateUnknownException, ServerError)):
        table.append(rows("t", [1]))
    assert len(direct.load_table("shop.a").snapshots()) == 1
    rest_catalog.proxy.after = lambda method, path: None
    rest_catalog.proxy.before = lambda method, path: 503 if is_commit(method, path) else None
    with pytest.raises((CommitStateUnknownException, ServerError, ServiceUnavailableError)):
        through.load_table("shop.a").append(rows("t", [1]))
    assert len(direct.load_table("shop.a").snapshots()) == 1
    assert rest_catalog.proxy.answered[504] >= 1
    assert rest_catalog.proxy.answered[503] >= 1
