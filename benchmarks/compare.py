"""floe and the Apache Iceberg Kafka Connect sink in turn, on the same broker, catalog and records; a report at the end.

In: which cases, how many rounds, how large. Out: `report.md`, `report.json` and `report.svg` in a folder. Within a
round the contenders run one after the other, never at once, and the order changes from round to round. Cases that are
compared with each other are run in turn, too, after a run of each that is not counted: the first ones after loading are
slow. Ratios are of medians.

    python -m benchmarks.compare --quick
    python -m benchmarks.compare --case one-table --case 100-tables --rounds 3
    python -m benchmarks.compare --case one-table --case 100-tables --contender floe --contender watched
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import cases
from benchmarks.contenders import SINK_VERSION, Connect, Contender, Floe, WatchedFloe, sink_jars
from benchmarks.report import write_report
from benchmarks.servers import KAFKA_VERSION, Servers, kafka_jars
from framework.adapters.kafka.reader import fetch_described
from framework.record.json import compiled as compiled_json

HELP = "which (default: floe and connect); watched: floe with metrics and page on, a scraper and three who look"


def measure(chosen: list[str], only: list[str], rounds: int, quick: bool, folder: Path) -> list[cases.Figures]:
    servers = Servers(folder / "servers")
    contenders: dict[str, Contender] = {
        "connect": Connect(servers, folder / "connect"),
        "floe": Floe(servers, folder / "floe"),
        "watched": WatchedFloe(servers, folder / "watched"),
    }
    results: list[cases.Figures] = []
    try:
        servers.start()
        for together in neighbours(chosen):
            for number in range(-1 if len(together) > 1 else 0, rounds):
                for name in together:
                    case = cases.CASES[name]
                    able = (*case.contenders, *(["watched"] if "floe" in case.contenders else ()))
                    names = [one for one in able if one in only]
                    for contender in names if number % 2 == 0 else names[::-1]:
                        figures = _once(servers, name, case, contenders[contender], number, quick)
                        results += [figures] if number >= 0 else []
    finally:
        servers.stop()
    return results


def neighbours(chosen: list[str]) -> list[list[str]]:
    """The cases in the order in which they are asked for, those that are run in turn together."""
    found: dict[str, list[str]] = {}
    for name in chosen:
        found.setdefault(cases.CASES[name].in_turn or name, []).append(name)
    return list(found.values())


def _once(
    servers: Servers, name: str, case: cases.Case, contender: Contender, number: int, quick: bool
) -> cases.Figures:
    began = time.monotonic()
    figures: cases.Figures = {"case": name, "contender": contender.name, "round": number + 1}
    try:
        figures |= case.run(servers, contender, quick)
    except RuntimeError as error:
        # One contender that cannot do a case is a result, too; the others go on.
        figures["failed"] = str(error)
    text = ", ".join(f"{key} {value}" for key, value in figures.items() if key not in ("case", "contender", "round"))
    place = f"round {number + 1}" if number >= 0 else "not counted"
    print(f"{name}, {place}, {contender.name} ({time.monotonic() - began:.0f} s): {text}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", action="append", choices=cases.CASES, help="which (default: all; with --quick a few)")
    parser.add_argument("--contender", action="append", choices=["floe", "connect", "watched"], help=HELP)
    parser.add_argument("--rounds", type=int, help="runs of each contender (default 3; with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small loads, few cases: under ten minutes")
    parser.add_argument("--scale", type=float, default=1.0, help="all loads are multiplied by it")
    parser.add_argument("--keep", action="store_true", help="keep the topics and tables, not the logs alone")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder of the report")
    options = parser.parse_args()
    cases.scale = options.scale
    # Asked to end, it ends what it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    chosen = options.case or list(cases.QUICK if options.quick else cases.CASES)
    print("fetching what the peer needs from Maven Central, once for this machine", file=sys.stderr)
    kafka_jars()
    sink_jars()
    machine = {
        "machine": f"{platform.machine()}, {cases.cores()} cores, {cases.memory_gb()} GB",
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "connect sink": SINK_VERSION,
        "floe fetches by": fetch_described(),
        "floe parses JSON by": "the compiled parser" if compiled_json.available() else "Arrow alone",
        "size": f"{'quick' if options.quick else 'full'}, x {options.scale:g}",
    }
    options.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="floe-bench-"))
    results = measure(
        chosen,
        options.contender or ["connect", "floe"],
        options.rounds or (1 if options.quick else 3),
        options.quick,
        folder,
    )
    if not options.keep:
        shutil.rmtree(folder / "servers" / "broker" / "log", ignore_errors=True)
        shutil.rmtree(folder / "servers" / "catalog" / "warehouse", ignore_errors=True)
    (options.out / "report.json").write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    write_report(options.out, machine, results)
    print(f"\n{(options.out / 'report.md').read_text()}\nlogs of the servers and contenders: {folder}")


if __name__ == "__main__":
    main()
