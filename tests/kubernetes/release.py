"""The chart in a namespace of its own, on a broker and a catalog of the tests: one driver that lands one topic of orders.

In: a control plane with its node, a broker, servers. Out: pods to trouble, records that arrive beside them, and a check that
each of these is in its table once. `target_for` and `rows_in` serve other tests of this folder, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pyiceberg.catalog import load_catalog

from testbed.servers.kubernetes.control_plane import ControlPlane
from testbed.servers.kubernetes.kubelet import Kubelet
from testbed.servers.kubernetes.pods import RunningPod
from testbed.servers.places import Place, Servers
from testbed.servers.spark_reader import java_read
from tests.chaos.checker import assert_exact
from tests.conftest import Broker
from tests.kubernetes.manifests import FOLDER, template
from tests.project import Project

REGIONS = ("eu", "us", "ap")
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "shop.orders_{{region}}"}}]
      unrouted: fail
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


def target_for(bootstrap_servers: str, place: Place) -> tuple[dict[str, Any], dict[str, str]]:
    """The example target with the addresses of this machine, and the files of the Secret `floe` by their names."""
    target = yaml.safe_load((FOLDER / "target.yaml").read_text())
    target["connections"]["kafka"]["main"]["bootstrap.servers"] = bootstrap_servers
    by_file = {key: f"${{secret:file:/run/secrets/floe/{key}}}" for key in place.secrets}
    target["connections"]["catalog"]["default"] = {**place.settings, **by_file}
    # All pods have addresses of this one machine, so that each listens at its own alone.
    target["monitoring"]["listen"] = "${env:POD_IP}:9464"
    return target, {**place.secrets, "metrics-token": "m" * 32, "page-tokens": f"ann act {'p' * 32}"}


def rows_in(settings: dict[str, str], namespace: str) -> int:
    """What the snapshots say, without a file being read."""
    catalog = load_catalog("default", **settings)
    if (namespace,) not in catalog.list_namespaces():
        return 0
    snapshots = [catalog.load_table(name).current_snapshot() for name in catalog.list_tables(namespace)]
    return sum(int(each.summary["total-records"] or 0) for each in snapshots if each and each.summary)


class Release:
    """The chart in a namespace of its own, with one driver and no coordinator beside it, on one topic of orders."""

    def __init__(
        self, root: Path, plane: ControlPlane, kubelet: Kubelet, broker: Broker, servers: Servers, executors: int = 0
    ) -> None:
        self._plane, self._kubelet, self._broker = plane, kubelet, broker
        self.project = Project(root, broker.bootstrap_servers)
        self.topic = broker.new_topic("pods", partitions=2)
        self.sent = 0
        self.namespace = self.project.prefix
        place = servers.place("rest-s3", root)
        self.project.catalog_settings = place.resolved
        self.tables_of = f"shop_{self.project.prefix.replace('-', '_')}"
        pipeline = self.project.pipeline("orders", PIPELINE.format(topic=self.topic).replace("shop", self.tables_of))
        target, secrets = target_for(broker.bootstrap_servers, place)
        target["prefix"] = self.project.prefix
        if executors:
            target["spark"] = _spark_on_pods(executors)
        (root / "target.yaml").write_text(json.dumps(target))
        self.kubectl("create", "namespace", self.namespace)
        # The API server refuses pods that are not as restricted as its strictest standard asks: executors, too.
        plane.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted")
        self.kubectl("create", "configmap", "floe-pipelines", f"--from-file={pipeline}")
        self.kubectl("create", "configmap", "floe-targets", f"--from-file=kubernetes.yaml={root / 'target.yaml'}")
        self.kubectl("create", "secret", "generic", "floe", *(f"--from-literal={k}={v}" for k, v in secrets.items()))
        values = "coordinator.enabled=false,page.enabled=false,drivers[0].name=orders,drivers[0].files={orders.yaml}"
        values += f",driver.executors={str(bool(executors)).lower()}"
        self.chart = template("--namespace", self.namespace, "--set", values)
        self._plane.kubectl("apply", "-f", "-", text=self.chart)

    def kubectl(self, *words: object) -> str:
        return self._plane.kubectl("-n", self.namespace, *words)

    def send(self, count: int = 600) -> None:
        rows = [{"id": i, "region": REGIONS[i % 3]} for i in range(self.sent, self.sent + count)]
        self._broker.produce(self.topic, rows)
        self.sent += count

    def driver(self, but: RunningPod | None = None) -> RunningPod:
        """The driver that is ready, and not another one."""
        found: list[RunningPod] = []

        def look() -> bool:
            for pod in self._plane.get("-n", self.namespace, "pods", "-l", "app.kubernetes.io/name=floe")["items"]:
                running = self._kubelet.pods.get(pod["metadata"]["name"])
                conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
                if running is not None and running is not but and conditions.get("Ready") == "True":
                    found.append(running)
            return bool(found)

        self.wait(look, "a driver", 180)
        return found[-1]

    def wait(self, condition: Callable[[], object], what: str, timeout_s: float) -> None:
        """Where it takes too long, the pods' logs are shown."""
        try:
            self._plane.wait(condition, what, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._logs()}") from None

    def wait_for_rows(self, timeout_s: float = 180) -> None:
        settings = self.project.catalog_settings
        self.wait(lambda: rows_in(settings, self.tables_of) >= self.sent, f"{self.sent} rows", timeout_s)

    def check(self) -> None:
        """Each record once, and in the namespace's tables nothing else."""
        self.wait_for_rows()
        servers = self.project.bootstrap_servers
        assert_exact(self.project.catalog(), servers, [self.topic], namespaces=[self.tables_of])

    def check_by_spark(self) -> None:
        """The same, as Spark with Iceberg's own runtime reads it."""
        tables = [f"`default`.{self.tables_of}.orders_{region}" for region in REGIONS]
        union = " UNION ALL ".join(f"SELECT id FROM {table}" for table in tables)
        read = java_read(
            self.project.catalog_settings, [f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM ({union})"]
        )
        assert read.rows[0] == [{"n": self.sent, "ids": self.sent}]

    def end(self) -> None:
        self.kubectl("delete", "deployment", "--all", "--cascade=foreground", "--timeout=200s")
        self._plane.kubectl("delete", "namespace", self.namespace, "--wait=false")

    def executors(self) -> list[RunningPod]:
        """All that were started, in their order."""
        found = [each for each in self._kubelet.pods.values() if each.namespace == self.namespace]
        return [each for each in found if "-exec-" in each.name]

    def dead_executors(self) -> list[str]:
        """Pods of executors that have ended, and are there still."""
        pods = self._plane.get("-n", self.namespace, "pods", "-l", "spark-role=executor")["items"]
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in ("Failed", "Succeeded")]

    def asked(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """What the driver's account was allowed, and what it was not: kinds and verbs."""
        name = f"system:serviceaccount:{self.namespace}:floe-driver"
        found: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
        for line in self._plane.audit.read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == name and "objectRef" in event:
                is_allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow"
                found[is_allowed].add((event["objectRef"]["resource"], event["verb"]))
        return found[True], found[False]

    def wait_for_exit(self, running: RunningPod, code: int) -> None:
        self.wait(lambda: running.exit_codes == [code], f"exit code {code}", 120)

    def evict(self, running: RunningPod) -> None:
        """As `kubectl drain` does, which heeds budgets."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": running.name}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{running.name}/eviction"
        self._plane.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))

    def _logs(self) -> str:
        pods = [each for each in self._kubelet.pods.values() if each.namespace == self.namespace]
        return "\n".join(f"== {each.folder.name}\n{each.log.read_text()[-1500:]}" for each in pods if each.log.exists())


def _spark_on_pods(executors: int) -> dict[str, object]:
    """The lines that the example target shows, uncommented."""
    lines = (FOLDER / "target.yaml").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith('  # master: "k8s'))
    shown: dict[str, dict[str, object]] = yaml.safe_load("\n".join(line.replace("# ", "", 1) for line in lines[start:]))
    conf = {"spark.executor.instances": executors, "spark.executor.memory": "512m"}
    return {**shown, "conf": {**shown["conf"], **conf}}
