"""The faults that are planted, what a person should then read, and what ends each of them.

In: an `Installation`. Out: faults by name. What ends a fault is the remedy as it is shown, typed into a shell, or what the
remedy says that somebody outside has to do.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, NewPartitions
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.chaos.harness import Process, Running, descendants, kill, python_daemons_of, python_workers_of, wait_for
from tests.chaos.test_outages import limit_file_size
from tests.night.installation import CONTROL_TOPIC, DRIVERS, PIPELINES, STALLED_MS, Installation
from tests.night.judge import Expected, ExpectedText
from tests.night.screens import Line

Expectation = Expected | ExpectedText
SHORT_DAY = Path(__file__).parents[1] / "chaos" / "short_day"
# A driver that has ended has no metrics of its own.
NO_DRIVER = ("status", "top", "page")


@dataclass(frozen=True)
class Fault:
    """`end` gets the lines that were shown of the first expectation, by screen. Without an expectation it goes on, and
    nothing is in trouble."""

    plant: Callable[[Installation], None]
    expected: tuple[Expectation, ...]
    end: Callable[[Installation, Mapping[str, Line]], None]


def typed(where: Installation, lines: Mapping[str, Line], word: str, code: int = 0) -> str:
    """The command with this word in it, as each screen shows it: the same on all, and whole. It is typed once."""
    shown = {
        name: [each for each in line.commands if word in each] for name, line in lines.items() if name != "metrics"
    }
    commands = {found[0] for found in shown.values() if found}
    # What a run said itself is read on the page, where no button copies it.
    shown |= {
        name: [each for each in commands if each in lines[name].remedy] for name, found in shown.items() if not found
    }
    assert [len(commands), all(shown.values())] == [1, True], f"other commands with `{word}` are shown: {shown}"
    (command,) = commands
    done, output = where.type(command)
    assert done == code, f"`{command}` ended with {done}\n{output}"
    return command


def nothing(where: Installation, lines: Mapping[str, Line]) -> None:
    """It ends by itself."""


# ---- broker ---------------------------------------------------------------------------------------------------------

NO_BROKER = ExpectedText(
    {
        "status": r"FLOE-E101",
        "top": r"FLOE-E101",
        "page": r"The broker cannot be asked",
        "metrics": r"floe_service_up \{'service': 'broker'\} 0\.0",
    }
)


def freeze_broker(where: Installation) -> None:
    kill([where.broker_pid], signal.SIGSTOP)


def thaw_broker(where: Installation, lines: Mapping[str, Line]) -> None:
    time.sleep(45)  # a minute with the time in which it was told
    kill([where.broker_pid], signal.SIGCONT)


def kill_broker(where: Installation) -> None:
    where.broker.kill()


def restart_broker(where: Installation, lines: Mapping[str, Line]) -> None:
    where.broker.restart()


# ---- catalog and store ----------------------------------------------------------------------------------------------

FAILS = ("DEGRADED", "FAILED")


def refuse_catalog(where: Installation) -> None:
    where.proxy.before = lambda method, path: 503


def mend_catalog(where: Installation, lines: Mapping[str, Line]) -> None:
    where.proxy.before = lambda method, path: None


def slow_catalog(where: Installation) -> None:
    ended = threading.Event()

    def wait(method: str, path: str) -> None:
        ended.wait(300)

    where.proxy.before = wait
    where.slow = ended


def fast_catalog(where: Installation, lines: Mapping[str, Line]) -> None:
    where.proxy.before = lambda method, path: None
    where.slow.set()


def take_store(where: Installation) -> None:
    where.warehouse.rename(where.warehouse.with_name("away"))
    where.warehouse.write_text("a file in the folder's place: nothing below it can be opened or made\n")


def give_store(where: Installation, lines: Mapping[str, Line]) -> None:
    where.warehouse.unlink()
    where.warehouse.with_name("away").rename(where.warehouse)


def lock_store(where: Installation) -> None:
    """Nothing can be written below it; as the superuser no mode does that."""
    how = ["chattr", "-R", "+i"] if os.geteuid() == 0 else ["chmod", "-R", "a-w"]
    subprocess.run([*how, str(where.warehouse)], check=False, capture_output=True)


def unlock_store(where: Installation, lines: Mapping[str, Line]) -> None:
    how = ["chattr", "-R", "-i"] if os.geteuid() == 0 else ["chmod", "-R", "u+w"]
    subprocess.run([*how, str(where.warehouse)], check=False, capture_output=True)


# ---- processes ------------------------------------------------------------------------------------------------------


def all_of(where: Installation, name: str) -> list[int]:
    found: list[Process] = descendants(where.pid_of(name))
    return [where.pid_of(name), *(each.pid for each in found)]


def kill_driver(where: Installation) -> None:
    kill(all_of(where, "web"))
    where.running["web"].process.wait(20)


def run_again(where: Installation, lines: Mapping[str, Line]) -> None:
    """What is shown is typed; it runs until it is ended."""
    shown = {each for name, line in lines.items() if name != "metrics" for each in line.commands if " run " in each}
    assert len(shown) == 1, f"the screens show other commands: {shown}"
    where.restart("web", shown.pop())


def set_clock(where: Installation) -> None:
    """A driver goes on on a machine whose clock is an hour ahead."""
    where.running.pop("web").__exit__()
    env = {"PYTHONPATH": str(SHORT_DAY), "FLOE_CHAOS_CLOCK_S": "3600"}
    where.running["web"] = Running(where.project, "run", *map(where.typed_file, DRIVERS["web"]), env=env)
    where.running["web"].wait_for_output(" announced in ")


def set_clock_back(where: Installation, lines: Mapping[str, Line]) -> None:
    where.running.pop("web").__exit__()


def freeze_driver(where: Installation) -> None:
    where.frozen = all_of(where, "web")
    kill(where.frozen, signal.SIGSTOP)


def thaw_driver(where: Installation, lines: Mapping[str, Line]) -> None:
    kill(reversed(where.frozen), signal.SIGCONT)


def freeze_coordinator(where: Installation) -> None:
    where.frozen = [where.pid_of("coordinator")]
    kill(where.frozen, signal.SIGSTOP)


def kill_coordinator(where: Installation) -> None:
    kill([where.pid_of("coordinator")])
    where.running["coordinator"].process.wait(20)


def fill_disk(where: Installation) -> None:
    """Tasks of one driver can write no more than a few bytes into a file, as on a disk that is full."""
    driver = where.pid_of("web")
    where.limited = [*python_daemons_of(driver), *python_workers_of(driver)]
    limit_file_size(where.limited, 16)


def free_disk(where: Installation, lines: Mapping[str, Line]) -> None:
    driver = where.pid_of("web")
    limit_file_size([*where.limited, *python_daemons_of(driver), *python_workers_of(driver)], None)


# ---- tables ---------------------------------------------------------------------------------------------------------


def drop_table(where: Installation) -> None:
    where.catalog().drop_table("web.clicks")


def register_table(where: Installation, lines: Mapping[str, Line]) -> None:
    """Its newest metadata file is put back: an older one would be another state of the table."""
    newest = max((where.warehouse / "web" / "clicks" / "metadata").glob("*.metadata.json"), key=lambda file: file.name)
    where.catalog().register_table("web.clicks", f"file:{newest}")


def rename_table(where: Installation) -> None:
    where.catalog().rename_table("web.clicks", "web.clicks_of_old")


def rename_back(where: Installation, lines: Mapping[str, Line]) -> None:
    where.catalog().rename_table("web.clicks_of_old", "web.clicks")


def roll_back(where: Installation) -> None:
    """Another engine sets the table to a snapshot of a moment ago."""
    wait_for(lambda: len(where.catalog().load_table("web.clicks").snapshots()) > 6, "some commits")
    table = where.catalog().load_table("web.clicks")
    before = table.snapshots()[-6].snapshot_id
    with table.transaction() as transaction:
        transaction._apply(  # type: ignore[attr-defined]
            (SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=before),), ()
        )


def settle_rollback(where: Installation, lines: Mapping[str, Line]) -> None:
    typed(where, lines, "floe stop", 6)  # a table is blocked, and what waits for it is not committed
    dry = typed(where, lines, "--dry-run")
    done, output = where.type(dry.replace(" --dry-run", ""))
    assert done == 0, output
    run_again(where, lines)


def drop_column(where: Installation) -> None:
    with where.catalog().load_table("web.clicks").update_schema() as update:
        update.delete_column("n")


def add_column(where: Installation) -> None:
    from pyiceberg.types import StringType

    with where.catalog().load_table("web.clicks").update_schema() as update:
        update.add_column(f"of_somebody_{int(time.time())}", StringType())


def append_rows(where: Installation) -> None:
    table = where.catalog().load_table("web.clicks")
    table.append(table.scan(limit=3).to_arrow())


# ---- topics ---------------------------------------------------------------------------------------------------------


def delete_topic(where: Installation) -> None:
    assert where.load is not None
    where.load.paused.add("clicks")
    where.admin.delete_topics(["clicks"])["clicks"].result(30)


def make_topic(where: Installation) -> None:
    def made() -> bool:
        try:
            where.new_topic("clicks")
        except Exception:
            return False
        return True

    wait_for(made, "the topic")


def stop_where_shown(where: Installation, lines: Mapping[str, Line]) -> None:
    """Its run ends by itself within seconds: `floe stop` either ends it or says how it ended, which is no success."""
    for command in {each for line in lines.values() for each in line.commands if each.startswith("floe stop ")}:
        done, output = where.type(command)
        assert done == 0 or (done == 1 and "FLOE-R316" in output), f"`{command}` ended with {done}\n{output}"


def go_on_with_new_topic(where: Installation, lines: Mapping[str, Line]) -> None:
    stop_where_shown(where, lines)
    typed(where, lines, "--begin-at earliest")
    run_again(where, lines)
    assert where.load is not None
    where.load.paused.discard("clicks")


def delete_and_make_topic(where: Installation) -> None:
    delete_topic(where)
    make_topic(where)


def make_topic_and_rebase(where: Installation, lines: Mapping[str, Line]) -> None:
    make_topic(where)
    assert where.load is not None
    seen = where.watched().until(lambda screen: RECREATED.found_on(screen) is not None, 30, ("status", "top", "page"))
    found = {name: RECREATED.found_on(screen) for name, screen in seen.items()}
    go_on_with_new_topic(where, {name: line for name, line in found.items() if line is not None})


RECREATED = Expected("pipeline", "clicks", ("BLOCKED", "FAILED"), "FLOE-R316", "recreated", "rebase", screens=NO_DRIVER)


def more_partitions(where: Installation) -> None:
    count = len(where.admin.list_topics("orders", timeout=10).topics["orders"].partitions)
    where.admin.create_partitions([NewPartitions("orders", count + 1)])["orders"].result(30)


def overtake(where: Installation) -> None:
    """Retention removes what a driver that stands still has not read."""
    freeze_driver(where)
    time.sleep(4)
    partitions = [TopicPartition("clicks", number, -1) for number in range(2)]
    for future in where.admin.delete_records(partitions).values():
        future.result(30)
    kill(reversed(where.frozen), signal.SIGCONT)


def allow_loss(where: Installation, lines: Mapping[str, Line]) -> None:
    typed(where, lines, "--allow-loss")
    run_again(where, lines)


def poison(where: Installation) -> None:
    assert where.load is not None
    where.load.poison["clicks"] = 0.1


def cure(where: Installation, lines: Mapping[str, Line]) -> None:
    assert where.load is not None
    where.load.poison.clear()


def lose_dead_letter_topic(where: Installation) -> None:
    where.admin.delete_topics(["clicks-dead"])["clicks-dead"].result(30)
    poison(where)


def make_dead_letter_topic(where: Installation, lines: Mapping[str, Line]) -> None:
    cure(where, lines)
    where.new_topic("clicks-dead")


def take_control_topic(where: Installation) -> None:
    where.admin.delete_topics([CONTROL_TOPIC])[CONTROL_TOPIC].result(30)


NO_CONTROL_TOPIC = ExpectedText(
    {
        "status": r"FLOE-E108",
        "top": r"FLOE-E108",
        "page": r"There is no control topic",
        "metrics": r"floe_service_up \{'service': 'broker'\} 0\.0",
    }
)


def rebase_all(where: Installation, lines: Mapping[str, Line]) -> None:
    """Whoever reads it ends the runs, and types what the next start of each pipeline says."""
    for name in list(where.running):
        where.running.pop(name).__exit__()
    for name in PIPELINES:
        driver = next(driver for driver, names in DRIVERS.items() if name in names)
        files = [where.typed_file(each) for each in (name, *(each for each in DRIVERS[driver] if each != name))]
        done, output = where.type(f"floe run {' '.join(files)} -t it")
        found = re.search(r"`(floe rebase [^`]+)`", output)
        assert (done, "FLOE-R319" in output, found is not None) == (5, True, True), output
        assert found is not None
        done, output = where.type(found[1])
        assert done == 0, f"`{found[1]}` ended with {done}\n{output}"


def refuse_reading(where: Installation) -> None:
    where.revoke("clicks", AclOperation.READ)


def allow_reading(where: Installation, lines: Mapping[str, Line]) -> None:
    """The command that is shown names what is missing; the administrator grants it."""
    shown = [command for line in lines.values() for command in line.commands if "doctor" in command]
    done, output = where.type(shown[0]) if shown else (-1, "no screen shows what to type")
    where.grant("clicks", AclOperation.READ)
    assert (done, "Read" in output and "clicks" in output) == (3, True), f"exit code {done}\n{output}"


def take_registry(where: Installation) -> None:
    """Producers write by a schema that nobody here has asked for yet, and the registry is gone."""
    assert where.load is not None
    schema_id = where.new_schema()
    where.stop_registry()
    where.load.schema_id = schema_id


def give_registry(where: Installation, lines: Mapping[str, Line]) -> None:
    where.start_registry()


# ---- two at once -----------------------------------------------------------------------------------------------------


def both(*plants: Callable[[Installation], None]) -> Callable[[Installation], None]:
    def plant(where: Installation) -> None:
        for each in plants:
            each(where)

    return plant


def mend_catalog_and_run_again(where: Installation, lines: Mapping[str, Line]) -> None:
    mend_catalog(where, lines)
    run_again(where, lines)


def mend_broker_and_catalog(where: Installation, lines: Mapping[str, Line]) -> None:
    mend_catalog(where, lines)
    thaw_broker(where, lines)


def register_and_resume(where: Installation, lines: Mapping[str, Line]) -> None:
    register_table(where, lines)
    resume(where, lines)


# ---- people ---------------------------------------------------------------------------------------------------------


def pause(where: Installation) -> None:
    code, output = where.floe("pause", "--reading", "clicks", "--why", "of the night")
    assert code == 0, output


def resume(where: Installation, lines: Mapping[str, Line]) -> None:
    typed(where, lines, "floe resume")


def pause_commits(where: Installation) -> None:
    code, output = where.floe("pause", "--commits", "web.clicks", "--why", "of the night")
    assert code == 0, output


def stop(where: Installation) -> None:
    code, output = where.floe("stop", "clicks")
    assert code == 0, output


VANISHED = Expected("pipeline", "clicks", ("FAILED",), "FLOE-R138", "vanished", r"`?floe run ", screens=NO_DRIVER)
MISSING = Expected("table", "web.clicks", ("BLOCKED",), "FLOE-R110", "missing|dropped|replaced", "put it back")
STORE = Expected("pipeline", "clicks", ("DEGRADED",), "FLOE-R324", "Cannot create|Failed to open", "takes files")
STORE_DOWN = Expected("service", "store", ("DOWN",), screens=("metrics",))
STALLS_S = STALLED_MS / 1000

FAULTS: dict[str, Fault] = {
    "broker frozen": Fault(freeze_broker, (NO_BROKER,), thaw_broker),
    "broker killed": Fault(kill_broker, (NO_BROKER,), restart_broker),
    "catalog refuses": Fault(
        refuse_catalog,
        (
            Expected("table", "web.clicks", FAILS, "FLOE-R136", "Service Unavailable", "doctor"),
            Expected("service", "catalog", ("DOWN",), screens=("metrics",)),
        ),
        mend_catalog,
    ),
    "catalog slow": Fault(
        slow_catalog,
        (
            Expected(
                "table", "web.clicks", ("STALLED",), "FLOE-R151", "progress", "doctor",
                15 + STALLS_S, f"`monitoring.stalled_after_ms` is {STALLS_S:.0f} s here, ten minutes where nothing is set",
            ),
        ),
        fast_catalog,
    ),
    "store away": Fault(take_store, (STORE, STORE_DOWN), give_store),
    "store read-only": Fault(lock_store, (STORE, STORE_DOWN), unlock_store),
    "driver killed": Fault(kill_driver, (VANISHED,), run_again),
    "driver frozen": Fault(freeze_driver, (VANISHED,), thaw_driver),
    "clock ahead": Fault(set_clock, (), set_clock_back),
    "coordinator frozen": Fault(freeze_coordinator, (), thaw_driver),
    "coordinator killed": Fault(kill_coordinator, (), nothing),
    "disk full": Fault(
        fill_disk,
        (Expected("pipeline", "clicks", ("DEGRADED",), "FLOE-R324", "File too large", "takes files"), STORE_DOWN),
        free_disk,
    ),
    "table dropped": Fault(drop_table, (MISSING,), register_table),
    "table renamed": Fault(rename_table, (MISSING,), rename_back),
    "column dropped": Fault(drop_column, (), nothing),
    "column added": Fault(add_column, (), nothing),
    "rows of somebody": Fault(append_rows, (), nothing),
    "snapshot rolled back": Fault(
        roll_back,
        (Expected("table", "web.clicks", ("BLOCKED",), "FLOE-R110", "rolled back", "floe rollback"),),
        settle_rollback,
    ),
    "topic deleted": Fault(
        delete_topic,
        (Expected("pipeline", "clicks", ("BLOCKED",), "FLOE-R315", "does not exist", "restore", screens=NO_DRIVER),),
        make_topic_and_rebase,
    ),
    "topic recreated": Fault(delete_and_make_topic, (RECREATED,), go_on_with_new_topic),
    "partitions added": Fault(more_partitions, (), nothing),
    "retention overtakes": Fault(
        overtake,
        (
            Expected(
                "pipeline", "clicks", ("FAILED",), "FLOE-R111", "removed by retention", "--allow-loss", screens=NO_DRIVER
            ),
        ),
        allow_loss,
    ),
    "poison": Fault(
        poison,
        (
            Expected(
                "pipeline", "clicks", ("DEGRADED",), "FLOE-R154", "dead letters", "dlq stats",
                20, "200 records are judged, which is ten seconds of this load", screens=("status", "top", "page"),
            ),
        ),
        cure,
    ),
    "dead-letter topic gone": Fault(
        lose_dead_letter_topic,
        (Expected("pipeline", "clicks", FAILS, "FLOE-E310", "no topic clicks-dead", "--create --topic clicks-dead"),),
        make_dead_letter_topic,
    ),
    "reading paused": Fault(
        pause, (Expected("pipeline", "clicks", ("PAUSED",), "", "of the night", "floe resume"),), resume
    ),
    "commits paused": Fault(
        pause_commits, (Expected("table", "web.clicks", ("PAUSED",), "", "of the night", "floe resume"),), resume
    ),
    "catalog refuses, driver killed": Fault(
        both(refuse_catalog, kill_driver),
        (VANISHED, Expected("table", "shop.orders", FAILS, "FLOE-R136", "Service Unavailable", "doctor")),
        mend_catalog_and_run_again,
    ),
    "broker frozen, catalog refuses": Fault(
        both(freeze_broker, refuse_catalog),
        (NO_BROKER, Expected("service", "catalog", ("DOWN",), screens=("metrics",))),
        mend_broker_and_catalog,
    ),
    "table dropped, reading paused": Fault(
        both(drop_table, pause),
        (Expected("pipeline", "clicks", ("PAUSED",), "", "of the night", "floe resume"),),
        register_and_resume,
    ),
    "registry away": Fault(
        take_registry,
        (
            Expected("pipeline", "orders", FAILS, "FLOE-R141", "registry does not answer", "doctor"),
            Expected("service", "registry", ("DOWN",), screens=("metrics",)),
        ),
        give_registry,
    ),
    "right taken away": Fault(
        refuse_reading,
        (Expected("pipeline", "clicks", FAILS, "FLOE-E103", "not permitted while fetching clicks", "floe doctor"),),
        allow_reading,
    ),
    "control topic gone": Fault(
        take_control_topic, (NO_CONTROL_TOPIC,), rebase_all
    ),
    "stopped": Fault(
        stop,
        (Expected("pipeline", "clicks", ("STOPPED",), "", "floe stop", "floe run", screens=NO_DRIVER),),
        run_again,
    ),
}  # fmt: skip
