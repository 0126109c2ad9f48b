"""Documented configurations of Iceberg sinks, and what `floe import-connector` makes of each.

Every file of `tests/sinks` follows a page of a sink's or of its transforms' documentation (`follows`), with names of its
own. It holds the configuration, what a person would give on the command line (`fields`, `given_tables`,
`delete_value`, `allow_partial`), and records. Beside it is what is reviewed: the pipeline file with its test, or the refusal.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from framework.cli.write.import_connector import check_text, pipeline_text
from framework.cli.write.import_proof import load_text, proved
from framework.connector.sink.model import Unknown
from framework.connector.sink.proof import Proof, proof
from framework.connector.translation.read import read_settings
from framework.connector.translation.translate import Imported, import_connector
from framework.errors import ConfigError
from framework.testing.recorded import Taken
from framework.testing.sql import SqlEngine
from framework.testing.suite import run_file

FOLDER = Path(__file__).parent / "sinks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
FILE = "pipeline.yaml"


@dataclass(frozen=True)
class Configuration:
    """One file of the folder."""

    name: str
    document: dict[str, Any]

    @property
    def settings(self) -> dict[str, str]:
        return read_settings(json.dumps({"config": self.document["config"]}), self.name)[1]

    def imported(self) -> Imported:
        """What the importer makes of it. Raises ConfigError."""
        return import_connector(
            self.name,
            self.settings,
            tuple(self.document.get("given_tables", ())),
            self.document.get("fields"),
            self.document.get("delete_value"),
            self.document.get("allow_partial", False),
            self.document.get("value_schema"),
        )

    def taken(self, values: list[Any]) -> list[Taken]:
        """Values as records of the connector's topics, in turn."""
        topics = self.settings["topics"].split(",")
        return [
            Taken(
                None if value is None else json.dumps(value).encode(),
                topics[number % len(topics)].strip(),
                offset=number,
                timestamp_ms=1_700_000_000_000 + number,
            )
            for number, value in enumerate(values)
        ]

    def proof(self, text: str, values: list[Any]) -> Proof:
        """The test of a pipeline file with the sink's rows. Raises Unknown."""
        spec = load_text(text, FILE, None).spec
        if spec is None:
            raise Unknown("records whose schema is in a registry")
        read = spec.source.kafka.topics
        records = [record for record in self.taken(values) if record.topic in read]
        return proof(self.settings, records, spec)


def configuration(name: str) -> Configuration:
    return Configuration(name, json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def reviewed(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def needs_sql(name: str) -> bool:
    """Whether the reviewed pipeline file has SQL, which only Spark runs."""
    golden = FOLDER / f"{name}.txt"
    return golden.exists() and "\ntransform:" in reviewed(name)


def outcome(one: Configuration, engine: SqlEngine | None) -> str:
    """The pipeline file with a test that passes, without one where the sink's rows are not known, or the refusal."""
    try:
        text = pipeline_text(one.imported())
        check_text(text, FILE)
    except ConfigError as error:
        place = f" ({error.place})" if error.place else ""
        findings = "".join(f"\n  {finding.message}" for finding in error.diagnostics)
        return f"error[{error.code}] {error.message}{place}\n  remedy: {error.remedy}{findings}\n"
    try:
        made = one.proof(text, one.document["records"])
    except Unknown as unknown:
        return f"{text}\n# no test: {unknown}\n"
    if made.test is None:
        return f"{text}\n# no test: the file gives no records\n"
    return proved(text, FILE, made, None, lambda loaded: run_file(loaded, engine))


def prove_made_up(one: Configuration, text: str, random: Random, engine: SqlEngine | None) -> None:
    """Runs records like those of the configuration through a pipeline file, and compares with the sink's rows.

    Raises:
        ConfigError: FLOE-R408, the rows differ.
        Unknown: what the sink does is not known here.
    """
    values = one.document["records"]
    keys = set(one.settings.get("iceberg.tables.default-id-columns", "").split(","))
    # The first records come as they are, so that the tables have their columns before nulls come.
    made = one.proof(text, [*values, *(like(random.choice(values), random, keys) for _ in range(40))])
    assert made.test is not None
    proved(text, FILE, made, None, lambda loaded: run_file(loaded, engine))


def like(value: Any, random: Random, keys: Collection[str] = ()) -> Any:
    """A value of the same kind; fields may be null or missing, unless they are of a key."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name in keys or random.random() > 0.1}
        return {
            name: None if name not in keys and random.random() < 0.1 else like(inner, random)
            for name, inner in kept.items()
        }
    if isinstance(value, bool):
        return random.random() < 0.5
    if isinstance(value, int):
        return random.choice([0, -1, value, 7, 1_760_000_000, random.randrange(1 << 40)])
    if isinstance(value, float):
        return random.choice([0.0, -0.5, value, 1e10, random.random()])
    if isinstance(value, str):
        return random.choice([value, value, value, "", "x", "it's", "a\\b", "\u00fc\U0001f600", "${HOME}", "{{x}}"])
    if isinstance(value, list):
        return [like(item, random) for item in value[: random.randrange(len(value) + 1)]]
    return value
