"""The command that hands pipelines to Spark: a pure function of what is loaded and what is shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import (
    KafkaSourceSpec,
    LoadedPipeline,
    PipelineSpec,
    RouteCondition,
    RouteRule,
    RoutesSpec,
    SecretRef,
    SourceSpec,
    TablesSpec,
    TargetSpec,
)
from framework.errors import SetupError
from framework.plan.deploy.submit import (
    MAINTAIN,
    Shipment,
    deploy_mode_of,
    read_submission,
    render_submission,
    restart_after,
    spark_submit_command,
)

SHIPMENT = Shipment(
    spark_submit="/spark/bin/spark-submit",
    driver="/stage/floe_driver.py",
    code="/stage/floe-1.zip",
    plan="/stage/plan-1.json",
    environment="/cache/1.tar.gz",
    python="/venv/bin/python",
    log_config="/stage/log4j2.properties",
    log_file="/state/logs/spark.log",
)
KUBERNETES = {"spark.kubernetes.container.image": "spark:4.1", "spark.kubernetes.file.upload.path": "s3a://b/spark"}
YARN_CLUSTER = ("yarn", {"spark.submit.deployMode": "cluster"})
EACH_CLUSTER = [
    ("local[2,4]", {}),
    ("spark://host:7077", {"spark.cores.max": "4"}),
    YARN_CLUSTER,
    ("k8s://https://host:6443", {"spark.submit.deployMode": "cluster", **KUBERNETES}),
]


def loaded(
    master: str = "spark://host:7077", conf: Mapping[str, str] | None = None, name: str = "pizzas"
) -> LoadedPipeline:
    target = TargetSpec(
        name="prod",
        kafka={"main": {"bootstrap.servers": "k:9092", "sasl.password": SecretRef("env", "KAFKA_PASSWORD")}},
        catalogs={"default": {"type": "rest", "uri": "https://catalog", "token": SecretRef("file", "/run/token")}},
        spark_master=master,
        spark_conf=dict(conf or {}),
    )
    routes = RoutesSpec((RouteRule("shop.refunds", RouteCondition("type", equals=1)), RouteRule("shop.orders")))
    return LoadedPipeline("a.yaml", PipelineSpec(name, SourceSpec(KafkaSourceSpec("main", ("t",))), routes), target)


def options(command: tuple[str, ...]) -> dict[str, list[str]]:
    """Every option's values, in order."""
    found: dict[str, list[str]] = {}
    for word, value in pairwise(command):
        if word.startswith("--"):
            found.setdefault(word, []).append(value)
    return found


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
CONDITIONS = st.builds(RouteCondition, equals=st.none() | st.booleans() | st.text() | NUMBERS)
ROUTES = st.builds(RoutesSpec, rules=st.tuples(st.builds(RouteRule, when=st.none() | CONDITIONS)))
SPECS = st.builds(
    PipelineSpec, routes=ROUTES, tables=st.builds(TablesSpec), errors=st.builds(type(loaded().spec.errors))
)
SETTINGS = st.dictionaries(st.text(), st.text() | st.builds(SecretRef))
TARGETS = st.builds(
    TargetSpec, kafka=st.dictionaries(st.text(), SETTINGS), catalogs=st.dictionaries(st.text(), SETTINGS)
)


@given(st.builds(LoadedPipeline, spec=SPECS, target=TARGETS))
@settings(max_examples=20, deadline=None)
def test_what_is_submitted_is_what_was_loaded(pipeline: LoadedPipeline) -> None:
    """The driver gets the same values, of the same types, that the files gave here; only their tests stay at home."""
    sent = replace(pipeline, spec=replace(pipeline.spec, tests=()))
    (received,) = read_submission(render_submission([pipeline]), "x")
    assert received == sent
    assert repr(received.spec) == repr(sent.spec)  # 1, 1.0 and True are equal, and not the same


@pytest.mark.parametrize(("master", "conf"), EACH_CLUSTER)
def test_the_same_input_gives_the_same_command(master: str, conf: dict[str, str]) -> None:
    """Nothing but the input decides the command, in whatever order the settings were written."""
    turned = dict(reversed(conf.items()))
    assert spark_submit_command([loaded(master, conf)], SHIPMENT) == spark_submit_command(
        [loaded(master, turned)], SHIPMENT
    )


