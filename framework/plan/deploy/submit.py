"""Turns loaded pipelines and what is shipped with them into the command that hands them to Spark, as a list of
arguments.

In: LoadedPipelines of one target and a `Shipment` (paths). Out: the arguments of `spark-submit`, and the rendered
submission as JSON text, which the driver reads instead of YAML and templates. Pure: the same input gives the same
command. No secret is in either: the submission holds references, which the driver resolves where it runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from pydantic import TypeAdapter, ValidationError

from framework.config.spec import LoadedPipeline, TargetSpec
from framework.diagnose.secrets import is_secret_setting
from framework.errors import SetupError
from framework.plan.canonical import plan_hash

FORMAT = 1
DRIVER = "floe_driver.py"
STARTER = "starter.jar"  # an empty archive: a Java program is submitted as a jar, and all that runs is Spark's own
ENVIRONMENT = "environment"  # the folder that the archive becomes, beside every driver and executor
# As in the session that `floe run` starts itself; a running JVM cannot be given these any more.
JVM_OPTIONS = "-Xss4m -XX:+IgnoreUnrecognizedVMOptions --sun-misc-unsafe-memory-access=allow"
DRIVER_MEMORY = "1g"
FINAL_CODES_END_WELL = "--final-codes-end-well"  # the driver's argument, where each failure would start it again
BEGIN_SESSION = "--begin-session"  # the driver's argument, where a run that reads nothing needs Spark's session, too
MAINTAIN = "--maintain"  # the driver's argument, before each pattern of tables
_PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"

_OWNED = ("spark.master", "spark.app.name", "spark.submit.pyFiles", "spark.pyspark.driver.python")
_KUBERNETES_NEEDS = {
    "spark.kubernetes.container.image": "the image that driver and executors run, with this version of Spark in it",
    "spark.kubernetes.file.upload.path": "a store that both this machine and the pods can use, such as s3a://bucket/spark",
}


@cache
def _pipelines() -> TypeAdapter[tuple[LoadedPipeline, ...]]:
    """Made when something is submitted: it takes a twentieth of a second, which a plan need not wait for."""
    return TypeAdapter(tuple[LoadedPipeline, ...])


@dataclass(frozen=True)
class Shipment:
    """What goes with an application, as paths on this machine.

    `environment` is the archive of Python packages, None where the nodes have them; `python` is this machine's
    interpreter. `log_config` and `log_file`: a driver that runs here writes Spark's log to a file, so that the terminal
    stays readable.
    """

    spark_submit: str
    driver: str
    code: str
    plan: str
    environment: str | None
    python: str
    log_config: str
    log_file: str


# ---- the submission -------------------------------------------------------------------------------------------------


def render_submission(pipelines: Sequence[LoadedPipeline]) -> str:
    """The pipelines as JSON text, everything resolved but secrets. Their `tests:` stay at home."""
    plain = _pipelines().dump_python(_without_tests(pipelines), mode="json")
    document = {"format": FORMAT, "hash": plan_hash(pipelines), "pipelines": plain}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def read_submission(text: str, place: str) -> tuple[LoadedPipeline, ...]:
    """The pipelines of a rendered submission.

    Raises:
        SetupError: it is no submission, was written by another format, or does not say what its hash says.
    """
    remedy = "submit again with `floe submit`, with the same version of floe on both sides"
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"it has format {document['format']}, not {FORMAT}")
        # `strict` in JSON mode: lists become tuples and text becomes enums, and nothing else is converted.
        pipelines = _pipelines().validate_json(json.dumps(document["pipelines"]), strict=True)
        said, found = document["hash"], plan_hash(pipelines)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise SetupError(
            f"the submitted plan cannot be read: {str(error).splitlines()[0]}",
            code="FLOE-E401",
            place=place,
            remedy=remedy,
        ) from error
    if said != found:
        raise SetupError(
            f"the submitted plan has {found}, but says {said}", code="FLOE-E401", place=place, remedy=remedy
        )
    return pipelines


def _without_tests(pipelines: Sequence[LoadedPipeline]) -> tuple[LoadedPipeline, ...]:
    return tuple(replace(p, spec=replace(p.spec, tests=())) for p in pipelines)


# ---- the command ----------------------------------------------------------------------------------------------------


def manager_of(master: str) -> str:
    """`local`, `standalone`, `yarn` or `kubernetes`.

    Raises:
        SetupError: the master is none of these.
    """
    if re.match(r"local(\[.+\])?$", master):
        return "local"
    if master == "yarn":
        return "yarn"
    for prefix, name in (("spark://", "standalone"), ("k8s://", "kubernetes")):
        if master.startswith(prefix):
            return name
    raise SetupError(
        f"floe submits to local, spark://, yarn and k8s:// masters, not to {master}",
        code="FLOE-E403",
        place="spark.master",
        remedy="correct spark.master of the target",
    )


def one_target(pipelines: Sequence[LoadedPipeline]) -> TargetSpec:
    """The target that all pipelines of one application share."""
    targets = {id(p.target): p.target for p in pipelines}.values()
    first = next(iter(targets))
    if any(target != first for target in targets):
        raise SetupError(
            "all pipelines of an application run on one target, but there are several targets of that name",
            code="FLOE-E404",
            place=", ".join(p.file for p in pipelines),
            remedy="submit them separately, or give the target's path",
        )
    return first


def deploy_mode_of(target: TargetSpec, wanted: str | None) -> str:
    """Where the driver runs: `client` (here) or `cluster`, from the option, else from the target, else here.

    Raises:
        SetupError: the master does not run Python drivers that way.
    """
    mode = wanted or target.spark_conf.get("spark.submit.deployMode", "client")
    manager = manager_of(target.spark_master)
    if mode not in ("client", "cluster"):
        raise SetupError(
            f"there is no deploy mode {mode}", code="FLOE-E405", place=target.name, remedy="use client or cluster"
        )
    if mode == "cluster" and manager == "local":
        raise SetupError(
            "a local master has no cluster to run the driver in",
            code="FLOE-E405",
            place=target.name,
            remedy="use deploy mode client; `floe submit --restart` restarts a driver that failed",
        )
    return mode


def runs_in_standalone_cluster(target: TargetSpec, wanted: str | None) -> bool:
    """Whether a worker of a standalone master runs the driver. Spark ships it no files: what it needs lies in a folder
    that every node sees."""
    return deploy_mode_of(target, wanted) == "cluster" and manager_of(target.spark_master) == "standalone"


def needs_environment(target: TargetSpec) -> bool:
    """Whether Python packages must be shipped: not to a local master, nor where the target names the nodes' Python."""
    return manager_of(target.spark_master) != "local" and "spark.pyspark.python" not in target.spark_conf


