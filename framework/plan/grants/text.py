"""What must be allowed, as text for a person who allows it, or as JSON of `schemas/grants.v1.schema.json`.

In: the grants of a run. Out: lines, or one document. Each command and each statement is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from framework.plan.grants.kafka import Grant
from framework.plan.grants.run import CatalogGrants, KafkaGrants, RunGrants
from framework.plan.grants.store import LOOKS

VERSION = 1


def grant_lines(found: RunGrants, principal: str) -> Iterator[str]:
    for kafka in found.kafka:
        yield f"Kafka {kafka.connection}: for each run, with its executors and its coordinator"
        yield from _commands(kafka, kafka.run, principal)
        yield "  also, if the control topic does not exist yet:"
        yield from _commands(kafka, kafka.first_run, principal)
        yield "  also, for floe replay and floe dlq replay:"
        yield from _commands(kafka, kafka.replays, principal)
        yield "  in place of all of these, for whoever only looks: floe ops by itself, floe status, floe plan in CI"
        yield from _commands(kafka, kafka.looking, principal)
    for catalog in found.catalogs:
        yield from _of_catalog(catalog)


def _commands(kafka: KafkaGrants, grants: Sequence[Grant], principal: str) -> Iterator[str]:
    for grant in grants:
        yield f"  {grant.command(kafka.bootstrap_servers, principal)}"


def _of_catalog(catalog: CatalogGrants) -> Iterator[str]:
    yield f"Catalog {catalog.catalog} ({catalog.kind})"
    for grant in catalog.statements:
        yield f"  {grant.statement};  -- {grant.why}"
    if catalog.looking:
        yield f"  in place of all of these, for {LOOKS}"
        yield from (f"  {grant.statement};  -- {grant.why}" for grant in catalog.looking)
    for user, policy in catalog.policies:
        yield f"  policy for {user}:"
        yield from (f"    {line}" for line in json.dumps(policy, indent=2).splitlines())
    for needed in catalog.privileges:
        yield f"  privileges of {needed.server} for {needed.user}: {', '.join(needed.privileges)}"
    for each in catalog.unknown:
        yield f"  not computed: {each}"


def grant_document(found: RunGrants, principal: str) -> dict[str, Any]:
    """The form of `schemas/grants.v1.schema.json`."""
    return {
        "version": VERSION,
        "command": "plan",
        "ok": True,
        "kafka": [
            {
                "connection": each.connection,
                **{
                    when: [_grant(grant, each, principal) for grant in grants]
                    for when, grants in (
                        ("run", each.run),
                        ("first_run", each.first_run),
                        ("replays", each.replays),
                        ("looking", each.looking),
                    )
                },
            }
            for each in found.kafka
        ],
        "catalogs": [
            {
                "catalog": each.catalog,
                "type": each.kind,
                "policies": [{"for": user, "policy": policy} for user, policy in each.policies],
                "statements": [{"statement": grant.statement, "why": grant.why} for grant in each.statements],
                "looking": [{"statement": grant.statement, "why": grant.why} for grant in each.looking],
                "privileges": [
                    {"server": needed.server, "for": needed.user, "privileges": list(needed.privileges)}
                    for needed in each.privileges
                ],
                "unknown": list(each.unknown),
            }
            for each in found.catalogs
        ],
    }


def _grant(grant: Grant, kafka: KafkaGrants, principal: str) -> dict[str, Any]:
    return {
        "resource": grant.resource.value,
        "name": grant.name,
        "operation": grant.operation,
        "prefixed": grant.prefixed,
        "why": grant.why,
        "command": grant.command(kafka.bootstrap_servers, principal),
    }
