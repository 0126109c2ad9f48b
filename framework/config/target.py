"""Target files: found by name, read, and made into a `TargetSpec`.

In: a target's name or path, and the folder to look from. Out: the spec and the parts that pipelines need (variables and
overrides), or diagnostics. Invariant of this module: a secret leaves it as a `SecretRef` and in no other form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from framework.config.document import Files, names_above, not_a_mapping, read_source, upwards
from framework.config.filled.overlay import without
from framework.config.filled.reference import Scope, resolve, secret_of
from framework.config.filled.variables import Value, values_of
from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.names.table_names import as_written
from framework.config.rules.target.addresses import address_rules
from framework.config.rules.target.catalog_auth import AUTH, auth_rules
from framework.config.rules.target.connections import (
    connection_rules,
    log_rules,
    secrets_from_outside,
    swapped_kinds,
    without_secrets,
)
from framework.config.rules.target.kafka_auth import token_rules
from framework.config.rules.target.known_settings import known_settings
from framework.config.rules.target.lineage import lineage_rules
from framework.config.rules.target.monitoring import monitoring_rules
from framework.config.rules.target.registries import registry_rules
from framework.config.schema.document_schema import check
from framework.config.spec import LineageSpec, LogArchiveSpec, MonitoringSpec, SecretRef, SettingValue, TargetSpec
from framework.config.text import SourceText
from framework.config.tree import Mapping, Node, Scalar, Sequence, find, leaves, parse, plain
from framework.config.units import duration_ms, setting_text, size_bytes
from framework.config.values.maintenance import MaintenanceLimits
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Severity, Span
from framework.diagnose.suggest import did_you_mean

_PLACES = ("targets", "pipelines/targets")
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
    return read_target(source, world)


def read_target(source: SourceText, world: World) -> TargetResult:
    """A target's text as a target."""
    files = Files()
    tree, findings = parse(source)
    source = without_secrets(source, tree)
    files.add(source)
    if not isinstance(tree, Mapping):
        findings += [not_a_mapping(tree)] if tree is not None else []
        return TargetResult(None, files.finish(findings), source)
    if (swapped := swapped_kinds(tree)) is not None:
        tree = swapped[0]
        findings += [swapped[1]]
    variables = tree.get("variables")
    variable_node = variables if isinstance(variables, Mapping) else None
    values, _, _ = values_of((), variable_node, {}, offline=True)
    resolved, found, unresolved = _resolve(tree, world, values)
    findings += found
    resolved, found = check(resolved, "target", unresolved)
    findings += found
    findings += connection_rules(tree)
    if isinstance(resolved, Mapping):
        findings += monitoring_rules(resolved)
        findings += lineage_rules(resolved)
        findings += log_rules(resolved)
    if isinstance(resolved, Mapping):
        findings += secrets_from_outside(tree, resolved)
        findings = _said_once(findings, list(auth_rules(resolved, unresolved)))
        spoken = {finding.span for finding in findings}  # of a mistyped key, which is no setting of a client either
        # What a target lets through is not known while its `allow` is wrong.
        lets_through = not any(finding.path.startswith("allow") for finding in findings)
        findings += [one for one in known_settings(resolved, unresolved) if lets_through and one.span not in spoken]
        findings += address_rules(resolved, unresolved)
        findings += token_rules(resolved, unresolved)
        findings += registry_rules(resolved, unresolved)
        findings += _named_otherwise(resolved, source.file)
    overrides = resolved.get("overrides") if isinstance(resolved, Mapping) else None
    items = overrides.items if isinstance(overrides, Sequence) else ()
    parts = tuple(item for item in items if isinstance(item, Mapping))
    broken = any(finding.is_error for finding in findings)
    target = None if broken else _build(plain(resolved))
    return TargetResult(target, files.finish(findings), source, variable_node, parts)