def spark_submit_command(
    pipelines: Sequence[LoadedPipeline],
    shipment: Shipment,
    deploy_mode: str | None = None,
    arguments: Sequence[str] = (),
) -> tuple[str, ...]:
    """The words of one `spark-submit`. A driver that runs here must be started in the folder of `shipment.driver`.

    Args:
        deploy_mode: `client` or `cluster`; None: as the target's `spark.submit.deployMode` says, else client.
        arguments: further arguments of the driver.

    Raises:
        SetupError: the target's master, mode or settings cannot be submitted; the message names which.
    """
    target = one_target(pipelines)
    mode = deploy_mode_of(target, deploy_mode)
    _check_conf(target, mode)
    if MAINTAIN in arguments and mode == "cluster" and manager_of(target.spark_master) == "yarn":
        raise SetupError(
            "YARN waits for a Spark session of a driver in its cluster, and maintenance begins none",
            code="FLOE-E405",
            place=target.name,
            remedy="use deploy mode client",
        )
    conf = dict(target.spark_conf)
    conf.pop("spark.submit.deployMode", None)
    conf.setdefault("spark.driver.memory", DRIVER_MEMORY)
    if runs_in_standalone_cluster(target, deploy_mode):
        return _standalone_cluster(pipelines, shipment, conf, arguments)
    options = [conf.get("spark.driver.extraJavaOptions", ""), JVM_OPTIONS]
    if mode == "client":
        options += [f'-Dlog4j2.configurationFile="{shipment.log_config}"', f'-Dfloe.log="{shipment.log_file}"']
    conf["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    files = ",".join(filter(None, (shipment.plan, conf.pop("spark.files", ""))))
    archives = conf.pop("spark.archives", "")
    if manager_of(target.spark_master) == "local":
        conf.setdefault("spark.pyspark.python", shipment.python)
    elif needs_environment(target):
        if shipment.environment is None:
            raise SetupError(
                f"master {target.spark_master} needs the archive of Python packages",
                code="FLOE-E406",
                place=target.name,
                remedy="run `floe package`, or set spark.pyspark.python to the nodes' own Python",
            )
        if not _brings_packages(target, archives, shipment.environment):
            archives = ",".join(filter(None, (f"{shipment.environment}#{ENVIRONMENT}", archives)))
        conf["spark.pyspark.python"] = f"./{ENVIRONMENT}/bin/python"
    # `--py-files` reaches every Python but the one that plans a streaming source, beside the driver; this reaches that,
    # too.
    own_path = conf.get("spark.executorEnv.PYTHONPATH", "")
    conf["spark.executorEnv.PYTHONPATH"] = ":".join(filter(None, (_name(shipment.code), own_path)))
    if mode == "client":
        conf["spark.pyspark.driver.python"] = shipment.python
    arguments = [*_ends_of_driver(target, mode, conf, arguments), *arguments]
    words = _head(pipelines, shipment, mode, arguments)
    words += ["--py-files", shipment.code, "--files", files]
    words += ["--archives", archives] if archives else []
    # `--files` puts the plan into the folder where the driver runs, under its own name, in every mode.
    return (*words, *_settings(conf), shipment.driver, _name(shipment.plan), *arguments)


def _brings_packages(target: TargetSpec, archives: str, environment: str) -> bool:
    """Whether the target names a copy of the archive of packages that lies where the nodes find it, such as HDFS: nodes
    unpack that once, and what is shipped with each application each time.

    Raises:
        SetupError: it names the archive of other packages than this machine's.
    """
    named = [entry.partition("#")[0] for entry in archives.split(",") if entry.endswith(f"#{ENVIRONMENT}")]
    others = [path for path in named if _name(path) != _name(environment)]
    if others:
        raise SetupError(
            f"spark.archives names {others[0]}, but the packages of this machine are those of {_name(environment)}",
            code="FLOE-E413",
            place=target.name,
            remedy="run `floe package`, copy its archive to where the nodes find it, and name that in spark.archives",
        )
    return bool(named)


def _ends_of_driver(target: TargetSpec, mode: str, conf: dict[str, str], arguments: Sequence[str]) -> list[str]:
    """How YARN hears of a driver's end in its cluster: it starts again whatever failed.

    A run without an end is to be started again, unless its end is final: that looks like a good end to YARN, and the log
    says so. A run with an end is started again by whoever started it, who must hear of a failure.
    """
    if mode != "cluster" or manager_of(target.spark_master) != "yarn":
        return []
    if "--until-caught-up" in arguments:
        conf.setdefault("spark.yarn.maxAppAttempts", "1")
        return [BEGIN_SESSION]  # YARN takes a driver that ends without a session for one that has failed
    return [FINAL_CODES_END_WELL]


def _standalone_cluster(
    pipelines: Sequence[LoadedPipeline], shipment: Shipment, conf: dict[str, str], arguments: Sequence[str]
) -> tuple[str, ...]:
    """A driver that a worker of a standalone master runs, and that the master starts again elsewhere if it is lost.

    `spark-submit` refuses Python drivers in this mode. Spark's own starter of Python drivers is a Java program, though,
    and such are taken; it gets the driver's script as its first argument, the code as its second, and then the script's
    own.
    """
    folder = shipment.driver.rpartition("/")[0]
    if shipment.environment is not None:
        conf.setdefault("spark.pyspark.python", f"{folder}/{shared_environment(shipment.environment)}/bin/python")
    conf["spark.pyspark.driver.python"] = conf["spark.pyspark.python"]
    conf["spark.driver.extraJavaOptions"] = f"{conf.get('spark.driver.extraJavaOptions', '')} {JVM_OPTIONS}".strip()
    own_path = conf.get("spark.executorEnv.PYTHONPATH", "")
    conf["spark.executorEnv.PYTHONPATH"] = ":".join(filter(None, (shipment.code, own_path)))
    if "--until-caught-up" in arguments or MAINTAIN in arguments:
        conf.setdefault("spark.standalone.submit.waitAppCompletion", "true")
    words = [
        *_head(pipelines, shipment, "cluster", arguments),
        "--supervise",
        "--class",
        _PYTHON_RUNNER,
        *_settings(conf),
    ]
    final = [FINAL_CODES_END_WELL]  # the master knows one kind of failure, and starts again after each
    return (*words, f"{folder}/{STARTER}", shipment.driver, shipment.code, shipment.plan, *final, *arguments)


def shared_environment(archive: str) -> str:
    """The name of the folder that an archive of packages becomes in the folder that all nodes see."""
    return f"{ENVIRONMENT}-{_name(archive).partition('.')[0]}"


def _head(pipelines: Sequence[LoadedPipeline], shipment: Shipment, mode: str, arguments: Sequence[str]) -> list[str]:
    what = "floe maintenance" if MAINTAIN in arguments else "floe"
    words = [shipment.spark_submit, "--master", one_target(pipelines).spark_master, "--deploy-mode", mode]
    return [*words, "--name", " ".join([what, *(p.spec.name for p in pipelines)])]


def _settings(conf: dict[str, str]) -> list[str]:
    return [word for key in sorted(conf) for word in ("--conf", f"{key}={conf[key]}")]


def _name(path: str) -> str:
    """A file's name in the folder where driver or executor run."""
    return path.rpartition("/")[2]


def _check_conf(target: TargetSpec, mode: str) -> None:
    shown = [key for key, value in target.spark_conf.items() if is_secret_setting(key, value)]
    if shown:
        raise SetupError(
            f"the target's spark.conf holds a secret under {', '.join(shown)}, and other users can see command lines",
            code="FLOE-E409",
            place=target.name,
            remedy="give it to the cluster's own configuration",
        )
    owned = [key for key in _OWNED if key in target.spark_conf]
    if owned:
        raise SetupError(
            f"the target's spark.conf sets {', '.join(owned)}, which `floe submit` sets itself",
            code="FLOE-E407",
            place=target.name,
            remedy="remove the key",
        )
    if manager_of(target.spark_master) == "kubernetes" and mode == "cluster":
        for key, what in _KUBERNETES_NEEDS.items():
            if key not in target.spark_conf:
                raise SetupError(
                    f"a driver on Kubernetes needs {key}: {what}",
                    code="FLOE-E408",
                    place=target.name,
                    remedy=f"set {key} in the target's spark.conf",
                )


# ---- after the end --------------------------------------------------------------------------------------------------

_FINAL = frozenset({0, 2, 4, 5, 6, 8, 126, 127, 130, 143})
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0


def is_final(exit_code: int) -> bool:
    """Whether starting a driver again that ended so can change nothing, or would do harm."""
    return exit_code in _FINAL


def restart_after(exit_code: int, restarts: int, most: int) -> float | None:
    """Seconds to wait before a driver that ended is started again; None: it stays ended.

    Ended well, wrong files, fenced (two supervised runs would fence each other for ever), stored positions that
    disagree, a blocked table, too many dead letters and a wanted end are final; a person must look. Everything else may
    pass.
    """
    if is_final(exit_code) or restarts >= most:
        return None
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**restarts)
