"""Places that tables live in: catalogs and stores that tests start, each as the settings that a target names.

In: the name of a place. Out: a `Place`, whose secrets are apart, so that a target file can name them by reference.
Servers are started on first use and shared by all tests that hold the same `Servers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from testbed.servers.hive import HiveMetastore
from testbed.servers.nessie import Nessie
from testbed.servers.postgres import Postgres
from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server, client_packages


class Server(Protocol):
    def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


@dataclass(frozen=True)
class Place:
    """A catalog's settings, its secrets apart: in a target file each of them is a reference to a variable. `lacks` is what
    others do and this one does not."""

    settings: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    packages: Path | None = None  # of the catalog's client, where PyIceberg needs more than floe brings
    lacks: frozenset[str] = frozenset()

    @property
    def resolved(self) -> dict[str, str]:
        return {**self.settings, **self.secrets}

    @property
    def by_reference(self) -> dict[str, str]:
        return {**self.settings, **{key: f"${{secret:env:{variable(key)}}}" for key in self.secrets}}

    @property
    def environment(self) -> dict[str, str]:
        found = {variable(key): value for key, value in self.secrets.items()}
        return found | ({"PYTHONPATH": str(self.packages)} if self.packages else {})


def variable(key: str) -> str:
    return "TEST_" + key.upper().replace(".", "_").replace("-", "_")


class Servers:
    """The servers that were started, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, Server] = {}

    def place(self, name: str, root: Path) -> Place:
        """`sqlite`, `rest`, `rest-s3`, `nessie-s3`, `postgres`, `s3`, `postgres-s3`, `glue` or `hive`; what is on this machine
        lies below `root`."""
        if name == "rest":
            return Place(self._one("rest", lambda: RestCatalog(self._folder / "rest").start()).settings())
        if name == "hive":
            hive = self._one("hive", lambda: HiveMetastore(self._folder / "hive"))
            return Place(hive.settings(), packages=client_packages())
        warehouse = root / "warehouse"
        warehouse.mkdir(exist_ok=True)
        store: dict[str, str] = {"warehouse": f"file://{warehouse}"}
        secrets: dict[str, str] = {}
        if name == "glue":
            s3 = self._one("s3", lambda: S3Server(self._folder / "s3"))
            own = {"glue.endpoint": s3.endpoint, "glue.region": REGION, "glue.access-key-id": ACCESS_KEY}
            secrets = {"glue.secret-access-key": SECRET_KEY, "s3.secret-access-key": SECRET_KEY}
            return Place({"type": "glue", **own, **s3.settings()}, secrets, client_packages())
        if name.endswith("s3"):
            s3 = self._one("s3", lambda: S3Server(self._folder / "s3"))
            store, secrets = s3.settings(), {"s3.secret-access-key": SECRET_KEY}
            if name == "rest-s3":
                rest = self._one("rest-s3", lambda: RestCatalog(self._folder / "rest-s3", {**store, **secrets}).start())
                return Place({**rest.settings(), **store}, secrets)
            if name == "nessie-s3":
                nessie = self._one("nessie", lambda: Nessie(self._folder / "nessie", {**store, **secrets}))
                return Place({**store, **nessie.settings()}, secrets, lacks=nessie.lacks)
        if name.startswith("postgres"):
            postgres = self._one("postgres", Postgres)
            return Place({"type": "sql", **store}, {"uri": postgres.uri, **secrets})
        return Place({"type": "sql", "uri": f"sqlite:///{root}/catalog.db", **store}, secrets)

    def requests(self, name: str) -> list[str]:
        """What an S3 store has logged of the requests that it got."""
        store = self._started[name]
        assert isinstance(store, S3Server)
        return store.log.read_text(errors="replace").splitlines()

    def stop(self) -> None:
        for server in self._started.values():
            server.stop()

    def _one(self, name: str, start: Callable[[], S]) -> S:
        if name not in self._started:
            self._started[name] = start()
        return cast(S, self._started[name])
