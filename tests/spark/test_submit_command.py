"""The commands for clusters that no test can start, read by Spark's own parser: what Spark understands is what was
meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from framework.adapters.host.java import find_java
from framework.plan.deploy.submit import spark_submit_command
from tests.unit.plan.test_submit import EACH_CLUSTER, SHIPMENT, loaded

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark's classes and nothing started in it."""
    jars = Path(pyspark.__file__).parent / "jars"
    port, token, process = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=f"{jars}/*",
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
        java_path=find_java(),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.kill()
        process.wait()


def parse(jvm: Any, words: list[str]) -> Any:
    """What spark-submit makes of its arguments. It looks for no file and contacts nobody."""
    environment = {**os.environ, "HADOOP_CONF_DIR": "/etc/hadoop/conf"}
    scala_map = jvm.scala.jdk.javaapi.CollectionConverters.asScala(environment)
    empty = getattr(jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
    sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(words).toSeq()
    return jvm.org.apache.spark.deploy.SparkSubmitArguments(sequence, empty.concat(scala_map))


@pytest.mark.parametrize(("master", "conf"), EACH_CLUSTER)
def test_spark_understands_the_command(jvm: Any, master: str, conf: dict[str, str]) -> None:
    """Spark's parser takes the command of every kind of cluster, and finds master, mode, files and arguments in it."""
    command = spark_submit_command([loaded(master, conf)], SHIPMENT, None, ["--until-caught-up"])
    parsed = parse(jvm, list(command[1:]))
    assert parsed.isPython()
    assert parsed.master() == master
    assert parsed.deployMode() == conf.get("spark.submit.deployMode", "client")
    assert parsed.primaryResource().endswith("/stage/floe_driver.py")
    is_in_yarn = master == "yarn" and conf.get("spark.submit.deployMode") == "cluster"
    assert list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(parsed.childArgs())) == [
        "plan-1.json",
        *(["--begin-session"] if is_in_yarn else []),  # YARN fails a driver that never has one
        "--until-caught-up",
    ]
    assert parsed.pyFiles().endswith("/stage/floe-1.zip")
    assert parsed.files().endswith("/stage/plan-1.json")
    assert parsed.name() == "floe pizzas"
    properties = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(parsed.sparkProperties()))
    for key, value in conf.items():
        if key != "spark.submit.deployMode":
            assert properties[key] == value
    if not master.startswith("local"):
        assert parsed.archives().endswith("/cache/1.tar.gz#environment")


def test_spark_understands_a_supervised_driver(jvm: Any) -> None:
    """In cluster mode of a standalone master Spark sees a Java program of its own, to be supervised, with our
    arguments."""
    command = spark_submit_command([loaded("spark://host:7077")], SHIPMENT, "cluster")
    parsed = parse(jvm, list(command[1:]))
    assert not parsed.isPython()
    assert parsed.isStandaloneCluster()
    assert parsed.supervise()
    assert parsed.mainClass() == "org.apache.spark.deploy.PythonRunner"
    assert parsed.primaryResource().endswith("/stage/starter.jar")
    assert list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(parsed.childArgs()))[:3] == [
        "/stage/floe_driver.py",
        "/stage/floe-1.zip",
        "/stage/plan-1.json",
    ]
