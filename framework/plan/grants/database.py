"""What the database of an SQL catalog must allow who commits, as statements for PostgreSQL.

In: the catalog's address and the name of a role. Out: statements for an administrator, each with its reason. Pure. A test on a
server of PostgreSQL proves them sufficient for a run, and each necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

TABLES, NAMESPACES = "iceberg_tables", "iceberg_namespace_properties"


@dataclass(frozen=True)
class DatabaseGrant:
    statement: str
    why: str


def is_postgres(uri: str) -> bool:
    return urlsplit(uri).scheme.partition("+")[0] in ("postgresql", "postgres")


def database_grants(uri: str, role: str) -> tuple[DatabaseGrant, ...]:
    """For a database in which the catalog's two tables are, as whoever made them at the first run left them."""
    who, database = _quoted(role), _quoted(unquote(urlsplit(uri).path.strip("/")) or "postgres")
    return (
        DatabaseGrant(f"GRANT CONNECT ON DATABASE {database} TO {who}", "open the catalog"),
        DatabaseGrant(f"GRANT USAGE ON SCHEMA public TO {who}", "find the catalog's tables"),
        DatabaseGrant(f"GRANT SELECT ON {TABLES} TO {who}", "load tables"),
        DatabaseGrant(f"GRANT INSERT ON {TABLES} TO {who}", "make tables"),
        DatabaseGrant(f"GRANT UPDATE ON {TABLES} TO {who}", "commit to tables"),
        DatabaseGrant(f"GRANT SELECT ON {NAMESPACES} TO {who}", "find namespaces"),
        DatabaseGrant(f"GRANT INSERT ON {NAMESPACES} TO {who}", "make namespaces"),
    )


def looking_grants(uri: str, role: str) -> tuple[DatabaseGrant, ...]:
    """In place of these: what whoever only looks needs."""
    granted = database_grants(uri, role)
    return tuple(each for each in granted if not each.statement.startswith(("GRANT INSERT", "GRANT UPDATE")))


def scratch_grants(role: str) -> tuple[DatabaseGrant, ...]:
    """What `floe doctor` and `floe readiness` need besides."""
    why = "floe doctor and readiness drop what they have tried"
    return tuple(DatabaseGrant(f"GRANT DELETE ON {name} TO {_quoted(role)}", why) for name in (TABLES, NAMESPACES))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
