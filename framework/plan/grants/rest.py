"""What servers of REST catalogs must allow, in the words of those that have words of their own.

In: whether tables are made and dropped, too. Out: privileges by server. Pure. A REST catalog does not say which server it is, so
all are named; none of them was run, and the words are those of their documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.plan.grants.store import LOOKS


@dataclass(frozen=True)
class ServerPrivileges:
    """`server` is whose words these are, `user` which process needs them."""

    server: str
    user: str
    privileges: tuple[str, ...]


_COMMITS = "driver and coordinator"
_TRIES = "floe doctor, floe readiness and floe drill, in addition"


def server_privileges(lends_keys: bool) -> tuple[ServerPrivileges, ...]:
    """Each process asks the server for metadata; files are the store's matter, unless the server lends keys for it. Tasks ask it
    nothing.

    Args:
        lends_keys: the catalog vends credentials of the store.
    """
    writes = ("TABLE_READ_DATA", "TABLE_WRITE_DATA") if lends_keys else ()
    reads = ("TABLE_READ_DATA",) if lends_keys else ()
    outside = ("EXTERNAL USE SCHEMA",)
    return (
        ServerPrivileges(
            "Polaris",
            _COMMITS,
            (
                "NAMESPACE_LIST",
                "NAMESPACE_CREATE",
                "TABLE_LIST",
                "TABLE_CREATE",
                "TABLE_READ_PROPERTIES",
                "TABLE_WRITE_PROPERTIES",
                *writes,
            ),
        ),
        ServerPrivileges("Polaris", _TRIES, ("TABLE_DROP", "NAMESPACE_DROP")),
        ServerPrivileges("Polaris", LOOKS, ("NAMESPACE_LIST", "TABLE_LIST", "TABLE_READ_PROPERTIES", *reads)),
        ServerPrivileges(
            "Unity Catalog",
            _COMMITS,
            ("USE CATALOG", "USE SCHEMA", "CREATE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY", *outside),
        ),
        ServerPrivileges("Unity Catalog", _TRIES, ("MANAGE",)),
        ServerPrivileges("Unity Catalog", LOOKS, ("USE CATALOG", "USE SCHEMA", "SELECT", *outside)),
    )
