"""What `floe plan --grants` says of stores and databases: enough for a run on a server that enforces it, not with one
less."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.files import list_files
from framework.adapters.iceberg.row_scan import open_scan
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import Committed
from framework.config.spec import TablePolicy
from framework.errors import FloeError
from framework.ops.doctor.scratch import ScratchPrefix, scratch_table
from framework.plan.grants.database import DatabaseGrant, database_grants, looking_grants, scratch_grants
from framework.plan.grants.rest import server_privileges
from framework.plan.grants.store import GlueUser, StoreUser, glue_policy, store_policy
from framework.runtime.tables.registry import TableRegistry
from framework.table.model import TableNeed, TableTarget
from framework.table.schema.arrow import parse_schema
from testbed.record_samples import plan
from testbed.servers.postgres import PASSWORD, Postgres
from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.s3 import REGION, SECRET_KEY, S3Server, client_packages
from tests.chaos.proxy import HttpProxy
from tests.iceberg.conftest import POLICY, SCHEMA, Lake
from tests.iceberg.test_compaction import compact

pytestmark = [pytest.mark.iceberg]
# Asked for only where a write breaks off, so that no part of it is kept and paid for.
ONLY_AFTER_FAILURES = {"s3:AbortMultipartUpload"}


def without(policy: Mapping[str, Any], action: str) -> dict[str, Any]:
    """The policy, and nothing of it allows the action."""
    left = copy.deepcopy(dict(policy))
    for statement in left["Statement"]:
        statement["Action"] = [each for each in statement["Action"] if each != action]
    left["Statement"] = [statement for statement in left["Statement"] if statement["Action"]]
    return left


def actions(policy: Mapping[str, Any]) -> list[str]:
    return [action for statement in policy["Statement"] for action in statement["Action"]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Server]:
    server = S3Server(tmp_path / "s3")
    yield server
    server.stop()


@pytest.fixture
def sql(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}


def write_as_a_task(target: TableTarget, settings: Mapping[str, str]) -> tuple[DataFile, ...]:
    """What a task does with a store: it writes files."""
    io = IcebergTables(dict(settings)).io_properties()
    writer = TableWriter(io, "p", f"run{uuid.uuid4().hex[:6]}", 1, 1 << 28, 1 << 28)
    writer.add(target, pa.table({"id": pa.array(range(100), pa.int64()), "name": pa.nulls(100, pa.string())}))
    return tuple(writer.finish()[target.name])


def work(lake: Lake, name: str, files: Sequence[tuple[DataFile, ...]]) -> None:
    """What drivers and coordinators do with a store: commit, compact, expire, look for orphans."""
    for number, each in enumerate(files, 1):
        answer = lake.tables.commit(lake.effect(name, each, number))
        assert isinstance(answer, Committed), answer
    compact(lake, name)
    care = TableCare(lake.tables)
    gone = [file.path for each in files for file in each]
    assert care.remove(name, tuple(gone[:1])) == 1
    table = lake.plain(name)
    assert list_files(table.io, table.location())


def look(lake: Lake, name: str) -> None:
    """What `floe plan` and `floe compare` do with a catalog and a store: they list, load and read."""
    assert name in lake.tables.list_tables()
    assert lake.tables.load_view(name, "main", "id") is not None
    assert lake.tables.load_target(name, POLICY) is not None
    scan = open_scan(lake.tables, name, "", None, "it")
    assert sum(batch.num_rows for file in scan.files(list(scan.columns)) for batch in file) == 1
    assert lake.tables.missing_files(name, [f"{lake.plain(name).location()}/data/none.parquet"])


def test_a_policy_of_the_store_is_enough_and_no_action_too_many(store: S3Server, sql: dict[str, str]) -> None:
    """For tasks, and for drivers and coordinators, each as a user of a store that asks its policies: with the policy all is done,
    and without any one action something is refused."""
    places = [store.settings()["warehouse"]]
    policies = {user.name: store_policy(places, user) for user in StoreUser}
    fewer = {
        f"{name}.{action.partition(':')[2]}": without(policy, action)
        for name, policy in policies.items()
        for action in actions(policy)
    }
    admin = Lake(sql | store.settings() | {"s3.secret-access-key": SECRET_KEY})
    filled = admin.create("shop.filled")
    assert isinstance(admin.tables.commit(admin.effect(filled, admin.files(filled, [{"id": 1}]), 1)), Committed)
    names = {user: admin.create(f"shop.t{number}") for number, user in enumerate([*policies, *fewer])}
    users = store.users(policies | fewer)
    assert set(users) >= {"LOOKS", "LOOKS.GetObject", "LOOKS.ListBucket"}
    targets = {user: admin.tables.load_target(name, POLICY) for user, name in names.items()}
    store.enforce()

    def files(user: str, writer: str) -> tuple[DataFile, ...]:
        target = targets[user]
        assert target is not None
        return write_as_a_task(target, sql | users[writer])

    def do(user: str) -> None:
        if user.startswith("TASKS"):
            files(user, user)
        elif user.startswith("LOOKS"):
            look(Lake(sql | users[user]), filled)
        else:
            work(Lake(sql | users[user]), names[user], [files(user, "TASKS") for _ in range(4)])

    for user in policies:
        do(user)
    for user in fewer:
        if f"s3:{user.partition('.')[2]}" not in ONLY_AFTER_FAILURES:
            with pytest.raises(
                (OSError, FloeError, AssertionError)
            ):  # AssertionError: a commit that is answered otherwise
                do(user)


def try_scratch(lake: Lake) -> None:
    """As doctor and readiness do: what was made is gone again."""
    opened, _ = IcebergCatalog(lake.settings).open()
    before = opened.list_namespaces()
    with scratch_table(opened, SCHEMA, ScratchPrefix.READINESS):
        pass
    assert opened.list_namespaces() == before


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


def test_the_statements_for_a_database_are_enough_and_none_too_many(postgres: Postgres, tmp_path: Path) -> None:
    """A role of PostgreSQL with the statements does all that a run does, and without any one of them it is refused."""
    settings = {"type": "sql", "uri": postgres.uri, "warehouse": f"file://{tmp_path}"}
    admin = Lake(settings)
    filled = admin.create("shop.first")
    assert isinstance(admin.tables.commit(admin.effect(filled, admin.files(filled, [{"id": 1}]), 1)), Committed)
    engine = create_engine(postgres.uri, isolation_level="AUTOCOMMIT")
    names = iter(f"role {number}" for number in range(100))

    def allowed(statements: Callable[[str], Sequence[DatabaseGrant]], but: int | None = None) -> Lake:
        role = next(names)
        with engine.connect() as connection:
            connection.execute(text(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{PASSWORD}'"))
            for number, grant in enumerate(statements(role)):
                if number != but:
                    connection.execute(text(grant.statement))
        return Lake(settings | {"uri": postgres.uri.replace("//floe:", f"//{quote(role)}:")})

    def run(statements: Callable[[str], Sequence[DatabaseGrant]], but: int | None = None) -> None:
        lake = allowed(statements, but)
        name = lake.create(f"n{uuid.uuid4().hex[:6]}.t")
        answer = lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 1}]), 1))
        assert isinstance(answer, Committed), answer

    def scratch(statements: Callable[[str], Sequence[DatabaseGrant]], but: int | None = None) -> None:
        try_scratch(allowed(statements, but))

    with engine.connect() as connection:
        connection.execute(text("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC"))
        connection.execute(text("REVOKE ALL ON SCHEMA public FROM PUBLIC"))

    def needed(role: str) -> Sequence[DatabaseGrant]:
        return database_grants(postgres.uri, role)

    def both(role: str) -> Sequence[DatabaseGrant]:
        return (*scratch_grants(role), *needed(role))

    def fewer(role: str) -> Sequence[DatabaseGrant]:
        return looking_grants(postgres.uri, role)

    def looks(statements: Callable[[str], Sequence[DatabaseGrant]], but: int | None = None) -> None:
        look(allowed(statements, but), filled)

    for do, statements, count in (
        (looks, fewer, len(fewer("x"))),
        (run, needed, len(needed("x"))),
        (scratch, both, len(scratch_grants("x"))),
    ):
        do(statements)
        for number in range(count):
            with pytest.raises((FloeError, AssertionError, SQLAlchemyError)):
                do(statements, number)


def test_a_policy_for_glue_is_enough_and_no_action_too_many(store: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits to tables of Glue, and the scratch tables of doctor and readiness."""
    monkeypatch.syspath_prepend(str(client_packages()))
    files = store_policy([store.settings()["warehouse"]], StoreUser.OTHERS)["Statement"]
    parts = {"commits": glue_policy(GlueUser.COMMITS), "scratch": glue_policy(GlueUser.TRIES)}
    looking = {"Version": "2012-10-17", "Statement": [*files, *glue_policy(GlueUser.LOOKS)["Statement"]]}
    looking["Statement"] = [
        each | {"Resource": "*"} if each["Sid"] == "FloeCatalog" else each for each in looking["Statement"]
    ]
    # This server knows which actions of Glue are allowed, and not on which resources.
    whole = [statement | {"Resource": "*"} for part in parts.values() for statement in part["Statement"]]
    policies = {"whole": {"Version": "2012-10-17", "Statement": [*files, *whole]}}
    needed = {"commits": actions(parts["commits"]), "scratch": actions(parts["scratch"])}
    for action in (each for part in needed.values() for each in part):
        policies[action.partition(":")[2]] = without(policies["whole"], action)
    looks = {"looking": looking}
    looks |= {f"looking.{each.partition(':')[2]}": without(looking, each) for each in _glue_actions(looking)}
    users = store.users(policies | looks)
    store.enforce()

    def lake(user: str) -> Lake:
        keys = {
            name.replace("s3.", "glue."): users[user][name] for name in ("s3.access-key-id", "s3.secret-access-key")
        }
        own = {"type": "glue", "glue.endpoint": store.endpoint, "glue.region": REGION} | keys
        return OnGlue(own | users[user])

    def do(user: str) -> None:
        limited = lake(user)
        name = limited.create(f"n{uuid.uuid4().hex[:6]}.t")
        answer = limited.tables.commit(limited.effect(name, limited.files(name, [{"id": 1}]), 1))
        assert isinstance(answer, Committed), answer
        assert limited.tables.list_tables()
        try_scratch(limited)

    do("whole")
    filled = lake("whole").create("shop.filled")
    whole_lake = lake("whole")
    assert isinstance(
        whole_lake.tables.commit(whole_lake.effect(filled, whole_lake.files(filled, [{"id": 1}]), 1)), Committed
    )
    look(lake("looking"), filled)
    for user in looks.keys() - {"looking"}:
        with pytest.raises((FloeError, AssertionError)):
            look(lake(user), filled)
    for user in policies:
        if user != "whole":
            with pytest.raises(Exception):  # noqa: B017, PT011  # boto's own errors among them
                do(user)