@pytest.mark.parametrize(("master", "conf"), EACH_CLUSTER)
def test_the_command_ships_code_plan_and_packages(master: str, conf: dict[str, str]) -> None:
    """Code, plan and (beyond this machine) packages go with the application, and every helper runs their Python."""
    found = options(spark_submit_command([loaded(master, conf)], SHIPMENT))
    assert found["--master"] == [master]
    assert found["--py-files"] == ["/stage/floe-1.zip"]
    assert found["--files"] == ["/stage/plan-1.json"]
    assert "spark.executorEnv.PYTHONPATH=floe-1.zip" in found["--conf"]
    if master.startswith("local"):
        assert "--archives" not in found
        assert "spark.pyspark.python=/venv/bin/python" in found["--conf"]
    else:
        assert found["--archives"] == ["/cache/1.tar.gz#environment"]
        assert "spark.pyspark.python=./environment/bin/python" in found["--conf"]


def test_a_driver_elsewhere_runs_no_python_of_this_machine() -> None:
    """In cluster mode no path of this machine's Python and logs is set."""
    command = " ".join(spark_submit_command([loaded(*YARN_CLUSTER)], SHIPMENT))
    assert not [path for path in ("/venv/bin/python", "/state/logs/spark.log") if path in command]


def test_a_driver_in_a_standalone_cluster_finds_everything_in_one_folder() -> None:
    """Spark ships nothing there: Spark's own starter of Python drivers gets script, code and plan by their full paths,
    every Python is the one beside them, and ends that are final do not look like failures to the master."""
    command = spark_submit_command([loaded()], SHIPMENT, "cluster", ["--deployment", "d"])
    found = options(command)
    assert "--supervise" in command
    assert found["--class"] == ["org.apache.spark.deploy.PythonRunner"]
    assert not {"--py-files", "--files", "--archives"} & set(found)
    start = command.index("/stage/starter.jar")
    assert command[start + 1 : start + 4] == ("/stage/floe_driver.py", "/stage/floe-1.zip", "/stage/plan-1.json")
    assert command[start + 4 :] == ("--final-codes-end-well", "--deployment", "d")
    for key in ("spark.pyspark.python", "spark.pyspark.driver.python"):
        assert f"{key}=/stage/environment-1/bin/python" in found["--conf"]
    assert "spark.executorEnv.PYTHONPATH=/stage/floe-1.zip" in found["--conf"]
    assert "spark.standalone.submit.waitAppCompletion=true" in " ".join(
        spark_submit_command([loaded()], SHIPMENT, "cluster", ["--until-caught-up"])
    )


def test_own_files_and_archives_are_kept() -> None:
    """What the target ships itself, such as a certificate, is shipped too."""
    conf = {"spark.files": "/etc/ca.pem", "spark.archives": "/x.zip#x"}
    found = options(spark_submit_command([loaded(conf=conf)], SHIPMENT))
    assert found["--files"] == ["/stage/plan-1.json,/etc/ca.pem"]
    assert found["--archives"] == ["/cache/1.tar.gz#environment,/x.zip#x"]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_packages_that_the_nodes_find_are_not_shipped(mode: str) -> None:
    """A target may name a copy of the archive: it is not sent again, and every Python is still the one in it. A copy of
    other packages than this machine's is refused."""
    conf = {"spark.archives": "/x.zip#x,hdfs://n/floe/1.tar.gz#environment"}
    found = options(spark_submit_command([loaded("yarn", conf)], SHIPMENT, mode))
    assert found["--archives"] == [conf["spark.archives"]]
    assert "spark.pyspark.python=./environment/bin/python" in found["--conf"]
    with pytest.raises(SetupError, match=r"hdfs:///2\.tar\.gz, .* of 1\.tar\.gz") as raised:
        spark_submit_command([loaded("yarn", {"spark.archives": "hdfs:///2.tar.gz#environment"})], SHIPMENT, mode)
    assert raised.value.code == "FLOE-E413"


def test_yarn_starts_a_driver_again_only_where_that_helps() -> None:
    """In YARN's cluster a run without an end is started again after failures that may pass; one with an end fails for
    whoever started it, at once, unless the target says how often it is to be tried."""
    without_end = spark_submit_command([loaded(*YARN_CLUSTER)], SHIPMENT)
    assert without_end[-2:] == ("plan-1.json", "--final-codes-end-well")
    assert "spark.yarn.maxAppAttempts" not in " ".join(without_end)
    with_end = spark_submit_command([loaded(*YARN_CLUSTER)], SHIPMENT, None, ["--until-caught-up"])
    assert with_end[-3:] == ("plan-1.json", "--begin-session", "--until-caught-up")
    assert "spark.yarn.maxAppAttempts=1" in options(with_end)["--conf"]
    master, conf = YARN_CLUSTER
    own = spark_submit_command(
        [loaded(master, conf | {"spark.yarn.maxAppAttempts": "3"})], SHIPMENT, None, ["--until-caught-up"]
    )
    assert "spark.yarn.maxAppAttempts=3" in options(own)["--conf"]
    for words in (
        spark_submit_command([loaded("yarn")], SHIPMENT),
        spark_submit_command([loaded(EACH_CLUSTER[3][0])], SHIPMENT),
    ):
        assert words[-1] == "plan-1.json"


