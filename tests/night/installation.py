"""A live installation that faults are planted in: broker, catalog, store, three pipelines in two drivers, a coordinator, a page,
and records all the time.

In: a folder. Out: doors to hurt each part and to mend it, and the screens that a person looks at. Processes are found among
those that it started, and ended by their ids.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyiceberg.catalog import Catalog, load_catalog

from framework.local import stack
from framework.local.broker import free_port
from testbed.format_samples import avro_bytes, framed, record_of
from testbed.servers.registry import RegistryServer
from testbed.servers.rest_catalog import RestCatalog
from tests.chaos.harness import Running, kill, wait_for
from tests.chaos.proxy import HttpProxy
from tests.conftest import Broker
from tests.night import screens
from tests.night.judge import calm
from tests.night.screens import WELL, Screen, Watched
from tests.project import FLOE, Project

CONTROL_TOPIC = "control-iceberg"
PARTITIONS = 2
RATE = 20  # records a second of each topic
STALLED_MS = 8_000
UP_TO_DATE_MS = 8_000

ORDERS = """
    source:
      kafka: {connection: main, topics: [orders]}
      format: {type: avro, registry: main}
      metadata_columns: [topic, partition, offset]
    routes: {rules: [{table: shop.orders}], allow_tables: ["shop.*"]}
    tables: {defaults: {commit: {interval: 1s}}}
    errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}
    trigger: {every: 1s}
"""
CUSTOMERS = """
    source:
      kafka: {connection: main, topics: [customers]}
      schema: {id: {type: long}, name: {type: string}, n: {type: long}}
    routes: {rules: [{table: shop.customers}], allow_tables: ["shop.*"]}
    tables: {defaults: {write: {mode: upsert, key: [id]}, commit: {interval: 1s}}}
    errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}
    trigger: {every: 1s}
"""
CLICKS = """
    source:
      kafka: {connection: main, topics: [clicks]}
      metadata_columns: [topic, partition, offset]
    routes: {rules: [{table: web.clicks}], allow_tables: ["web.*"]}
    tables: {defaults: {commit: {interval: 1s}}}
    errors: {policy: dead_letter, dead_letter_table: web.dead_letters, dead_letter_topic: clicks-dead}
    trigger: {every: 1s}
"""
PIPELINES = {"orders": ORDERS, "customers": CUSTOMERS, "clicks": CLICKS}
ORDER = record_of({"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "n", "type": "long"})
# What the load, floe and whoever deletes and makes it again do with a topic.
TOPIC_RIGHTS = tuple(
    getattr(AclOperation, name)
    for name in ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
)
TABLES = {"orders": "shop.orders", "customers": "shop.customers", "clicks": "web.clicks"}
DRIVERS = {"shop": ("orders", "customers"), "web": ("clicks",)}
# Some faults move leadership. Of more than three in a quarter of an hour floe tells, truly, until that is over.
FLAPS = "FLOE-R153"
FLAPPED = "the coordinator is in trouble"


def _right(topic: str, operation: AclOperation) -> tuple[object, ...]:
    return (
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL),
        *("User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW),
    )


class Load:
    """Writes records to all topics, so many a second, until it is closed. What the broker does not take it keeps for later.
    Those of `orders` are Avro's, by the schema of `schema_id`."""

    def __init__(self, bootstrap_servers: str, schema_id: int) -> None:
        self._servers = bootstrap_servers
        self.schema_id = schema_id
        self._closing = threading.Event()
        self.poison: dict[str, float] = {}  # by topic, the share of records that are no JSON
        self.paused: set[str] = set()
        self.written = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(60)

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "linger.ms": 20, "message.timeout.ms": 300_000, "log_level": 0}
        )
        number = 0
        while not self._closing.wait(1 / RATE):
            number += 1
            for topic in PIPELINES:
                if topic in self.paused:
                    continue
                record = {"id": number % 500, "name": f"n{number}", "n": number}
                value = json.dumps(record).encode()
                if topic == "orders":
                    value = framed(self.schema_id, avro_bytes(ORDER, record))
                if number % 10 < self.poison.get(topic, 0.0) * 10:
                    value = value[:-1]
                with suppress(BufferError):
                    producer.produce(topic, value, str(number % 500))
            self.written = number
            producer.poll(0)
        producer.flush(5)


class _Typed(Project):
    """The same project, whose commands are taken as they are typed."""

    def __init__(self, project: Project) -> None:
        self.__dict__.update(project.__dict__)

    def command(self, *args: str | Path) -> list[str]:
        return [*FLOE, *map(str, args)]


