"""Where the embedded stack keeps its files, and the small state file by which pipelines find it.

A state directory comes in, paths and the recorded addresses go out. The state file exists exactly while the stack is
meant to be up; its values are strings, so that a target file can refer to each as `${local:name}`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from framework.adapters.host.private_files import write_private
from framework.adapters.project.files import state_dir
from framework.errors import SetupError

HOME_VARIABLE = "FLOE_HOME"


def default_state_dir() -> Path:
    """`$FLOE_HOME` where it is set; else `.floe` of the nearest folder upwards where a stack is up, or of this one."""
    return state_dir()


@dataclass(frozen=True)
class LocalState:
    """The addresses of a running stack: `host:port` of the broker, the URIs of catalog and warehouse, and Spark's
    master."""

    bootstrap_servers: str
    catalog_uri: str
    warehouse: str
    cluster_id: str
    kafka_version: str
    spark_master: str = ""  # only after `up --spark`

    def as_mapping(self) -> dict[str, str]:
        """Every value that there is by its name, as `${local:name}` sees it."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def kafka_port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    def catalog_settings(self) -> dict[str, str]:
        """PyIceberg's settings for this catalog."""
        return {"type": "sql", "uri": self.catalog_uri, "warehouse": self.warehouse}


@dataclass(frozen=True)
class LocalPaths:
    """Every file of one embedded stack, below `<state_dir>/local`, as absolute paths."""

    root: Path

    @classmethod
    def of(cls, folder: Path) -> LocalPaths:
        return cls(folder.expanduser().absolute() / "local")

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def lock_file(self) -> Path:
        """Beside the directory, not in it, so that it outlives `down --wipe` under a waiting `up`."""
        return self.root.with_name("local.lock")

    @property
    def pid_file(self) -> Path:
        return self.root / "kafka.pid"

    @property
    def port_file(self) -> Path:
        """The broker's port of the last run, so that addresses stay the same from day to day."""
        return self.root / "kafka.port"

    @property
    def broker_log(self) -> Path:
        return self.root / "kafka.log"

    @property
    def broker_config(self) -> Path:
        return self.root / "server.properties"

    @property
    def logging_config(self) -> Path:
        return self.root / "log4j2.properties"

    @property
    def broker_data(self) -> Path:
        return self.root / "kafka"

    @property
    def spark(self) -> Path:
        """Pid files, logs and work of the standalone cluster."""
        return self.root / "spark"

    @property
    def catalog_file(self) -> Path:
        return self.root / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"


def read_state(folder: Path) -> LocalState | None:
    """The addresses that `up` wrote, or None when the stack is down. Raises SetupError for a damaged file."""
    path = LocalPaths.of(folder).state_file
    try:
        return LocalState(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise SetupError(
            f"the state file of the embedded stack cannot be read: {error}",
            code="FLOE-E020",
            place=str(path),
            remedy="floe local down && floe local up",
        ) from error


def write_state(folder: Path, state: LocalState) -> None:
    """Replaces the state file in one step, so that a reader never sees half of it."""
    path = LocalPaths.of(folder).state_file
    write_private(path, json.dumps(state.as_mapping(), indent=2) + "\n")
