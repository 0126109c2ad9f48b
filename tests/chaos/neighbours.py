"""The processes of a campaign among neighbours, and what happens to them: kills, sleeps, wrong clocks, recovery verbs.

In: a broker, a catalog, a seed and times. Out: a `Campaign` whose acts a test calls one after the other, with a story of
what was done, and by table the ids that were given up by name. What a verb gave up is read from the table's snapshots by
PyIceberg, never from what the verb says.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyiceberg.table import Table

from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running, is_stopped, wait_for
from tests.project import Project

ROOT = Path(__file__).parents[2]
# Seconds that a process is ahead or behind.
CLOCKS = (172_800, -172_800, 18_000, -18_000, 1_200, -1_200)
FAN, SIDE, UPSERTED = 12, 4, 4
KEYS = 300

APPENDS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes: {{rules: [{{table: "shop.{letter}_{{kind}}"}}], allow_tables: ["shop.*"], unrouted: fail}}
    tables: {{defaults: {{commit: {{interval: 1s}}, {maintenance}}}}}
    errors: {{policy: fail}}
"""
UPSERTS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, kind: {{type: string}}, n: {{type: long}}, op: {{type: string}}}}
    routes: {{rules: [{{table: "shop.u_{{kind}}"}}], allow_tables: ["shop.*"], unrouted: fail}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], delete_when: {{field: op, equals: d}}}}
        commit: {{interval: 1s}}
        {maintenance}
    errors: {{policy: fail}}
