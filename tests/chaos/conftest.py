"""Fixtures of the fault tests: a project on the shared broker, a broker that may be hurt, a REST catalog behind a
proxy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.local import stack
from framework.local.broker import free_port
from testbed.servers.rest_catalog import RestCatalog
from tests.chaos.proxy import HttpProxy, TcpProxy
from tests.conftest import Broker
from tests.project import Project


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


@dataclass(frozen=True)
class FragileBroker(Broker):
    """A broker of these tests alone, with a second listener whose advertised address is the proxy's.

    Clients that start at `proxy.address` are told to come back through the proxy, as they are behind a load balancer.
    """

    proxy: TcpProxy


@pytest.fixture(scope="package")
def fragile_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragileBroker]:
    state_dir = tmp_path_factory.mktemp("fragile")
    port, inner, controller = free_port(), free_port(), free_port()
    proxy = TcpProxy(inner)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://{proxy.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    state = stack.up(state_dir, kafka_port=port, broker_config=config)
    try:
        yield FragileBroker(state_dir, state.bootstrap_servers, config, proxy)
    finally:
        proxy.close()
        stack.down(state_dir, wipe=True)


@dataclass(frozen=True)
class ProxiedCatalog:
    """A REST catalog; floe reaches it through `proxy`, the checker directly."""

    server: RestCatalog
    proxy: HttpProxy

    @property
    def direct(self) -> dict[str, str]:
        return self.server.settings()

    @property
    def proxied(self) -> dict[str, str]:
        return self.server.settings(self.proxy.uri)


@pytest.fixture
def rest_catalog(tmp_path: Path) -> Iterator[ProxiedCatalog]:
    server = RestCatalog(tmp_path / "rest").start()
    proxy = HttpProxy(server.port)
    try:
        yield ProxiedCatalog(server, proxy)
    finally:
        proxy.close()
        server.stop()