def test_the_nodes_own_python_needs_no_archive() -> None:
    """A target that names the nodes' Python ships no packages."""
    found = options(
        spark_submit_command([loaded(conf={"spark.pyspark.python": "/opt/py"})], replace(SHIPMENT, environment=None))
    )
    assert "--archives" not in found
    assert "spark.pyspark.python=/opt/py" in found["--conf"]


@pytest.mark.parametrize(
    ("master", "conf", "mode", "code"),
    [
        ("mesos://host", {}, None, "FLOE-E403"),
        ("local[2]", {}, "cluster", "FLOE-E405"),
        ("yarn", {"spark.submit.deployMode": "remote"}, None, "FLOE-E405"),
        ("yarn", {"spark.master": "local"}, None, "FLOE-E407"),
        ("k8s://https://h", {}, "cluster", "FLOE-E408"),
        ("k8s://https://h", {"spark.kubernetes.container.image": "i"}, "cluster", "FLOE-E408"),
    ],
)
def test_what_spark_cannot_do_is_refused_by_name(
    master: str, conf: dict[str, str], mode: str | None, code: str
) -> None:
    """A master, mode or setting that cannot work is refused before anything is started, with a remedy."""
    with pytest.raises(SetupError) as raised:
        spark_submit_command([loaded(master, conf)], SHIPMENT, mode)
    assert raised.value.code == code
    assert raised.value.remedy


def test_maintenance_is_not_sent_where_it_would_be_ended() -> None:
    """A driver in YARN's cluster has to begin a Spark session, and maintenance begins none."""
    with pytest.raises(SetupError, match="YARN") as raised:
        spark_submit_command([loaded(*YARN_CLUSTER)], SHIPMENT, None, [MAINTAIN, "*"])
    assert (raised.value.code, raised.value.remedy) == ("FLOE-E405", "use deploy mode client")
    assert spark_submit_command([loaded(*YARN_CLUSTER)], SHIPMENT, "client", [MAINTAIN, "*"])


def test_the_option_wins_over_the_target() -> None:
    """`--deploy-mode` decides where the driver runs, then the target, then client mode."""
    target = loaded(*YARN_CLUSTER).target
    assert [deploy_mode_of(target, "client"), deploy_mode_of(target, None)] == ["client", "cluster"]
    assert deploy_mode_of(loaded().target, None) == "client"


def test_pipelines_of_two_targets_are_not_mixed() -> None:
    """One application has one target."""
    with pytest.raises(SetupError, match="one target"):
        spark_submit_command([loaded(), loaded("yarn", name="b")], SHIPMENT)


def test_no_secret_is_rendered() -> None:
    """Command and submission hold references, never values."""
    text = render_submission([loaded()])
    assert '"name": "KAFKA_PASSWORD"' in text
    assert "sasl.password" not in " ".join(spark_submit_command([loaded()], SHIPMENT))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("k:9092", "evil:9092"),
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text[:200],
        lambda text: "[]",
    ],
)
def test_a_changed_submission_is_refused(change: object) -> None:
    """A driver runs what was submitted or nothing."""
    with pytest.raises(SetupError) as raised:
        read_submission(change(render_submission([loaded()])), "plan.json")  # type: ignore[operator]
    assert raised.value.code == "FLOE-E401"


def test_only_what_may_pass_is_started_again() -> None:
    """Fenced, wrong, disagreeing, blocked and asked-for ends are final; the rest waits longer each time, and not for
    ever."""
    assert [restart_after(code, 0, 3) for code in (0, 2, 4, 5, 6, 8, 130, 143)] == [None] * 8
    assert [restart_after(code, 0, 3) for code in (1, 3, 7, 137)] == [5.0] * 4
    assert [restart_after(1, n, 9) for n in (0, 1, 2, 8)] == [5.0, 10.0, 20.0, 300.0]
    assert restart_after(1, 3, 3) is None
