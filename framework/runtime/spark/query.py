"""The Spark side of a driver: its session, and a pipeline's streaming query over the `floe` source.

In: a target's settings, positions and an offer file. Out: a session, and a query that calls back with each offer. Every
query gets a fresh checkpoint directory: Spark would replay a batch whose offsets have moved if an old one survived, and
fencing cannot see that (invariant 2).
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from framework.adapters import spark as spark_room
from framework.adapters.host.memory import MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES
from framework.adapters.host.private_files import private_dir, touch_private
from framework.adapters.host.process import safe_path
from framework.adapters.host.scratch import scratch_dir
from framework.adapters.spark.class_archive import AT_EXIT, archive_options
from framework.adapters.spark.java_stderr import start_java
from framework.adapters.spark.python import python_command
from framework.adapters.spark.source import FloeDataSource, ready_file, to_offsets
from framework.commit.offsets import PartitionKey
from framework.errors import FloeError, SetupError
from framework.task.failures import of_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

PLANNER_START_S = 10.0
# How many queries of this driver may be starting: each start is a process that imports Spark and this package.
_query_starts = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))

DEFAULT_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    # Workers are kept apart by their environment: with this on, the source's and the stage's have a daemon each.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.driver.memory": "1g",
    # What crosses an exchange is packed by the tasks, and compressed there where that is worth it.
    "spark.shuffle.compress": "false",
    # The JVM takes what tasks send in one batch for Python, up to 64 MiB: it doubles its buffers, and clears and copies
    # each. Pieces are of 1 MiB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 1024 * 1024),
    # Of checksums the one that the processor has; it says which disk or network is to blame where a block is damaged.
    "spark.shuffle.checksum.algorithm": "CRC32C",
    # A worker needs as much memory for the next block as it had for the last one: given back in between, by glibc or by
    # Arrow's allocator, its pages are fetched and cleared anew with each block, a tenth of the CPU and more on a
    # virtual machine.
    f"spark.executorEnv.{MMAP_THRESHOLD}": str(MMAP_THRESHOLD_BYTES),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(128 * 1024 * 1024),
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
}
# What a statement means is the same in tests and runs, on every machine. No target and no cluster changes these.
FIXED_CONF = {"spark.sql.session.timeZone": "UTC", "spark.sql.variable.substitute": "false"}
# Spark remembers a thousand jobs, stages and statements for its UI, also where there is none: hours in which the heap of a
# run grows. Who turns the UI on keeps Spark's own numbers.
WITHOUT_UI_CONF = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
_ARCHIVE_S = 60
# The JVM of a local master does little but start: records never enter it. Half of the CPU of a start was its compiler.
LOCAL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
# Where floe is installed beside Spark, workers are forked with all imports done. Code that came as a zip file is on the
# path of the driver and of the workers, not of the daemon.
LOCAL_CONF: dict[str, str] = (
    {} if not Path(__file__).is_file() else {"spark.python.daemon.module": "framework.task.daemon"}
)
# Without transform.sql a batch is a handful of rows to Spark: generating and compiling code for them costs seconds of a
# start.
INTERPRETED_CONF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# A local master talks to nobody else, so it listens to nobody else.
LOOPBACK_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# What writes a query's checkpoint, in Spark 4.1 and in 4.0. The one that Spark takes by default starts some eight
# processes for each batch on a local disk, to set permissions and to look at links; this one four, in a quarter of the
# time.
_CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINT_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
)


def start_session(name: str, master: str, conf: Mapping[str, str], log_dir: Path) -> SparkSession:
    """The session of this driver; Spark's own log goes to a file, so that the terminal stays readable.

    Raises:
        SetupError: Java is missing or the master cannot be reached.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        # Workers and the planner must be this very interpreter, not whatever `python3` is on the path; the second
        # variable names what Spark starts for the driver itself.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_command(_jars().parent)
    else:
        # Spark heeds this setting only for drivers that spark-submit starts, which set the variable for us.
        os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    touch_private(private_dir(log_dir) / "spark.log")  # Java opens it and leaves its mode as it is
    builder = SparkSession.builder.master(master).appName(name)
    local = LOOPBACK_CONF | LOCAL_CONF | worker_pool(master) if master.startswith("local") else {}
    if master.startswith("local"):  # a JVM that is killed leaves its blocks, and nobody would remove them
        local["spark.local.dir"] = str(scratch_dir("spark"))
    quiet = {} if conf.get("spark.ui.enabled", "false") == "true" else WITHOUT_UI_CONF
    settings = {**DEFAULT_CONF, **quiet, **local, **conf, **FIXED_CONF}
    options = settings.pop("spark.driver.extraJavaOptions", "")
    log4j = Path(str(spark_room.__file__)).with_name("log4j2.properties")
    # Under spark-submit the JVM is running already, and was given its options there.
    starts_java = master.startswith("local") and "PYSPARK_GATEWAY_PORT" not in os.environ
    jvm = f"{LOCAL_JVM} {archive_options(_jars(), options)}" if starts_java else ""
    if starts_java and "-Djava.io.tmpdir" not in options:
        jvm += f' "-Djava.io.tmpdir={scratch_dir("java")}"'
    settings["spark.driver.extraJavaOptions"] = (
        f"{options} {jvm} -Dlog4j2.configurationFile={log4j} -Dfloe.log={log_dir / 'spark.log'} -Xss16m "
        "-XX:+IgnoreUnrecognizedVMOptions --sun-misc-unsafe-memory-access=allow"
    ).strip()
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with safe_path():  # what Java starts imports nothing from the current folder
            if starts_java:
                from pyspark import SparkContext

                if SparkContext._gateway is None:  # else a JVM runs in this process already
                    SparkContext._ensure_initialized(gateway=start_java(settings, master, name))
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise SetupError(
            f"Spark does not start: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            code="FLOE-E301",
            place=master,
            remedy="check that Java 17 or 21 is installed (`java -version`) and that the target's spark.master is reachable",
        ) from error
    # PySpark's logger prints every failed query again on the terminal, with pages of Java; the error itself is reported by
    # us.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    spark.dataSource.register(FloeDataSource)
    if master.startswith("local"):
        if _CHECKPOINT_MANAGER not in conf and (manager := _checkpoint_manager(spark)):
            spark.conf.set(_CHECKPOINT_MANAGER, manager)
        for name, warm_up in (("warm-source", _warm_source), ("warm-workers", _warm_workers)):
            threading.Thread(target=_quietly, args=(warm_up, spark), name=name, daemon=True).start()
    return spark


