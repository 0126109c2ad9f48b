"""The commands of docs/kubernetes.md, typed as they stand: from an empty API server to every flight in its table."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.local import nycflights, stack
from framework.local.fill_topic import replay
from testbed.servers.kubernetes.control_plane import ControlPlane
from testbed.servers.kubernetes.kubelet import Kubelet
from testbed.servers.kubernetes.programs import kubernetes_programs
from testbed.servers.places import Place, Servers
from testbed.servers.spark_reader import java_read
from tests.kubernetes.release import rows_in, target_for

pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow),
    pytest.mark.timeout(2400),
]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kubernetes.md"
NAMESPACE = "flights_by_carrier"


@dataclass(frozen=True)
class Stand:
    """A folder as a person's, a control plane with a node, and where the tables are."""

    folder: Path
    plane: ControlPlane
    kubelet: Kubelet
    place: Place


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    state = stack.up(tmp_path / "broker", kafka_port=0, progress=print)
    servers = Servers(tmp_path / "servers")
    plane = None
    kubelet = None
    try:
        for topic in (nycflights.FLIGHTS, nycflights.WEATHER):
            _fill(state.bootstrap_servers, topic)
        place = servers.place("rest-s3", tmp_path)
        folder = tmp_path / "project"
        _write(folder, state.bootstrap_servers, place)
        plane = ControlPlane(tmp_path / "plane")
        kubelet = Kubelet(plane, tmp_path / "node")
        yield Stand(folder, plane, kubelet, place)
    finally:
        if kubelet is not None:
            kubelet.stop()
        if plane is not None:
            plane.stop()
        servers.stop()
        stack.down(tmp_path / "broker", wipe=True)


def test_six_commands_bring_every_flight_into_its_table(
    stand: Stand, record_property: Callable[[str, object], None]
) -> None:
    """Each flight once, as Spark with Iceberg's runtime reads it, and rows and miles of each table; drivers, coordinators
    and the page become ready by their probes; no secret is in a log. Drivers and coordinators drain, and end with 0."""
    commands = _commands()
    assert len([line for line in commands if line.startswith("kubectl")]) <= 6
    for command in commands:
        _type(stand, command)

    wanted, miles = _wanted()
    everything = sum(wanted.values())
    settings = stand.place.resolved
    stand.plane.wait(lambda: rows_in(settings, NAMESPACE) >= everything, f"{everything} rows", 900)

    tables = sorted(wanted)
    union = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS rows, "
        f"{'sum(distance)' if name in miles else 'NULL'} AS distance FROM `default`.{name}"
        for name in tables
    )
    read = java_read(stand.place.resolved, [union], tables)
    by_table = {str(row["name"]): row for row in read.rows[0]}
    assert {name: row["rows"] for name, row in by_table.items()} == wanted
    assert {name: by_table[name]["distance"] for name in miles} == miles
    assert read.counts == wanted

    stand.plane.kubectl("-n", "floe", "scale", "deployment", "--all", "--replicas=0")
    stand.plane.wait(lambda: not stand.plane.get("-n", "floe", "pods")["items"], "the drain", 240)
    # The page has nothing to finish: a signal ends it as it ends any other command.
    codes = {(name.rsplit("-", 2)[0], *each.exit_codes) for name, each in stand.kubelet.pods.items()}
    assert codes == {("floe-flights", 0), ("floe-coordinator", 0), ("floe-page", 143)}
    secrets = [each.read_text().split()[-1] for each in (stand.folder / "secrets").iterdir()]
    for running in stand.kubelet.pods.values():
        assert not [secret for secret in secrets if secret in running.log.read_text()]
    record_property("flights", nycflights.FLIGHTS.records)
    record_property("tables", len(miles))


def _commands() -> list[str]:
    """Those of the page, but what starts nothing."""
    text = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"## Six commands\n\n```bash\n(.*?)```", text, re.S)
    return [line for line in block.splitlines() if line]


def _type(stand: Stand, command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "kubectl"
    program = str(kubernetes_programs() / "kubectl")
    answer = subprocess.run(
        [program, "--kubeconfig", str(stand.plane.kubeconfig), *words[1:]],
        cwd=stand.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=700,
    )
    logs = "".join(f"\n== {name}\n{each.log.read_text()[-1500:]}" for name, each in stand.kubelet.pods.items())
    assert answer.returncode == 0, f"{command}: {answer.stderr}{logs}"


def _write(folder: Path, bootstrap_servers: str, place: Place) -> None:
    """What the page says is there: the repository's files, with the addresses of this machine in the target."""
    (folder / "secrets").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    shutil.copytree(ROOT / "pipelines", folder / "pipelines")
    pipeline = folder / "pipelines" / "flights.yaml"
    # By month: a store written in Python takes minutes for the six thousand files that days make.
    pipeline.write_text(pipeline.read_text().replace("day(time_hour)", "month(time_hour)").partition("\ntests:")[0])
    document, secrets = target_for(bootstrap_servers, place)
    (folder / "deploy" / "kubernetes" / "target.yaml").write_text(json.dumps(document))
    for key, value in secrets.items():
        (folder / "secrets" / key).write_text(value + "\n")


def _fill(bootstrap_servers: str, topic: nycflights.DemoTopic) -> None:
    archive = nycflights.fetch(print)
    records = lambda: nycflights.records(archive, topic)  # noqa: E731
    replay(bootstrap_servers, topic.name, topic.partitions, records, topic.records, lambda _: None)


def _wanted() -> tuple[dict[str, int], dict[str, int]]:
    """Rows by table, and miles by table of flights, from the data alone."""
    rows: Counter[str] = Counter()
    miles: Counter[str] = Counter()
    for _, _, value in nycflights.records(nycflights.fetch(print), nycflights.FLIGHTS):
        flight = json.loads(value)
        table = f"{NAMESPACE}.carrier_{flight['carrier'].lower()}"
        rows[table] += 1
        miles[table] += flight["distance"]
    rows[f"{NAMESPACE}.weather"] = nycflights.WEATHER.records
    return dict(rows), dict(miles)