def _glue_actions(policy: Mapping[str, Any]) -> list[str]:
    return [action for action in actions(policy) if action.startswith("glue:")]


class OnGlue(Lake):
    @property
    def catalog(self) -> Catalog:
        return load_catalog(self.name, **self.settings)


# What Polaris asks for which request of the REST protocol, by its documentation and its list of operations. Keys that a server
# lends are another header's matter.
POLARIS = (
    (r"GET /v1/config", None),
    (r"GET /v1/namespaces", "NAMESPACE_LIST"),
    (r"POST /v1/namespaces", "NAMESPACE_CREATE"),
    (r"HEAD /v1/namespaces/[^/]+", "NAMESPACE_LIST"),
    (r"GET /v1/namespaces/[^/]+", "NAMESPACE_READ_PROPERTIES"),
    (r"DELETE /v1/namespaces/[^/]+", "NAMESPACE_DROP"),
    (r"GET /v1/namespaces/[^/]+/tables", "TABLE_LIST"),
    (r"POST /v1/namespaces/[^/]+/tables", "TABLE_CREATE"),
    (r"HEAD /v1/namespaces/[^/]+/tables/[^/]+", "TABLE_LIST"),
    (r"GET /v1/namespaces/[^/]+/tables/[^/]+", "TABLE_READ_PROPERTIES"),
    (r"POST /v1/namespaces/[^/]+/tables/[^/]+", "TABLE_WRITE_PROPERTIES"),
    (r"DELETE /v1/namespaces/[^/]+/tables/[^/]+", "TABLE_DROP"),
)


