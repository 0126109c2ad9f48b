"""Target files: found by name, read, and made into a `TargetSpec`.

In: a target's name or path, and the folder to look from. Out: the spec and the parts that pipelines need (variables and
overrides), or diagnostics. Invariant of this module: a secret leaves it as a `SecretRef` and in no other form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from framework.config.overlay import without
from framework.config.reference import Scope, resolve, secret_of
from framework.config.schema import check
from framework.config.spec import SecretRef, SettingValue, TargetSpec
from framework.config.text import SourceText, start_of
from framework.config.tree import Mapping, Node, Scalar, Sequence, dotted, leaves, parse, plain
from framework.config.variables import Value, values_of
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Span

LOCAL = """\
apiVersion: floe/v1
kind: Target
metadata: {name: local, description: "The embedded stack of `floe local up`."}
prefix: floe
connections:
  kafka: {main: {bootstrap.servers: "${local:bootstrap_servers}"}}
  catalog: {default: {type: sql, uri: "${local:catalog_uri}", warehouse: "${local:warehouse}"}}
spark: {master: "local[2,4]"}
"""
_SECRET_WORD = re.compile(
    r"(password|passwd|secret|token|credential|account-key|access-key|api.?key|private.?key|sas|key\.pem|jaas)"
)
_NOT_SECRET = re.compile(
    r"(url|uri|endpoint|location|path|method|scope|type|ms|enabled|mechanisms?|provider|expir\w*|access-key-id|mechanism)$"
)
_PASSWORD_IN_URL = re.compile(r"://[^/@:\s]*:[^/@\s]+@")
_OWN_KAFKA = {
    "group.id": "named after the pipeline", "transactional.id": "named after the pipeline",
    "enable.auto.commit": "off: offsets are committed in transactions", "auto.offset.reset": "an error, so that no record is skipped in silence",
    "isolation.level": "read_committed", "enable.idempotence": "on", "enable.partition.eof": "on", "enable.auto.offset.store": "off",
    "group.instance.id": "not used",
}  # fmt: skip
_JAVA_KAFKA = {
    "sasl.jaas.config": "sasl.username and sasl.password", "ssl.truststore.location": "ssl.ca.location", "ssl.truststore.password": "ssl.ca.location",
    "key.deserializer": "", "value.deserializer": "", "key.serializer": "", "value.serializer": "", "key.converter": "", "value.converter": "",
}  # fmt: skip


@dataclass(frozen=True)
class TargetResult:
    """A target as loaded. `variables` and `overrides` are nodes, so that what comes from them keeps its place."""

    target: TargetSpec | None
    diagnostics: tuple[Diagnostic, ...]
    source: SourceText | None = None
    variables: Mapping | None = None
    overrides: tuple[Mapping, ...] = field(default_factory=tuple)

    def overlays_for(self, pipeline: str) -> Iterator[Mapping]:
        """The parts of this target that lie over one pipeline, in order."""
        for override in self.overrides:
            match = override.get("match")
            if isinstance(match, Scalar) and fnmatchcase(pipeline, str(match.value)):
                yield without(override, "match")


def load_target(name_or_path: str, world: World, search_dir: Path) -> TargetResult:
    """Loads `targets/<name>.yaml` from `search_dir` or a folder above it, or the file at a path.

    `local` needs no file: it then is the embedded stack.
    """
    source, problem = _find(name_or_path, world, search_dir)
    if source is None:
        return TargetResult(None, (problem,) if problem else ())
    tree, findings = parse(source)
    if not isinstance(tree, Mapping):
        if tree is not None:
            findings.append(
                Diagnostic(
                    "FLOE-C203", "the file must be a mapping", tree.span, remedy="begin with `apiVersion: floe/v1`"
                )
            )
        return TargetResult(None, tuple(findings), source)
    variables = tree.get("variables")
    variable_node = variables if isinstance(variables, Mapping) else None
    values, _, _ = values_of((), variable_node, {}, offline=True)
    resolved, reference_findings, unresolved = _resolve(tree, world, values)
    findings += reference_findings
    resolved, schema_findings = check(resolved, "target", unresolved)
    findings += schema_findings
    findings += _connection_rules(tree, resolved)
    overrides = resolved.get("overrides") if isinstance(resolved, Mapping) else None
    parts = (
        tuple(item for item in overrides.items if isinstance(item, Mapping)) if isinstance(overrides, Sequence) else ()
    )
    broken = any(finding.is_error for finding in findings)
    target = None if broken else _build(plain(resolved))
    return TargetResult(target, tuple(findings), source, variable_node, parts)


def _resolve(
    tree: Mapping, world: World, values: dict[str, Value]
) -> tuple[Node, list[Diagnostic], frozenset[tuple[str | int, ...]]]:
    """Connections may hold secrets; overrides keep their references until they lie over a pipeline; the rest is plain."""
    findings: list[Diagnostic] = []
    unresolved: set[tuple[str | int, ...]] = set()
    entries = []
    for entry in tree.entries:
        if entry.key == "overrides":
            entries.append(entry)
            unresolved |= {
                ("overrides", *path)
                for path, leaf in leaves(entry.value)
                if isinstance(leaf.value, str) and "${" in leaf.value
            }
            continue
        scope = Scope(world, values, secrets=entry.key == "connections")
        part, found, open_paths = resolve(entry.value, scope)
        findings += found
        unresolved |= {(entry.key, *path) for path in open_paths}
        entries.append(type(entry)(entry.key, entry.key_span, part))
    return Mapping(tuple(entries), tree.span), findings, frozenset(unresolved)


def _find(name_or_path: str, world: World, search_dir: Path) -> tuple[SourceText | None, Diagnostic | None]:
    is_path = name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path
    folders = [search_dir, *search_dir.parents]
    candidates = [Path(name_or_path)] if is_path else [
        folder / place / f"{name_or_path}.yaml" for folder in folders for place in ("targets", "pipelines/targets")
    ]  # fmt: skip
    for path in candidates:
        try:
            return SourceText(str(path), world.read_file(path)), None
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            return None, Diagnostic(
                "FLOE-C101", f"the target file cannot be read: {reason}", start_of(str(path)), remedy="check the file"
            )
    if name_or_path == "local":
        return SourceText("<built-in target local>", LOCAL), None
    place = f"`{name_or_path}`" if is_path else f"`targets/{name_or_path}.yaml`"
    message = f"there is no target {place}" + (
        "" if is_path else f" beside the pipeline file or above it ({search_dir})"
    )
    span = Span("--target", 1, 1, 1, len(name_or_path) + 1)
    return None, Diagnostic(
        "FLOE-C701", message, span, remedy="write the file, or give its path to `--target`", excerpt=name_or_path
    )


def _connection_rules(written: Mapping, resolved: Node) -> Iterator[Diagnostic]:
    """Secrets by reference only; settings that floe owns; settings of other clients."""
    for path, leaf in leaves(written):
        in_connection = len(path) == 4 and path[0] == "connections"
        in_spark = len(path) == 3 and path[:2] == ("spark", "conf")
        if not (in_connection or in_spark):
            continue
        key, text = str(path[-1]), str(leaf.value)
        where = dotted(path)
        if in_connection and path[1] == "kafka" and key in _OWN_KAFKA:
            yield Diagnostic(
                "FLOE-C702", f"floe sets `{key}` itself ({_OWN_KAFKA[key]})", leaf.span, path=where, remedy="remove it"
            )
        elif in_connection and path[1] == "kafka" and key in _JAVA_KAFKA:
            instead = f"use {_JAVA_KAFKA[key]}" if _JAVA_KAFKA[key] else "remove it"
            yield Diagnostic(
                "FLOE-C703",
                f"`{key}` is a setting of the Java client; connections hold librdkafka's",
                leaf.span,
                path=where,
                remedy=instead,
            )
        elif secret_of(text):
            continue
        elif _SECRET_WORD.search(key.lower()) and not _NOT_SECRET.search(key.lower()):
            remedy = (
                "write `${secret:env:NAME}` or `${secret:file:/path}`"
                if in_connection
                else "give it to the cluster's own configuration"
            )
            yield Diagnostic(
                "FLOE-C311", f"`{key}` is a secret and is written in clear", leaf.span, path=where, remedy=remedy
            )
        elif _PASSWORD_IN_URL.search(text):
            remedy = "put the whole value in a secret: `${secret:env:NAME}`"
            yield Diagnostic("FLOE-C311", f"`{key}` holds a password in clear", leaf.span, path=where, remedy=remedy)
    registries = resolved.get("connections") if isinstance(resolved, Mapping) else None
    entry = registries.entry("registry") if isinstance(registries, Mapping) else None
    if entry:
        yield Diagnostic(
            "FLOE-C501",
            "schema registries are not supported yet",
            entry.key_span,
            path="connections.registry",
            remedy="remove it; records are JSON",
        )


def _build(document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> TargetSpec:
    connections = document["connections"]
    spark: dict[str, object] = dict(document.get("spark", {}))
    conf = spark.get("conf", {})
    return TargetSpec(
        name=str(document["metadata"]["name"]),
        kafka={name: _settings(found) for name, found in connections["kafka"].items() if not name.startswith("x-")},
        catalogs={
            name: _settings(found) for name, found in connections["catalog"].items() if not name.startswith("x-")
        },
        prefix=str(document.get("prefix", TargetSpec.prefix)),
        spark_master=str(spark.get("master", TargetSpec.spark_master)),
        spark_conf={key: _text(value) for key, value in conf.items()} if isinstance(conf, dict) else {},
        state_dir=str(document.get("state_dir", TargetSpec.state_dir)),
    )


def _settings(found: dict[str, object]) -> dict[str, SettingValue]:
    settings: dict[str, SettingValue] = {}
    for key, value in found.items():
        secret = secret_of(value) if isinstance(value, str) else None
        settings[key] = SecretRef(*secret) if secret else _text(value)
    return settings


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
