"""How long `floe validate` takes in a fresh process: 100 files that are templates, half of them with a shared template
too; and `floe plan` and `floe diff` of one of them, offline.

In: a number of files and of rounds. Out: each round's wall and CPU time, the medians, and two ratios, each measured in turn
on the same machine: to a process that only imports jsonschema and yaml, which is the smallest that a check of files could be,
and to one that also reads every file with PyYAML's C loader and looks at it with jsonschema, which is the least that any
check with these libraries does. floe itself uses jsonschema only for files that are wrong. The files are of a usual size: a
loop over routes, variables in values, overrides, tests.

    python -m benchmarks.validate_time --rounds 9
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORTS = ["-c", "import jsonschema, yaml"]
# The same files, with `#%` lines as the comments that they are to YAML, and the published schema.
READ = """
import json, sys, jsonschema, yaml
schema = json.load(open(sys.argv[1], encoding="utf-8"))
validator = jsonschema.Draft7Validator(schema)
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as stream:
        list(validator.iter_errors(yaml.load(stream, Loader=yaml.CSafeLoader)))
"""
TEMPLATED = """\
# yaml-language-server: $schema=../schemas/pipeline.v1.schema.json
apiVersion: floe/v1
kind: Pipeline
metadata: {{name: "orders-{number}-${{var.region}}", owner: team-{number}, description: Orders by kind.}}
variables:
  region: {{default: eu, choices: [eu, us], description: Where the orders are from.}}
  kinds: {{default: [refund, order, cancellation, gift], description: A table for each.}}
source:
  kafka:
    connection: main
    topics: ["orders-{number}-${{var.region}}"]
  schema:
    ordered_at: {{type: timestamptz, format: "%Y-%m-%d %H:%M:%S", zone: UTC}}
    price: decimal(10, 2)
    order_id: uuid
  metadata_columns: [partition, offset, timestamp]
routes:
  mode: first_match
  rules:
#% for kind in var.kinds
    - {{when: {{field: type, equals: "{{{{ kind }}}}"}}, table: "shop_{number}.{{{{ kind }}}}s"}}
#% endfor
    - {{table: "shop_{number}.other"}}
  unrouted: dead_letter
  allow_tables: ["shop_{number}.*"]
tables:
  defaults:
    create:
      partition_by: ["day(ordered_at)", "bucket(16, order_id)"]
      sort_by: [ordered_at]
      properties: {{write.parquet.compression-codec: zstd}}
    evolve: {{columns: evolve, data_type: widen}}
    commit: {{interval: 1m, max_bytes: 256MiB}}
  overrides:
#% for kind in var.kinds
    - {{match: "shop_{number}.{{{{ kind }}}}s", commit: {{interval: 10s}}}}
#% endfor
errors: {{policy: dead_letter, dead_letter_table: shop_{number}.dead_letters, max_ratio: 0.01}}
commit: {{control_topic: control-iceberg}}
tests:
  - name: a refund goes to its own table
    input: [{{value: {{type: refund, price: 12.10}}}}]
    expect: {{tables: {{shop_{number}.refunds: {{rows: [{{price: 12.10}}]}}}}}}
"""
SHARED = """\
# yaml-language-server: $schema=../schemas/pipeline.v1.schema.json
apiVersion: floe/v1
kind: Pipeline
metadata: {{name: events-{number}, owner: team-{number}}}
variables: {{pace: {{default: 1m}}}}
template:
  name: fan-out-by-field
  version: "1"
  parameters:
    topics: [events-{number}]
    field: type
    namespace: events_{number}
    time_field: at
    known_values: [click, view, purchase]
    interval: ${{var.pace}}
x-labels:
#% for label in ["a", "b", "c"]
  "{{{{ label }}}}": {number}
#% endfor
"""


def write_files(folder: Path, count: int) -> None:
    """So many pipeline files in a folder, with the shared templates and targets of the examples beside them."""
    for name in ("templates", "targets"):
        (folder / name).symlink_to(ROOT / "pipelines" / name)
    for number in range(count):
        text = (SHARED if number % 2 else TEMPLATED).format(number=number)
        (folder / f"pipeline-{number}.yaml").write_text(text, encoding="utf-8")


def one_round(folder: Path, arguments: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one process, whose modules are compiled: what an installed package has."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    wall = time.monotonic() - began
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Checks:
    """The commands that are measured, over files in a folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        write_files(folder, count)
        files = [f"pipeline-{number}.yaml" for number in range(count)]
        floe = ["-m", "framework.cli.main"]
        self.validate = [*floe, "validate", *files]
        self.read = ["-c", READ, str(ROOT / "schemas" / "pipeline.v1.schema.json"), *files]
        self.plan = [*floe, "plan", files[0], "--offline"]
        self.diff = [*floe, "diff", files[0], "--against", "plan.json"]
        # So that Python's own caches are warm, and there is something to compare with.
        for command in (self.validate, IMPORTS, self.read, [*self.plan, "--out", "plan.json"]):
            self.took(command)

    def took(self, command: list[str]) -> tuple[float, float]:
        """Wall and CPU seconds of a command."""
        return one_round(self.folder, command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(Path(folder), chosen.files)
        rounds = [
            (*checks.took(checks.validate), *(checks.took(base)[1] for base in (IMPORTS, checks.read)))
            for _ in range(chosen.rounds)
        ]
        commands = {"plan": checks.plan, "diff": checks.diff}
        others = {verb: [checks.took(command) for _ in range(chosen.rounds)] for verb, command in commands.items()}
    for wall, cpu, *_ in rounds:
        print(f"{wall:.2f} s, {cpu:.2f} s of CPU")
    wall, cpu, imports, reading = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"median of {chosen.rounds}: {wall:.2f} s, {cpu:.2f} s of CPU, for {chosen.files} files")
    ratios = sorted(row[1] / row[2] for row in rounds)
    spread = f"rounds from {ratios[0]:.2f} to {ratios[-1]:.2f}"
    print(f"{cpu / imports:.2f} times the CPU of importing jsonschema and yaml alone, {imports:.3f} s; {spread}")
    for verb, measured in others.items():
        wall_s, cpu_s = (statistics.median(column) for column in zip(*measured, strict=True))
        print(f"floe {verb} of one file without broker and catalog: {wall_s:.2f} s, {cpu_s:.2f} s of CPU")
    print(f"{cpu / reading:.1f} times the CPU of importing them, and of reading the files with them, {reading:.3f} s")


if __name__ == "__main__":
    main()