def test_the_privileges_for_a_rest_catalog_are_enough_and_none_too_many(tmp_path: Path) -> None:
    """In front of Iceberg's own server stands a proxy that asks of each request what Polaris would: with the privileges named
    tables are made, filled, changed and listed, and a scratch table is tried; each of them is asked for, and no other."""
    server = RestCatalog(tmp_path).start()
    proxy = HttpProxy(server.port)
    allowed: set[str] = set()
    asked: set[str] = set()

    def judge(method: str, path: str) -> int | None:
        request = f"{method} {path.partition('?')[0]}"
        [needed] = [privilege for pattern, privilege in POLARIS if re.fullmatch(pattern, request)]
        if needed is None or needed in allowed:
            asked.update({needed} if needed else ())
            return None
        return 403

    proxy.before = judge
    of = {
        user: set(each.privileges)
        for each in server_privileges(lends_keys=False)
        if each.server == "Polaris"
        for user in [each.user.partition(" ")[0]]
    }
    try:
        allowed |= of["driver"]
        lake = Lake(server.settings(proxy.uri))
        name = lake.create("shop.orders")
        registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda text: None)
        registry.satisfy([TableNeed(name, (("x", "string"),))])
        target = lake.tables.load_target(name, POLICY)
        assert target is not None
        work_of_commits(lake, name)
        assert name in lake.tables.list_tables()
        assert asked == of["driver"]
        allowed |= of["floe"]
        asked.clear()
        try_scratch(lake)
        assert asked >= of["floe"]
        allowed.clear()
        allowed |= of["whoever"]
        asked.clear()
        looking = Lake(server.settings(proxy.uri))
        assert name in looking.tables.list_tables()
        assert looking.tables.load_view(name, "main", "id") is not None
        assert asked == of["whoever"]
        with pytest.raises(FloeError):
            looking.create("shop.more")
        for privilege in of["whoever"]:
            allowed.discard(privilege)
            # Who may not see a table is told so, and not that there is none: a run would make it.
            with pytest.raises(FloeError) as refused:
                look_by_name(Lake(server.settings(proxy.uri)), name)
            assert "403" in refused.value.message or "Forbidden" in refused.value.message, refused.value
            allowed.add(privilege)
    finally:
        proxy.close()
        server.stop()


def look_by_name(lake: Lake, name: str) -> None:
    assert name in lake.tables.list_tables()
    assert lake.tables.load_view(name, "main", "id") is not None
    assert lake.tables.load_target(name, POLICY) is not None


def work_of_commits(lake: Lake, name: str) -> None:
    """What drivers and coordinators ask of a catalog: commits, by an append and by a compaction."""
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    for number in range(1, 4):
        writer = TableWriter(lake.tables.io_properties(), "p", f"run{number}", 1, 1 << 28, 1 << 28)
        columns = {field.name: pa.nulls(10, pa.string()) for field in parse_schema(target.schema_json).fields}
        writer.add(target, pa.table({**columns, "id": pa.array(range(10), pa.int64())}))
        answer = lake.tables.commit(lake.effect(name, tuple(writer.finish()[name]), number))
        assert isinstance(answer, Committed), answer
    compact(lake, name)