"""
MAINTENANCE = (
    "maintenance: {{mode: always, compaction: {{min_input_files: 3}}, manifests: {{min_count: 10}}, orphans: {{older_than: "
    "{day_s}s}}, expire: {{max_snapshots: 3, max_snapshot_age: {window_s}s, rollback_window: {window_s}s, "
    "reader_lease: {lease_s}s}}}}"
)


class Flow:
    """Writes records to the three topics, slowly, until it is told to stop."""

    def __init__(self, broker: FragileBroker, topics: Mapping[str, str], seed: int) -> None:
        self._broker, self._topics, self._chance = broker, topics, random.Random(seed)
        self._stop, self.pause, self._count = threading.Event(), threading.Lock(), 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            with self.pause, contextlib.suppress(AssertionError):
                self._write()

    def _write(self) -> None:
        first, self._count = self._count, self._count + 60
        numbers = range(first, first + 60)
        self._broker.produce(self._topics["fan"], [{"id": n, "kind": f"{n % FAN:02}"} for n in numbers])
        self._broker.produce(self._topics["side"], [{"id": n, "kind": f"{n % SIDE:02}"} for n in numbers if n % 3 == 0])
        changed = [
            {"id": self._chance.randrange(KEYS), "kind": f"{n // 2 % UPSERTED:02}", "n": n,
             "op": "d" if self._chance.random() < 0.2 else "u"}
            for n in numbers if n % 2 == 0
        ]  # fmt: skip
        keys = [f"{each['kind']}-{each['id']}" for each in changed]
        self._broker.produce(self._topics["up"], changed, keys=keys)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)


class StrangerProcess:
    """A process of `tests.chaos.strangers`, and what it said."""

    def __init__(self, role: str, settings: Mapping[str, str], seed: int, lease_s: float, folder: Path) -> None:
        self.role = role
        self._log = folder / f"stranger-{role}-{seed}.log"
        request = json.dumps({"settings": dict(settings), "seed": seed, "lease_s": lease_s})
        with self._log.open("w") as out, self._log.with_suffix(".err").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.strangers", role, request],
                cwd=ROOT,
                stdout=out,
                stderr=errors,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
            )

    @property
    def said(self) -> list[dict[str, object]]:
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def errors(self) -> list[dict[str, object]]:
        ended = self.process.poll()
        found = [each for each in self.said if "error" in each]
        if ended is not None and ended != -signal.SIGKILL:
            text = self._log.with_suffix(".err").read_text()[-2000:]
            found.append({"error": f"{self.role} ended with {ended}", "trace": text})
        return found

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(30)


class Campaign:
    """All processes of one run; `given_up` holds by table what was given up by name."""

    def __init__(
        self, folder: Path, broker: FragileBroker, settings: Mapping[str, str], seed: int, day_s: float
    ) -> None:
        self.chance, self.broker, self.day_s = random.Random(seed), broker, day_s
        self.lease_s, window_s = max(10, int(day_s / 3)), max(15, int(day_s / 2))
        # With a SQL catalog each client dates the metadata. The neighbours are plain PyIceberg, which dates its change before
        # what floe dated in the future, and Java then reads the table no more.
        self.clocks = CLOCKS if settings["type"] == "rest" else tuple(each for each in CLOCKS if each < 0)
        self.project = Project(folder, broker.bootstrap_servers)
        self.project.catalog_settings = dict(settings)
        self.project.write_target()
        self.topics = {name: broker.new_topic(name, partitions=2) for name in ("fan", "side", "up")}
        keeps = MAINTENANCE.format(day_s=int(day_s), window_s=window_s, lease_s=self.lease_s)
        text = {
            "fan": APPENDS.format(topic=self.topics["fan"], letter="f", maintenance=keeps),
            "side": APPENDS.format(topic=self.topics["side"], letter="s", maintenance=keeps),
            "up": UPSERTS.format(topic=self.topics["up"], maintenance=keeps),
        }
        self.files = {name: self.project.pipeline(name, each) for name, each in text.items()}
        paths = [str(ROOT / "tests" / "chaos" / "short_day"), os.environ.get("PYTHONPATH", "")]
        self.env = {"PYTHONPATH": ":".join(filter(None, paths)), "FLOE_CHAOS_DAY_S": f"{day_s:g}"}
        self.story: Counter[str] = Counter()
        self.log: list[str] = []
        self.given_up: dict[str, set[int]] = defaultdict(set)
        self.began = time.monotonic()
        self.started: list[Running] = []
        self.alive: dict[str, Running] = {}
        self.sleepers: list[tuple[float, Running]] = []
        self.beside: list[Running] = []
        self.expected_codes: dict[int, set[int]] = {}
        self.paused: list[str] = []

    # ---- processes ---------------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        line = f"{time.monotonic() - self.began:7.1f} s  {text}"
        self.log.append(line)
        print(line, flush=True)

    def a_clock(self, odds: float) -> dict[str, str]:
        if self.chance.random() > odds:
            return {}
        self.story["wrong clocks"] += 1
        return {"FLOE_CHAOS_CLOCK_S": str(self.chance.choice(self.clocks))}

    def begin(self, *args: str | Path, env: Mapping[str, str] | None = None) -> Running:
        run = Running(self.project, *args, env={**self.env, **(env or {})})
        self.started.append(run)
        shown = " ".join(Path(str(each)).name for each in args)
        self.tell(f"{run.pid}: {shown} {(env or {}).get('FLOE_CHAOS_CLOCK_S', '')} {(env or {}).get('FLOE_FAULT', '')}")
        return run

    def start_driver(self, fault: str = "") -> None:
        env = {"FLOE_FAULT": fault} if fault else {}
        self.alive["driver"] = self.begin("run", *self.files.values(), env=env)

    def start_coordinator(self, fault: str = "") -> None:
        env = self.a_clock(0.5) | ({"FLOE_FAULT": fault} if fault else {})
        self.alive["coordinator"] = self.begin("coordinator", env=env)

    def control(
        self, verb: str, *args: str | Path, code: int | None = None, env: Mapping[str, str] = {}
    ) -> tuple[int, str]:
        """A verb to its end: its exit code and what it printed. `code`: anything else is a failure."""
        named = (
            ()
            if verb in ("clean", "pause", "resume", "coordinator")
            else ("--control-topic", self.project.control_topic)
        )
        named = () if verb in ("replay", "rebase") else named
        run = self.begin(verb, *args, *named, env=env)
        found = run.wait(300)
        assert code is None or found == code, f"{verb} {args}: exit code {found}\n{run.output}"
        assert "Traceback" not in run.output, run.output
        self.tell(f"{run.pid}: exit code {found}")
        return found, run.output

    def look_after(self) -> None:
        """Start what has ended, wake whoever has slept long enough."""
        for at, run in list(self.sleepers):
            if time.monotonic() >= at:
                self.sleepers.remove((at, run))
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGCONT)
                self.tell(f"{run.pid} wakes")
        asleep = {run.pid for _, run in self.sleepers}
        for run in [*self.alive.values(), *self.beside]:
            if run.running and run.pid not in asleep and is_stopped(run.pid):
                self.story["sleeps at a point"] += 1
                self.tell(f"{run.pid} sleeps at a point")
                self.sleepers.append((time.monotonic() + 1.3 * self.day_s, run))
        for name, run in list(self.alive.items()):
            if not run.running:
                expected = "error[FLOE-" in run.output or run.process.returncode in (0, -signal.SIGKILL)
                assert expected, f"{name} ended with {run.process.returncode}\n{run.output[-3000:]}"
                self.tell(f"{name} {run.pid} has ended: {run.process.returncode} {last_error(run.output)}")
                self.start_driver() if name == "driver" else self.start_coordinator()
        for run in list(self.beside):
            if not run.running:
                self.beside.remove(run)
                assert "Traceback" not in run.output, run.output
                self.tell(f"{run.pid} has ended: {run.process.returncode} {last_error(run.output)}")

    def asleep(self, name: str) -> bool:
        return any(run is self.alive[name] for _, run in self.sleepers) or is_stopped(self.alive[name].pid)

    def end(self, name: str) -> None:
        """SIGTERM, and the end: whoever sleeps is woken for it, also who falls asleep at a point while it drains."""
        run = self.alive[name]
        self.sleepers = [each for each in self.sleepers if each[1] is not run]
        run.process.terminate()
        deadline = time.monotonic() + 120
        while run.running and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGCONT)
            time.sleep(0.2)
        run.terminate()

    # ---- acts --------------------------------------------------------------------------------------------------------

    def kill(self, name: str, flow: Flow) -> None:
        self.story[f"kills of the {name}"] += 1
        self.tell(f"kill {name}")
        if name == "broker":
            with flow.pause:
                self.broker.kill()
                self.broker.restart()
        elif self.alive[name].running:
            self.alive[name].kill()

    def sleep(self, name: str) -> None:
        """Stop a process and all that it started past the orphans' age; it wakes by `look_after`."""
        run = self.alive[name]
        if run.running and all(run is not each for _, each in self.sleepers):
            self.story[f"sleeps of the {name}"] += 1
            self.tell(f"{name} {run.pid} sleeps")
            os.killpg(run.pid, signal.SIGSTOP)
            self.sleepers.append((time.monotonic() + 1.3 * self.day_s, run))

    def maintain(self, fault: str = "") -> None:
        """The second maintainer, beside everything else."""
        self.story["floe maintain"] += 1
        pattern = self.chance.choice(["shop.f_*", "shop.s_*", "shop.u_*", "*"])
        env = self.a_clock(0.4) | ({"FLOE_FAULT": fault} if fault else {})
        self.beside.append(
            self.begin("maintain", pattern, "--control-topic", self.project.control_topic, env=env)
        )  # fmt: skip

    def clean(self) -> None:
        self.story["floe clean"] += 1
        self.beside.append(
            self.begin("clean", "--older-than", f"{int(self.day_s)}s", "--delete", env=self.a_clock(0.4))
        )

    def pause(self) -> None:
        pattern = self.chance.choice(["shop.f_0*", "shop.s_*", "shop.u_01", "*"])
        for _ in range(2):
            self.control("pause", "--commits", pattern, "--reason", "chaos")
        self.story["pauses"] += 1
        self.paused.append(pattern)

    def resume(self) -> None:
        for pattern in self.paused:
            for _ in range(2):
                self.control("resume", "--commits", pattern)
        self.paused = []

    # ---- recovery verbs ----------------------------------------------------------------------------------------------

    def end_driver(self) -> None:
        """Verbs refuse while a run is live: to the broker a killed one is for some seconds."""
        if self.chance.random() < 0.5:
            self.alive["driver"].kill()
            time.sleep(8)
        else:
            self.end("driver")

    def some_append_table(self) -> str:
        return self.chance.choice([each for each in self.project.tables("shop") if ".u_" not in each])

    def load(self, name: str) -> Table:
        return self.project.catalog().load_table(name)

    def rollback(self, name: str, how: str) -> None:
        """The verb twice with the same words, killed now and then; what `--skip` gave up is noted."""
        table = self.load(name)
        line = ancestry(table)
        if len(line) < 2:
            return
        target = self.chance.choice(line[1:6])
        fault = {"FLOE_FAULT": "table-recovered=kill"} if self.chance.random() < 0.3 else {}
        for number in range(2):
            known = {each.snapshot_id for each in self.load(name).metadata.snapshots}
            code, output = self.control(
                "rollback", "--table", name, "--to", str(target), f"--{how}", env=fault if not number else {}
            )
            # Where somebody expires the snapshot between the plan and the act, the same command is never to be run again.
            is_there = self.load(name).snapshot_by_id(target) is not None
            again = code == 1 and "FLOE-R354" in output and is_there
            assert code in (0, 5, 6, -signal.SIGKILL) or again, output
            self.story[
                f"rollback --{how}" + ("" if code in (0, -signal.SIGKILL) else f" refused {last_error(output)[:18]}")
            ] += 1
            self.note_given_up(name, known, how)

    def note_given_up(self, name: str, known: set[int], how: str) -> None:
        table = self.load(name)
        for each in table.metadata.snapshots:
            said = each.summary.additional_properties if each.summary is not None else {}
            if each.snapshot_id in known or "floe.rolled-back-from" not in said:
                continue
            assert each.parent_snapshot_id is not None
            gone = ids_at(table, int(said["floe.rolled-back-from"])) - ids_at(table, each.parent_snapshot_id)
            self.tell(f"{name}: {how} takes {len(gone)} ids out")
            if how == "skip":
                self.given_up[name] |= gone

    def refused_on_upserts(self) -> None:
        """Upsert tables refuse to go back, and nothing of them changes."""
        name = self.chance.choice([each for each in self.project.tables("shop") if ".u_" in each])
        line = ancestry(self.load(name))
        if len(line) < 2:
            return
        code, output = self.control("rollback", "--table", name, "--to", str(line[-1]), "--skip")
        assert code != 0, output
        assert "FLOE-R145" in output or "FLOE-R356" in output, output
        self.story["rollback of an upsert table refused"] += 1

    def replay(self, name: str) -> None:
        """What a table lacks is read again; a second time there is nothing to do."""
        file = self.files["fan" if ".f_" in name else "side"]
        for _ in range(2):
            code, output = self.control("replay", file, "--table", name)
            assert code == 0 or last_error(output), output
            self.story["replay" + ("" if code == 0 else f" refused {last_error(output)[:18]}")] += 1

    def discard(self, name: str) -> None:
        """Nothing waits that could not come: refused, or nothing to do, twice."""
        for _ in range(2):
            code, output = self.control("discard", "--table", name)
            assert code in (0, 5), output
            assert "given up" not in output.replace("nothing needs to be given up", ""), output
            self.story["discard without need"] += 1

    def rebase(self) -> None:
        """The control topic is lost and made anew; all pipelines are taken over, twice."""
        self.alive["coordinator"].kill()
        admin = AdminClient({"bootstrap.servers": self.project.bootstrap_servers})
        topic = self.project.control_topic
        admin.delete_topics([topic])[topic].result(30)
        wait_for(lambda: topic not in admin.list_topics(timeout=20).topics, "the end of the control topic")
        time.sleep(7)
        known = [each.group_id for each in admin.list_consumer_groups().result().valid]
        groups = [each for each in known if "coordinator" in each and self.project.prefix in each]
        for future in admin.delete_consumer_groups(groups).values() if groups else ():
            future.result(30)
        for file in self.files.values():
            for number in range(2):
                for _ in range(5):
                    code, output = self.control("rebase", file)
                    if "FLOE-R346" not in output:
                        break  # else a neighbour committed since the look, and the remedy says to run it again
                assert code == 0, output
                assert number == 0 or "nothing to do" in output, output
        self.paused = []
        self.story["rebase after the loss of the control topic"] += 1

    def verbs(self, rebase: bool = False) -> None:
        """The driver ends, verbs in random order on some tables, the driver begins again."""
        self.end_driver()
        name, other = self.some_append_table(), self.some_append_table()
        acts = [
            lambda: self.rollback(name, "replay"),
            lambda: self.rollback(other, "skip"),
            lambda: self.discard(name),
            lambda: self.rollback(name, self.chance.choice(["replay", "skip"])),
            self.refused_on_upserts,
        ]
        self.chance.shuffle(acts)
        is_first = not any(each.startswith("rollback") for each in self.story)
        for act in acts[: len(acts) if is_first else self.chance.randrange(2, len(acts) + 1)]:
            act()
        if rebase:
            self.rebase()
        if is_first or self.chance.random() < 0.4:
            self.replay(name)
        self.start_driver()
        if rebase:
            self.start_coordinator()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everybody wakes and ends, pauses end, what is announced is committed and what is noted is read again."""
        for run in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGCONT)
        for run in self.beside:
            run.wait(300)
            assert "Traceback" not in run.output, run.output
        for name in self.alive:
            self.end(name)
        self.resume()
        self.caught_up()
        for name in self.project.tables("shop"):
            if "floe.missing" in self.load(name).properties:
                file = self.files["fan" if ".f_" in name else "side"]
                self.control("replay", file, "--table", name, code=0)
                self.control("replay", file, "--table", name, code=0)
        self.caught_up()

    def caught_up(self) -> None:
        for _ in range(3):  # to the broker a killed run is alive for some seconds more
            run = self.begin("run", *self.files.values(), "--until-caught-up")
            if run.wait(900) == 0:
                return
        raise AssertionError(run.output[-4000:])

    def close(self) -> None:
        for run in self.started:
            run.__exit__()


def last_error(output: str) -> str:
    found = [line for line in output.splitlines() if "error[FLOE-" in line]
    return found[-1].strip()[found[-1].strip().find("error[") :][:200] if found else ""


def ancestry(table: Table) -> list[int]:
    """The ids of the head and what it was built on, newest first."""
    by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
    found, at = [], table.metadata.current_snapshot_id
    while at is not None and at in by_id:
        found.append(at)
        at = by_id[at].parent_snapshot_id
    return found


def ids_at(table: Table, snapshot_id: int) -> set[int]:
    return set(table.scan(snapshot_id=snapshot_id, selected_fields=("id",)).to_arrow()["id"].to_pylist())