def _named_otherwise(tree: Mapping, file: str) -> Iterator[Diagnostic]:
    """A target is found by its file's name, and what a run keeps lies under the name inside; two names lead astray."""
    path, name, kind = PurePath(file), find(tree, ("metadata", "name")), tree.get("kind")
    if path.parent.name != "targets" or not isinstance(name, Scalar) or not isinstance(name.value, str):
        return
    if isinstance(kind, Scalar) and kind.value == "Target" and name.value != path.stem and "${" not in name.value:
        message = f"this target is found as `{path.stem}`, by its file's name, and is named `{name.value}` here"
        remedy = f"write `name: {path.stem}`"
        yield Diagnostic("FLOE-C712", message, name.span, Severity.WARNING, "metadata.name", remedy=remedy)


def _resolve(
    tree: Mapping, world: World, values: dict[str, Value]
) -> tuple[Node, list[Diagnostic], frozenset[tuple[str | int, ...]]]:
    """Connections may hold secrets; overrides keep their references until they lie over a pipeline; the rest is
    plain."""
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
        scope = Scope(world, values, secrets=entry.key in ("connections", "monitoring", "lineage"))
        part, found, open_paths = resolve(entry.value, scope)
        findings += found
        unresolved |= {(entry.key, *path) for path in open_paths}
        entries.append(type(entry)(entry.key, entry.key_span, part))
    return Mapping(tuple(entries), tree.span), findings, frozenset(unresolved)


def _find(name_or_path: str, world: World, search_dir: Path) -> tuple[SourceText | None, Diagnostic | None]:
    is_path = name_or_path.endswith(YAML_ENDINGS) or "/" in name_or_path
    named = [f"{place}/{name_or_path}{ending}" for place in _PLACES for ending in YAML_ENDINGS]
    candidates = (
        [Path(name_or_path)] if is_path else [folder / name for folder in upwards(search_dir) for name in named]
    )
    for path in candidates:
        source, problem = read_source(path, world)
        if source is not None or (problem is not None and not problem.absent):
            return source, problem.diagnostic if problem else None
    if name_or_path == "local":
        return SourceText("<built-in target local>", LOCAL), None
    message, hint = f"there is no target at `{name_or_path}`", None
    if not is_path:
        message = f"there is no target `{name_or_path}`: no `targets/{name_or_path}.yaml` beside the pipeline file or above it"
        hint = did_you_mean(name_or_path, {"local", *names_above(search_dir, _PLACES, world)})
    span = Span("--target", 1, 1, 1, len(name_or_path) + 1)
    remedy = "write the file, or give its path to `--target`"
    return None, Diagnostic("FLOE-C701", message, span, hint=hint, remedy=remedy, excerpt=name_or_path)