class Installation:
    """All of it. `start`, then faults and screens, then `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kafka_dir = root / "kafka"
        port = free_port()
        config = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "1000",
        }
        state = stack.up(self._kafka_dir, kafka_port=port, broker_config=config)
        self.broker = Broker(self._kafka_dir, state.bootstrap_servers, config)
        self.admin = AdminClient({"bootstrap.servers": state.bootstrap_servers})
        self.rest = RestCatalog(root / "rest").start()
        self.proxy = HttpProxy(self.rest.port)
        self.registry = RegistryServer()
        self.has_registry = True
        self.project = Project(root / "project", state.bootstrap_servers)
        self.project.control_topic = CONTROL_TOPIC
        self.project.write_target(catalog=self.rest.settings(self.proxy.uri))
        target = root / "project" / "pipelines" / "targets" / "it.yaml"
        listen = f'monitoring: {{listen: "127.0.0.1:{free_port()}", stalled_after_ms: {STALLED_MS}}}\n'
        registry = f"  registry:\n    main:\n      url: {self.registry.url}\n"
        target.write_text(target.read_text().replace("spark:\n", f"{registry}spark:\n") + listen)
        self.files = {name: self.project.pipeline(name, text) for name, text in PIPELINES.items()}
        self.running: dict[str, Running] = {}
        self.ops: subprocess.Popen[str] | None = None
        self.url = ""
        self.load: Load | None = None
        self.said: list[str] = []
        self.frozen: list[int] = []
        self.limited: list[int] = []
        self.slow = threading.Event()

    # ---- its life ------------------------------------------------------------------------------------------------

    def start(self) -> Installation:
        for topic in (*PIPELINES, "clicks-dead"):
            self.new_topic(topic)
        for operation in TOPIC_RIGHTS:
            self.grant("clicks", operation)
        self.load = Load(self.broker.bootstrap_servers, self.new_schema())
        self.ensure()
        self.healthy()
        return self

    def new_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        settings = {"retention.ms": "-1"}
        (future,) = self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values()
        future.result(30)

    def stop_registry(self) -> None:
        self.registry.stop()
        self.has_registry = False

    def start_registry(self) -> None:
        if not self.has_registry:
            self.registry.start()
        self.has_registry = True

    def new_schema(self) -> int:
        """One more version of the schema of `orders`, which means the same; returns its id."""
        schema = {**ORDER, "doc": f"version of {time.time()}"}
        return self.registry.register("orders-value", json.dumps(schema))[0]

    def grant(self, topic: str, operation: AclOperation) -> None:
        """Who is not known may do this with the topic; all else with it is refused, once one thing was granted."""
        for future in self.admin.create_acls([AclBinding(*_right(topic, operation))]).values():
            future.result(10)

    def revoke(self, topic: str, operation: AclOperation) -> None:
        for future in self.admin.delete_acls([AclBindingFilter(*_right(topic, operation))]).values():
            assert future.result(10), "there was no such right"

    def ensure(self) -> None:
        """Start what does not run; what a person would do who was called."""
        for name, run in list(self.running.items()):
            if not run.running:
                self.said.append(f"{name} ended with {run.process.returncode}\n{run.output[-2000:]}")
                run.__exit__()
                del self.running[name]
        if "coordinator" not in self.running:
            self.running["coordinator"] = Running(self.project, "coordinator")
        for name, pipelines in DRIVERS.items():
            if name not in self.running:
                self.running[name] = Running(self.project, "run", *(self.typed_file(each) for each in pipelines))
        for run in self.running.values():
            run.wait_for_output("metrics and health at ")
        if self.ops is None:
            self._start_page()

    def typed_file(self, pipeline: str) -> str:
        """As a person types it, who is in the project's folder."""
        return str(self.files[pipeline].relative_to(self.project.root))

    def _start_page(self) -> None:
        wait_for(lambda: CONTROL_TOPIC in self.admin.list_topics(timeout=10).topics, "the control topic")
        self.ops = subprocess.Popen(
            [sys.executable, "-m", "framework.cli.main", "ops", "-t", "it", "--listen", "127.0.0.1:0"],
            cwd=self.project.root,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.ops.stderr is not None
        line = self.ops.stderr.readline()
        found = re.search(r"the page is at (http://\S+)", line)
        assert found is not None, line
        self.url = found[1]
        threading.Thread(target=self.ops.stderr.read, daemon=True).start()

    def healthy(self, timeout_s: float = 150) -> float:
        """Until every screen says that all is well; returns how long that took."""
        begun = time.monotonic()
        wanted = {("pipeline", name) for name in PIPELINES} | {("table", name) for name in TABLES.values()}

        def well(screen: Screen) -> bool:
            found = {(line.kind, line.name) for line in screen.lines if line.state in WELL}
            is_calm = screen.name != "page" or calm(screen.headline) or screen.headline == FLAPPED
            return wanted <= found and not self.troubles(screen) and is_calm

        seen = self.watched().until(well, timeout_s)
        missing = [name for name in screens.SCREENS if name not in seen]
        assert not missing, "\n".join(self.readers()[name]().text[-3000:] for name in missing) + "".join(self.said)
        wait_for(self._is_up_to_date, "records of a moment ago in each table", timeout_s)
        return time.monotonic() - begun

    def _is_up_to_date(self) -> bool:
        """Whether records of the last seconds are in all tables: a run that has just begun is live before it reads."""
        _, out = self.floe("status", "--json")
        assert "{" in out, f"no document: {out}"
        found = json.loads(out[out.index("{") :])
        if not found["ok"]:
            return False
        return all(
            each["lag"] < 10 * RATE and (each["freshness_ms"] or UP_TO_DATE_MS) < UP_TO_DATE_MS
            for each in found["pipelines"]
        )

    def is_through(self, moment_s: float) -> bool:
        """Whether all that was written until a second after this moment is in the tables."""
        _, out = self.floe("status", "--json")
        found = json.loads(out[out.index("{") :]) if "{" in out else {"ok": False}
        through = [each["valid_through_ms"] or 0 for each in found["pipelines"]] if found["ok"] else []
        return bool(through) and min(through) > (moment_s + 1) * 1000

    @staticmethod
    def troubles(screen: Screen) -> list[screens.Line]:
        """What is not well on a screen, but for what all faults before did together."""
        return [line for line in screen.lines if line.state not in WELL and line.code != FLAPS]

    def reset(self) -> None:
        """Take back whatever was planted, however far that got."""
        kill([self.broker_pid] if self._is_broker_there() else [], signal.SIGCONT)
        kill(reversed(self.frozen), signal.SIGCONT)
        self.broker.restart()
        self.proxy.before = self.proxy.after = lambda method, path: None
        self.slow.set()
        self.start_registry()
        self.grant("clicks", AclOperation.READ)
        if self.load is not None:
            self.load.poison.clear()
            self.load.paused.clear()
        away = self.warehouse.with_name("away")
        if away.is_dir():
            self.warehouse.unlink(missing_ok=True)
            away.rename(self.warehouse)
        how = ["chattr", "-R", "-i"] if os.geteuid() == 0 else ["chmod", "-R", "u+w"]
        subprocess.run([*how, str(self.warehouse)], check=False, capture_output=True)
        found = self.admin.list_topics(timeout=20).topics
        for topic in (*PIPELINES, "clicks-dead"):
            if topic not in found:
                self.new_topic(topic)

    def _is_broker_there(self) -> bool:
        return stack.status(self._kafka_dir).pid is not None

    def close(self) -> None:
        if self.load is not None:
            self.load.close()
        if self.ops is not None:
            kill([self.ops.pid], signal.SIGCONT)
            self.ops.terminate()
            self.ops.wait(20)
        for run in self.running.values():
            run.__exit__()
        kill([self.broker_pid] if self._is_broker_there() else [], signal.SIGCONT)
        self.proxy.close()
        self.rest.stop()
        self.registry.stop()
        stack.down(self._kafka_dir, wipe=True)

    # ---- what a person has ---------------------------------------------------------------------------------------

    def floe(self, *args: str, timeout_s: float = 120) -> tuple[int, str]:
        """`floe ARGS -t it`, in the project's folder: exit code and standard output, or the error's where there is none."""
        done = subprocess.run(
            [sys.executable, "-m", "framework.cli.main", *args, "-t", "it"],
            cwd=self.project.root,
            env={**os.environ, "COLUMNS": "400"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout or done.stderr

    def type(self, command: str, timeout_s: float = 120) -> tuple[int, str]:
        """A command as it is shown, typed into a shell in the project's folder."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project.root,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout + done.stderr

    def readers(self) -> dict[str, Any]:
        return {
            "status": lambda: screens.status(self.floe),
            "top": lambda: screens.top(self.floe),
            "page": lambda: screens.page(self.url),
            "metrics": lambda: screens.metrics(self.metrics_urls()),
        }

    def watched(self) -> Watched:
        return Watched(self.readers())

    def metrics_urls(self) -> list[str]:
        found = (re.search(r"metrics and health at (http://\S+/metrics)", run.output) for run in self.running.values())
        return [one[1] for one in found if one is not None]

    # ---- what can be hurt ----------------------------------------------------------------------------------------

    @property
    def broker_pid(self) -> int:
        pid = stack.status(self._kafka_dir).pid
        assert pid is not None
        return pid

    @property
    def warehouse(self) -> Path:
        return self.rest.root / "warehouse"

    def catalog(self) -> Catalog:
        """As another program reaches it, without the proxy."""
        return load_catalog("default", **self.rest.settings())

    def pid_of(self, name: str) -> int:
        return self.running[name].pid

    def owner(self) -> str:
        """Which of the processes coordinates."""
        for name, run in self.running.items():
            (url,) = [u for u in [re.search(r"metrics and health at (http://\S+/metrics)", run.output)] if u]
            screen = screens.metrics([url[1]])
            if (
                "floe_coordinator_owner" in screen.text
                and "1.0" in screen.text.split("floe_coordinator_owner")[1].split("\n")[0]
            ):
                return name
        raise AssertionError("nobody coordinates")

    def settings(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def restart(self, name: str, command: str) -> None:
        """A driver by a command as it is shown."""
        run = self.running.pop(name, None)
        if run is not None:
            run.__exit__()
        words = shlex.split(command)
        assert words[0] == "floe", command
        self.running[name] = Running(_Typed(self.project), *words[1:])
        self.running[name].wait_for_output("metrics and health at ")
