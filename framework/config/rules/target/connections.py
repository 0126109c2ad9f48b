"""Rules about a target's connections: secrets by reference only, settings that floe owns, settings of other clients.

In: a target's tree as written and as resolved. Out: a diagnostic per violation. No value is ever part of a message
here, since it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from framework.config.filled.reference import secret_of
from framework.config.names.table_names import catalog_of
from framework.config.text import SourceText, masked
from framework.config.tree import Mapping, Node, Path, Scalar, dotted, find, leaves
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.secrets import is_secret_name, is_secret_setting, masked_line
from framework.diagnose.suggest import did_you_mean

_BROKERS = "bootstrap.servers"
_OF_CATALOGS = ("type", "uri", "warehouse")
_REFERENCE = re.compile(r"\$\{[^}]*\}\Z")
# What floe sets itself, and to what.
OWN_KAFKA = {
    "acks": "all",
    "allow.auto.create.topics": "off",
    "auto.offset.reset": "an error, so that no record is skipped silently",
    "delivery.timeout.ms": "within the transaction's",
    "enable.auto.commit": "off: offsets are committed in transactions",
    "enable.auto.offset.store": "off",
    "enable.idempotence": "on",
    "enable.partition.eof": "on",
    "group.id": "named after the pipeline",
    "group.instance.id": "not used",
    "group.protocol": "classic",
    "heartbeat.interval.ms": "short, so that a takeover is quick",
    "isolation.level": "read_committed",
    "max.poll.interval.ms": "fitted to a commit",
    "message.timeout.ms": "within the transaction's",
    "partition.assignment.strategy": "floe assigns partitions itself",
    "request.required.acks": "all",
    "session.timeout.ms": "short, so that a takeover is quick",
    "transaction.timeout.ms": "short, since an open transaction hides other pipelines' batches",
    "transactional.id": "named after the pipeline",
}
OWN_SPARK = {
    "spark.sql.session.timeZone": "UTC, so that SQL means the same on every machine",
    "spark.sql.variable.substitute": "off, so that SQL reads nothing of the machine that it runs on",
}
# Settings of the Java client, and librdkafka's for the same; "" where there is nothing to set.
JAVA_KAFKA = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.password": "ssl.ca.location",
    "key.converter": "",
    "key.deserializer": "",
    "key.serializer": "",
    "value.converter": "",
    "value.deserializer": "",
    "value.serializer": "",
}


def is_clear_secret(path: Path, leaf: Scalar) -> bool:
    """Whether a leaf of a target is a secret that stands there as it is, so that it must not be shown either."""
    in_connection = len(path) >= 4 and path[0] == "connections"
    in_spark = len(path) >= 3 and path[:2] == ("spark", "conf")
    in_monitoring = len(path) >= 2 and path[0] in ("monitoring", "lineage")
    if not (in_connection or in_spark or in_monitoring) or leaf.value is None or secret_of(str(leaf.value)):
        return False
    names = path[3 if in_connection else 2 if in_spark else 1 :]
    return any(is_secret_setting(str(name), str(leaf.value)) for name in names)


def without_secrets(source: SourceText, tree: Node | None) -> SourceText:
    """The target's text as it may be shown: secrets in clear are refused, and telling so must not repeat them.

    Args:
        tree: None when the text could not be read; then every line that names a secret is hidden behind its key, as it
            is in the excerpt of any finding.
    """
    if tree is None:
        return SourceText(source.file, "\n".join(map(masked_line, source.lines)))
    return masked(
        source,
        [
            leaf.span
            for path, leaf in leaves(tree)
            if is_clear_secret(path, leaf) and not _REFERENCE.match(str(leaf.value))
        ],
    )


def _named(text: str) -> str:
    """The name inside `${env:NAME}`, so that the remedy can be copied; no other part of a value is ever shown."""
    match = re.fullmatch(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", text)
    return match[1] if match else "NAME"


def secrets_from_outside(written: Mapping, resolved: Mapping) -> Iterator[Diagnostic]:
    """Values that hold a secret once their references are resolved: they would stand in plans and on command lines."""
    before = dict(leaves(written))
    for path, leaf in leaves(resolved):
        as_written = before.get(path)
        if as_written is None or as_written.value == leaf.value or is_clear_secret(path, as_written):
            continue
        if is_clear_secret(path, leaf):
            yield Diagnostic(
                "FLOE-C311",
                f"the value of `{path[-1]}` holds a secret",
                as_written.span,
                path=dotted(path),
                remedy=f"write `${{secret:env:{_named(str(as_written.value))}}}`, which only the driver reads",
            )


def connection_rules(written: Mapping) -> Iterator[Diagnostic]:
    """Secrets by reference only; settings that floe owns; settings of other clients."""
    for path, leaf in leaves(written):
        in_auth = len(path) >= 5 and path[1] in ("catalog", "kafka") and path[3] == "auth"
        in_connection = (len(path) == 4 or in_auth) and path[0] == "connections"
        in_spark = len(path) == 3 and path[:2] == ("spark", "conf")
        in_monitoring = len(path) == 2 and path[0] in ("monitoring", "lineage")
        if not (in_connection or in_spark or in_monitoring):
            continue
        key, text = str(path[-1]), str(leaf.value)
        where = dotted(path)
        if in_connection and path[1] == "kafka" and not in_auth and key in OWN_KAFKA:
            yield Diagnostic(
                "FLOE-C702", f"floe sets `{key}` itself ({OWN_KAFKA[key]})", leaf.span, path=where, remedy="remove it"
            )
        elif in_spark and key in OWN_SPARK:
            yield Diagnostic(
                "FLOE-C702", f"floe sets `{key}` itself ({OWN_SPARK[key]})", leaf.span, path=where, remedy="remove it"
            )
        elif in_connection and path[1] == "kafka" and not in_auth and key in JAVA_KAFKA:
            instead = f"use {JAVA_KAFKA[key]}" if JAVA_KAFKA[key] else "remove it"
            yield Diagnostic(
                "FLOE-C703",
                f"`{key}` is a setting of the Java client; connections hold librdkafka's",
                leaf.span,
                path=where,
                remedy=instead,
            )
        elif is_clear_secret(path, leaf):
            remedy = f"write `${{secret:env:{_named(text)}}}` or `${{secret:file:/path}}`"
            if in_spark:
                remedy = "give it to the cluster's own configuration"
            what = "is a secret" if is_secret_name(key) else "holds a password"
            message = f"`{key}` {what} and is written in plain text"
            yield Diagnostic("FLOE-C311", message, leaf.span, path=where, remedy=remedy)


def swapped_kinds(written: Mapping) -> tuple[Mapping, Diagnostic] | None:
    """Where `kafka:` holds catalogs and `catalog:` holds brokers: the target as it is meant, and the one mistake."""
    place = written.entry("connections")
    if place is None or not isinstance(place.value, Mapping):
        return None
    kafka, catalog = place.value.entry("kafka"), place.value.entry("catalog")
    if kafka is None or catalog is None or not (_are_brokers(catalog.value) and _are_catalogs(kafka.value)):
        return None
    other = {"kafka": catalog.key, "catalog": kafka.key}
    entries = tuple(each._replace(key=other.get(each.key, each.key)) for each in place.value.entries)
    meant = place._replace(value=place.value._replace(entries=entries))
    first = min(kafka, catalog, key=lambda each: each.key_span)
    finding = Diagnostic(
        "FLOE-C704",
        "`kafka:` holds settings of a catalog, and `catalog:` those of a broker",
        first.key_span,
        path=dotted(("connections", first.key)),
        remedy="swap the names of the two",
    )
    return written._replace(entries=tuple(meant if each is place else each for each in written.entries)), finding


def _are_brokers(kind: Node) -> bool:
    return _all(kind, lambda one: one.get(_BROKERS) is not None)


def _are_catalogs(kind: Node) -> bool:
    return _all(kind, lambda one: one.get(_BROKERS) is None and any(key in one.keys for key in _OF_CATALOGS))


def _all(kind: Node, holds: Callable[[Mapping], bool]) -> bool:
    """Whether it has connections, and this is true of each."""
    return (
        isinstance(kind, Mapping)
        and bool(kind.entries)
        and all(isinstance(each.value, Mapping) and holds(each.value) for each in kind.entries)
    )


def log_rules(resolved: Mapping) -> Iterator[Diagnostic]:
    """The catalog of the table that keeps the control log is one of the target's."""
    archive, known = find(resolved, ("log", "archive")), find(resolved, ("connections", "catalog"))
    if not isinstance(archive, Scalar) or not isinstance(known, Mapping) or "${" in str(archive.value):
        return
    catalog = catalog_of(str(archive.value))
    names = [name for name in known.keys if not name.startswith("x-")]
    if catalog not in names:
        hint = (
            did_you_mean(catalog, names) or f"write the catalog before the table, such as `{names[0]}:ops.control_log`"
        )
        said = f"the target has no catalog `{catalog}`, in which the archive of the control log would be"
        yield Diagnostic("FLOE-C714", said, archive.span, path="log.archive", remedy=hint)