def _build(document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> TargetSpec:
    connections = document["connections"]
    spark: dict[str, object] = dict(document.get("spark", {}))
    allow: dict[str, Any] = dict(document.get("allow", {}))
    conf = spark.get("conf", {})
    return TargetSpec(
        name=str(document["metadata"]["name"]),
        kafka={
            name: _settings(_flat(found)) for name, found in connections["kafka"].items() if not name.startswith("x-")
        },
        catalogs={
            name: _settings(_flat(found)) for name, found in connections["catalog"].items() if not name.startswith("x-")
        },
        registries={
            name: _settings(found)
            for name, found in connections.get("registry", {}).items()
            if not name.startswith("x-")
        },
        prefix=str(document.get("prefix", TargetSpec.prefix)),
        spark_master=str(spark.get("master", TargetSpec.spark_master)),
        spark_conf={key: setting_text(value) for key, value in conf.items()} if isinstance(conf, dict) else {},
        state_dir=str(document.get("state_dir", TargetSpec.state_dir)),
        allow_locations=tuple(map(str, allow.get("locations", ()))),
        allow_properties=tuple(map(str, allow.get("properties", ()))),
        allow_environment=tuple(map(str, allow.get("environment", ()))),
        allow_dead_letters_on_page=tuple(map(str, allow.get("dead_letters_on_page", ()))),
        monitoring=_monitoring(dict(document.get("monitoring", {}))),
        lineage=_lineage(dict(document.get("lineage", {})), connections["kafka"]),
        maintenance=_maintenance(dict(document.get("maintenance", {}))),
        drills_max_age_ms=duration_ms(str(document.get("drills", {}).get("max_age", ""))),
        log_archive=_log_archive(dict(document.get("log", {}))),
    )


def _monitoring(found: dict[str, Any]) -> MonitoringSpec:
    token = secret_of(str(found.get("token", "")))
    return MonitoringSpec(
        listen=str(found.get("listen", MonitoringSpec.listen)),
        page=str(found.get("page", MonitoringSpec.page)),
        token=SecretRef(*token) if token else "",
        textfile=str(found.get("textfile", MonitoringSpec.textfile)),
        pushgateway=str(found.get("pushgateway", MonitoringSpec.pushgateway)),
        names=tuple(map(str, found.get("names", ()))),
        max_tables=int(found.get("max_tables", MonitoringSpec.max_tables)),
        stalled_after_ms=int(found.get("stalled_after_ms", MonitoringSpec.stalled_after_ms)),
    )


def _log_archive(found: dict[str, Any]) -> LogArchiveSpec:
    interval_ms = duration_ms(str(found.get("interval", "")))
    table = as_written(str(found.get("archive", "")))
    return LogArchiveSpec(table, LogArchiveSpec.interval_ms if interval_ms is None else interval_ms)


def _lineage(found: dict[str, Any], connections: dict[str, Any]) -> LineageSpec:
    token, kafka = secret_of(str(found.get("token", ""))), dict(found.get("kafka", {}))
    names = [name for name in connections if not name.startswith("x-")]
    return LineageSpec(
        namespace=str(found.get("namespace", "")),
        file=str(found.get("file", "")),
        http=str(found.get("http", "")),
        token=SecretRef(*token) if token else "",
        kafka_connection=str(kafka.get("connection", names[0] if len(names) == 1 else "main")) if kafka else "",
        kafka_topic=str(kafka.get("topic", "")),
    )


def _maintenance(values: dict[str, Any]) -> MaintenanceLimits:
    given: dict[str, Any] = {}
    if "enabled" in values:
        given["enabled"] = values["enabled"]
    if "window" in values:
        begin, end = (_minute(text) for text in str(values["window"]).split("-"))
        given["window"] = (begin, end)
    if "max_bytes_per_hour" in values:
        given["max_bytes_per_hour"] = size_bytes(values["max_bytes_per_hour"])
    if "max_tables" in values:
        given["max_tables"] = int(values["max_tables"])
    if "max_cpu_share" in values:
        given["max_cpu_share"] = float(values["max_cpu_share"])
    return MaintenanceLimits(**given)


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _said_once(findings: list[Diagnostic], refused: list[Diagnostic]) -> list[Diagnostic]:
    """All of them, without what the schema says of a way of `auth` that is refused by name, and of what it comes with."""
    ways = [one.path.removesuffix("type") for one in refused if one.path.endswith(f".{AUTH}.type")]
    return [one for one in findings if not any(one.path.startswith(way) for way in ways)] + refused


def _flat(found: dict[str, object]) -> dict[str, object]:
    """Settings of a connection with what is inside of `auth` beside the others: a secret is one value of one setting."""
    settings = {key: value for key, value in found.items() if not isinstance(value, dict)}
    for key, inner in found.items():
        if isinstance(inner, dict):
            settings |= {f"{key}.{name}": value for name, value in _flat(inner).items() if not name.startswith("x-")}
    return settings


def _settings(found: dict[str, object]) -> dict[str, SettingValue]:
    settings: dict[str, SettingValue] = {}
    for key, value in found.items():
        secret = secret_of(value) if isinstance(value, str) else None
        text = " ".join(map(str, value)) if isinstance(value, list) else setting_text(value)
        settings[key] = SecretRef(*secret) if secret else text
    return settings
