"""Everything that a run of some pipelines must be allowed: by its brokers, its catalogs and their stores.

In: pipelines with their target, and the names under which they come. Out: one value, which text and JSON are made of. Pure:
settings that are secrets stay references, and what depends on one is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.config.rules.permitted import is_location
from framework.config.spec import LoadedPipeline, SettingValue
from framework.plan.compile import compile_plan
from framework.plan.grants import database
from framework.plan.grants.database import DatabaseGrant, database_grants, is_postgres, scratch_grants
from framework.plan.grants.kafka import Grant, control_topic_grants, grants_for, looking_grants, replay_grants
from framework.plan.grants.rest import ServerPrivileges, server_privileges
from framework.plan.grants.store import GlueUser, StoreUser, glue_policy, is_s3, store_policy
from framework.plan.model import Plan

_DELEGATION = "header.X-Iceberg-Access-Delegation"  # PyIceberg asks for keys unless this says otherwise


@dataclass(frozen=True)
class KafkaGrants:
    """Of one connection: what each run needs, what the first one needs besides, what replays need besides; and what somebody
    needs who only looks."""

    connection: str
    bootstrap_servers: str
    run: tuple[Grant, ...]
    first_run: tuple[Grant, ...]
    replays: tuple[Grant, ...]
    looking: tuple[Grant, ...]


@dataclass(frozen=True)
class CatalogGrants:
    """Of one catalog: policies of AWS by who needs them, statements for its database, those in their place for whoever only
    looks, privileges of a REST catalog's server in
    the words of servers that have some, and what floe does not know."""

    catalog: str
    kind: str
    policies: tuple[tuple[str, dict[str, Any]], ...]
    statements: tuple[DatabaseGrant, ...]
    looking: tuple[DatabaseGrant, ...]
    unknown: tuple[str, ...]
    privileges: tuple[ServerPrivileges, ...] = ()


@dataclass(frozen=True)
class RunGrants:
    kafka: tuple[KafkaGrants, ...]
    catalogs: tuple[CatalogGrants, ...]


def run_grants(pipelines: Sequence[LoadedPipeline], role: str) -> RunGrants:
    """What one principal needs to run these pipelines with their coordinator; `role`: its name in a catalog's database."""
    plans = [(loaded, compile_plan(loaded)) for loaded in pipelines]
    connections = dict.fromkeys(loaded.spec.source.kafka.connection for loaded in pipelines)
    catalogs = {name: settings for loaded in pipelines for name, settings in loaded.target.catalogs.items()}
    return RunGrants(
        tuple(
            _kafka(name, [pair for pair in plans if pair[0].spec.source.kafka.connection == name])
            for name in connections
        ),
        tuple(_catalog(name, settings, plans, role) for name, settings in catalogs.items()),
    )


def _kafka(connection: str, plans: Sequence[tuple[LoadedPipeline, Plan]]) -> KafkaGrants:
    settings = plans[0][0].target.kafka[connection]
    servers = settings.get("bootstrap.servers", "")
    of = [plan for _, plan in plans]
    return KafkaGrants(
        connection,
        servers if isinstance(servers, str) else "BROKERS",
        grants_for(of),
        control_topic_grants(of),
        replay_grants(of),
        looking_grants(of),
    )


def _catalog(
    name: str, settings: dict[str, SettingValue], plans: Sequence[tuple[LoadedPipeline, Plan]], role: str
) -> CatalogGrants:
    kind, uri, warehouse = (_text(settings.get(key)) for key in ("type", "uri", "warehouse"))
    allowed = {place for loaded, _ in plans for place in loaded.target.allow_locations}
    places = [each for each in (warehouse, *sorted(allowed)) if each and is_location(each)]
    policies = list(_policies([each for each in places if is_s3(each)], [plan for _, plan in plans]))
    if kind == "glue":
        policies += [(user.value, glue_policy(user)) for user in GlueUser]
    statements: tuple[DatabaseGrant, ...] = ()
    looking: tuple[DatabaseGrant, ...] = ()
    if kind == "sql" and uri is not None and is_postgres(uri):
        statements = (*database_grants(uri, role), *scratch_grants(role))
        looking = database.looking_grants(uri, role)
    lends = "vended-credentials" in (_text(settings.get(_DELEGATION)) or "vended-credentials")
    privileges = server_privileges(lends) if kind == "rest" else ()
    unknown = tuple(_unknown(kind, uri, warehouse, places))
    return CatalogGrants(name, kind or "", tuple(policies), statements, looking, unknown, privileges)


def _policies(places: Sequence[str], plans: Sequence[Plan]) -> Iterable[tuple[str, dict[str, Any]]]:
    if not places:
        return
    if not all(plan.is_upserted for plan in plans):
        yield StoreUser.TASKS.value, store_policy(places, StoreUser.TASKS)
    yield StoreUser.OTHERS.value, store_policy(places, StoreUser.OTHERS)
    yield StoreUser.LOOKS.value, store_policy(places, StoreUser.LOOKS)


def _unknown(kind: str | None, uri: str | None, warehouse: str | None, places: Sequence[str]) -> Iterable[str]:
    if kind == "sql" and uri is None:
        yield "the grants of the database, since its address is a secret"
    if kind == "rest":
        yield (
            "the grants of a REST catalog of another maker than those above; a run lists and creates namespaces, and loads, "
            "creates, alters and commits to tables"
        )
    if warehouse is None or not is_location(warehouse):
        yield "where tables lie, since the catalog decides that if `warehouse` is no location"
    for place in places:
        if not is_s3(place) and not place.startswith(("file:", "/")):
            yield f"a policy for {place}, which is not S3; a run reads, writes, lists and removes objects there"


def _text(value: SettingValue | None) -> str | None:
    return value if isinstance(value, str) else None
