"""A user's project for end-to-end tests: files in a folder, the `floe` command as a process, tables read by PyIceberg.

In: a broker and a temporary folder. Out: finished processes and Arrow tables. Nothing here uses floe's own code to read
a table back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from jsonschema import Draft202012Validator
from pyiceberg.catalog import Catalog, load_catalog

CONTROL_VERBS = ("status", "log", "coordinator", "offsets", "pause", "resume", "stop", "clean")
STATUS_SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "status.v1.schema.json").read_text())
FLOE = [sys.executable, "-m", "framework.cli.main"]


class Project:
    """One folder with `pipelines/`, a target `it` and a catalog of its own; every name is used by this test alone."""

    def __init__(self, root: Path, bootstrap_servers: str) -> None:
        self.root = root
        self.prefix = f"it-{uuid.uuid4().hex[:8]}"
        self.bootstrap_servers = bootstrap_servers
        self.control_topic = f"{self.prefix}-control"
        (root / "pipelines" / "targets").mkdir(parents=True)
        (root / "warehouse").mkdir()
        self.catalog_settings = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        self.further_catalogs: dict[str, Mapping[str, str]] = {}
        self.write_target()

    def write_target(self, bootstrap_servers: str | None = None, catalog: Mapping[str, Any] | None = None) -> None:
        catalogs = {"default": catalog or self.catalog_settings, **self.further_catalogs}
        settings = "\n".join(
            f"    {name}:\n" + "\n".join(f"      {k}: {_yaml(v)}" for k, v in each.items())
            for name, each in catalogs.items()
        )
        (self.root / "pipelines" / "targets" / "it.yaml").write_text(
            f"""apiVersion: floe/v1
kind: Target
metadata:
  name: it
prefix: {self.prefix}
connections:
  kafka:
    main:
      bootstrap.servers: "{bootstrap_servers or self.bootstrap_servers}"
  catalog:
{settings}
spark:
  master: "local[2,4]"
"""
        )

    def pipeline(self, name: str, text: str) -> Path:
        """Write a pipeline file; `text` is everything after `metadata`."""
        path = self.root / "pipelines" / f"{name}.yaml"
        head = f"apiVersion: floe/v1\nkind: Pipeline\nmetadata: {{name: {name}}}\n"
        tail = f"commit: {{control_topic: {self.control_topic}}}\n"
        path.write_text(head + textwrap.dedent(text).strip() + "\n" + tail)
        return path

    def command(self, *args: str | Path) -> list[str]:
        control = ["--control-topic", self.control_topic] if args[0] in CONTROL_VERBS else []
        return [*FLOE, *map(str, args), "--target", "it", *control]

    def start(self, *args: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `floe ARGS --target it` in a process group of its own."""
        return subprocess.Popen(
            self.command(*args),
            cwd=self.root,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *args: str | Path, code: int | None = 0, env: Mapping[str, str] | None = None, timeout_s: float = 180
    ) -> str:
        """Run `floe ARGS --target it` to its end; returns what it printed. `code` None accepts any exit code."""
        process = self.start(*args, env=env)
        try:
            output, _ = process.communicate(timeout=timeout_s)
        finally:
            kill_group(process)
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}\n{output}"
        return output

    def run_json(self, *args: str | Path) -> dict[str, Any]:
        """Run with --json; the last line that begins with a brace is the document."""
        # Whatever is in trouble, `floe status` shows it and says so by its exit code.
        output = self.run(*args, "--json", code=None if args[0] == "status" else 0)
        document = json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("{")))
        if args[0] == "status":  # whatever a test asks it for, the document is the published one
            Draft202012Validator(STATUS_SCHEMA).validate(document)
            assert set(document) == set(STATUS_SCHEMA["properties"])
        return document  # type: ignore[no-any-return]

    def status(self, *options: str) -> dict[str, Any]:
        """What `floe status --json` prints for this project's control topic."""
        return self.run_json("status", *options)

    def catalog(self) -> Catalog:
        return load_catalog("default", **self.catalog_settings)

    def table(self, name: str) -> pa.Table:
        return self.catalog().load_table(name).scan().to_arrow()

    def tables(self, namespace: str) -> list[str]:
        return sorted(".".join(name) for name in self.catalog().list_tables(namespace))

    def positions(self, tables: Sequence[str]) -> Counter[tuple[str, int, int]]:
        """How often each source record is in the tables, by its Kafka position (the metadata columns)."""
        counts: Counter[tuple[str, int, int]] = Counter()
        for name in tables:
            rows = self.table(name)
            topic, partition, offset = (
                rows.column(f"_kafka_{c}").to_pylist() for c in ("topic", "partition", "offset")
            )
            counts.update(zip(topic, partition, offset, strict=True))
        return counts

    def live_paths(self, name: str) -> list[str]:
        return list(self.catalog().load_table(name).inspect.files().column("file_path").to_pylist())


def _yaml(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else f'"{value}"'


def kill_group(process: subprocess.Popen[str]) -> None:
    """End a process and everything it started, so that no test leaves anything behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(timeout=30)


def wait_for(condition: Any, timeout_s: float = 60, what: str = "condition") -> Any:
    """Poll until `condition()` is true; returns its value."""
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what} did not become true within {timeout_s} s")