def worker_pool(master: str) -> dict[str, str]:
    """As many idle workers as tasks run at once. Spark takes the one that has waited longest, so that each one more
    that was ever started (there are some more during a start) has its turns, and holds the memory of a large task. From
    Spark 4.1 on."""
    found = re.match(r"local(?:\[(\d+|\*)[,\]]|$)", master)
    if found is None:
        return {}
    cores = os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)
    return {"spark.python.factory.idleWorkerMaxPoolSize": str(cores)}


def _checkpoint_manager(spark: SparkSession) -> str | None:
    """The class in this Spark that writes checkpoints through a FileSystem; None in one that knows neither name."""
    for name in _CHECKPOINT_MANAGERS:
        try:
            spark._jvm.java.lang.Class.forName(name)
        except Py4JJavaError:
            continue
        return name
    return None


def _jars() -> Path:
    """Where the Spark that will be started has its jars."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def _warm_source(spark: SparkSession) -> None:
    """Have the processes started that find, make and plan a source: otherwise each waits for the one before it."""
    spark.read.format("floe").load().collect()


def _warm_workers(spark: SparkSession) -> None:
    """Have the first worker forked while the query is being planned: the first batch would wait for it."""
    spark.range(1, numPartitions=1).mapInArrow(_unchanged, "id long").collect()


def _quietly(warm_up: Callable[[SparkSession], None], spark: SparkSession) -> None:
    try:
        warm_up(spark)
    except Exception as error:
        # Whatever it is, also a session that was ended meanwhile: the first batch asks for the same, and reports it.
        log.info("Spark's workers could not be warmed up: %s", error)


def _unchanged(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def stop_session(spark: SparkSession) -> None:
    """End the session; a Java process that is gone already is no further error."""
    try:
        spark.stop()
    except (Py4JError, ConnectionError) as error:
        log.info("Spark could not be stopped cleanly: %s", error)
    _let_java_end()


def _let_java_end() -> None:
    """Wait for a Java that writes its archive of classes at its end: whoever started this process may end its whole
    group as soon as it is gone, and every start would begin an archive that is never finished."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or AT_EXIT not in " ".join(map(str, process.args)):
        return
    SparkContext._gateway = SparkContext._jvm = None  # a later session of this process starts a Java of its own
    process.stdin.close()
    try:
        process.wait(_ARCHIVE_S)
    except subprocess.TimeoutExpired:
        log.info("Java still writes its class archive after %d s; floe does not wait for it", _ARCHIVE_S)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Calls into Spark's Java process; they fail in many ways, and this makes one error of them.

    Raises:
        FloeError: FLOE-R324, the Java process has ended. Not retriable: a session does not outlive it.
        RetriableError: FLOE-R324, Java answered with an error, or a file of a query could not be written: the disk is full.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise of_batch(error) from error
    except (Py4JError, ConnectionError) as error:
        raise FloeError(
            "Spark's Java process has ended, and the session with it",
            code="FLOE-R324",
            remedy="start the pipeline again; it goes on where it was. Spark's log and the system's log (out of memory?) say why",
        ) from error
    except OSError as error:
        raise of_batch(error) from error


def start_query(
    spark: SparkSession,
    offer_file: Path,
    positions: Mapping[PartitionKey, int],
    process: Callable[[DataFrame, int], None],
) -> Any:
    """Start the streaming query at `positions`; it does what the offer file says, and waits until an offer goes beyond
    them.

    Few at a time: Spark gives a new planner process ten seconds, which ten of them at once do not make on a busy
    machine.
    """
    start = to_offsets(dict(positions))
    # With its scheme: a path alone is one of HDFS where Hadoop's settings say so, and nobody would remove it there. No URI's
    # escapes, which Hadoop takes for characters of the path.
    checkpoint = f"file://{offer_file.parent}/checkpoint-{uuid.uuid4().hex}"
    with _query_starts:
        frame = (
            spark.readStream.format("floe").option("offer", str(offer_file)).option("start", json.dumps(start)).load()
        )
        query = frame.writeStream.foreachBatch(process).option("checkpointLocation", checkpoint).start()
        deadline = time.monotonic() + PLANNER_START_S
        # A query that ends instead, or a planner that takes longer, is noticed by whoever paces the query.
        while query.isActive and not ready_file(offer_file).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    return query
