"""FLOE-E4xx, P003, P004 and R41x: pipelines that run elsewhere: submitted, deployed, supervised."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-E401",
        "A submitted plan cannot be used",
        "The driver got no plan, a damaged one, or one that was edited by hand: its hash does not match its content.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "the submitted plan has 9f2c41d07b3e, but says 1ab0c77e52d9",
            "plan.json",
            "submit again with `floe submit`, with the same version of floe on both sides",
            (
                "floe package",
                "floe submit orders.yaml -t cluster",
            ),
        ),
    ),
    Code(
        "FLOE-E403",
        "floe cannot submit to this Spark master",
        "floe submits to local, spark://, yarn and k8s:// masters.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "floe submits to local, spark://, yarn and k8s:// masters, not to mesos://m:5050",
            "spark.master",
            "correct spark.master of the target",
            (
                "# Correct `spark.master` in the target file, then:",
                "floe submit orders.yaml -t cluster --print",
            ),
        ),
    ),
    Code(
        "FLOE-E404",
        "Several targets in one application",
        "All pipelines of one driver run on the same target.",
        transcript=Transcript(
            "submit orders.yaml returns.yaml",
            "all pipelines of an application run on one target, but there are several targets of that name",
            "orders.yaml, returns.yaml",
            "submit them separately, or give the target's path",
            ("floe submit orders.yaml returns.yaml -t targets/cluster.yaml",),
        ),
    ),
    Code(
        "FLOE-E405",
        "The deploy mode is not possible",
        "The deploy mode is `client`, or `cluster` if the master is a cluster.",
        transcript=Transcript(
            "submit orders.yaml --deploy-mode cluster",
            "a local master has no cluster to run the driver in",
            "local",
            "use deploy mode client; `floe submit --restart` restarts a driver that failed",
            ("floe submit orders.yaml --deploy-mode client --restart 3",),
        ),
    ),
    Code(
        "FLOE-E406",
        "The packages' archive is missing",
        "The nodes of this master need the Python packages that the driver has; `floe package` makes the archive.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "master yarn needs the archive of Python packages",
            "cluster",
            "run `floe package`, or set spark.pyspark.python to the nodes' own Python",
            (
                "floe package",
                "floe submit orders.yaml -t cluster",
            ),
        ),
    ),
    Code(
        "FLOE-E407",
        "The target sets what `floe submit` sets",
        "These Spark settings follow from the pipelines.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "the target's spark.conf sets spark.submit.pyFiles, which `floe submit` sets itself",
            "cluster",
            "remove the key",
            (
                "# Remove the key from the target file, then:",
                "floe submit orders.yaml -t cluster --print",
            ),
        ),
    ),
    Code(
        "FLOE-E408",
        "Kubernetes needs a setting",
        "The message says which one, and why.",
        transcript=Transcript(
            "submit orders.yaml -t k8s --deploy-mode cluster",
            "a driver on Kubernetes needs spark.kubernetes.container.image: the image that driver and executors run, with this version of Spark in it",
            "k8s",
            "set spark.kubernetes.container.image in the target's spark.conf",
            (
                "# Set the key in the target file, then:",
                "floe submit orders.yaml -t k8s --deploy-mode cluster --print",
            ),
        ),
    ),
    Code(
        "FLOE-E409",
        "A secret would appear on a command line",
        "Spark's settings appear on the command line of `spark-submit`, and in Spark's own pages and logs. `floe validate` finds the secret in the target file (FLOE-C311).",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "the target's spark.conf holds a secret under spark.hadoop.fs.s3a.secret.key, and other users can see command lines",
            "cluster",
            "give it to the cluster's own configuration",
            (
                "# Remove the key from the target and set it in the cluster's own spark-defaults.conf or core-site.xml, then:",
                "floe submit orders.yaml -t cluster --print",
            ),
        ),
    ),
    Code(
        "FLOE-E410",
        "spark-submit is not found",
        "It comes with pyspark, or with the Spark that SPARK_HOME names.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "spark-submit is not found",
            "/opt/spark/bin/spark-submit",
            "install pyspark, or set SPARK_HOME",
            (
                "export SPARK_HOME=/opt/spark-4.1.0",
                "floe submit orders.yaml -t cluster",
            ),
        ),
    ),
    Code(
        "FLOE-E411",
        "A package is not installed",
        "The environment is not the one that floe was installed with. The remedy is the command for the way that floe got here: a clone, a wheel, a git address or an index.",
        transcript=Transcript(
            "package",
            "package pyroaring is not installed",
            "/home/ada/.venv",
            "install floe again: make setup",
            (
                "make setup",
                "floe package",
            ),
        ),
    ),
    Code(
        "FLOE-E412",
        "Packages for the nodes cannot be fetched",
        "The platform's name is wrong, or the package index cannot be reached.",
        transcript=Transcript(
            "package --platform manylinux_2_28",
            "packages for Python 3.12 on manylinux_2_28 cannot be fetched: ERROR: No matching distribution found for pyarrow",
            "manylinux_2_28",
            "check the platform's name, such as manylinux_2_28_x86_64, and the network",
            ("floe package --platform manylinux_2_28_x86_64",),
        ),
    ),
    Code(
        "FLOE-E413",
        "The nodes' archive holds other packages",
        "`spark.archives` of the target names a copy of the archive that `floe package` made, so that nodes unpack it once and not for each application. Its name is the sum of what it holds, and the packages of this machine have another one since.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "spark.archives names hdfs:///floe/5c0f2a61d9be7730.tar.gz, but the packages of this machine are those of 86e2281ac625cbde.tar.gz",
            "cluster",
            "run `floe package`, copy its archive to where the nodes find it, and name that in spark.archives",
            (
                "floe package",
                "hdfs dfs -put ~/.cache/floe/environments/86e2281ac625cbde.tar.gz /floe/",
                "# Name it in `spark.archives` of the target file, then:",
                "floe submit orders.yaml -t cluster --print",
            ),
        ),
    ),
    Code(
        "FLOE-E414",
        "Spark does not know where YARN is",
        "Spark reads the addresses of YARN and HDFS from the files in `HADOOP_CONF_DIR` or `YARN_CONF_DIR`, which the cluster's administrators hand out.",
        transcript=Transcript(
            "submit orders.yaml -t cluster",
            "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, and Spark needs one to find YARN",
            "cluster",
            "export HADOOP_CONF_DIR=/etc/hadoop/conf",
            (
                "export HADOOP_CONF_DIR=/etc/hadoop/conf",
                "floe submit orders.yaml -t cluster",
            ),
        ),
    ),
    Code(
        "FLOE-P003",
        "Drivers in the cluster are not deployed from here",
        "`floe deploy` supervises drivers on the machine where it runs: it starts, drains and restarts them. A target with `spark.submit.deployMode: cluster` hands them to the cluster, which does that itself.",
        transcript=Transcript(
            "deploy pipelines -t cluster",
            "floe deploy runs drivers on this machine, but the target runs them in the cluster",
            "cluster",
            "set spark.submit.deployMode to client, or hand them to the cluster with `floe submit`",
            ("floe submit pipelines -t cluster",),
        ),
    ),
    Code(
        "FLOE-P004",
        "There is no pipeline file",
        "The folder holds no *.yaml or *.yml file of `kind: Pipeline`, in it or below it. Targets and templates are not run by themselves.",
        transcript=Transcript(
            "run targets -t prod",
            "there is no pipeline file here",
            "targets",
            "name a file, or a folder with pipeline files",
            ("floe run pipelines -t prod",),
        ),
    ),
    Code(
        "FLOE-R410",
        "The record of a deployed application is damaged",
        "`floe deploy` records what it has started in `run/` of the state directory. A file there was changed or cut off.",
        transcript=Transcript(
            "deploy pipelines -t prod",
            "the record of a deployed application cannot be read: Expecting value: line 1 column 1 (char 0)",
            ".floe/run/prod/orders/application.json",
            "end its processes by hand, delete .floe/run/prod/orders, and deploy again",
            (
                "ps -ef | grep 'floe run'",
                "rm -r .floe/run/prod/orders",
                "floe deploy pipelines -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R411",
        "A deployed application does not run",
        "It ended, or did not report on the control topic in time. The end of its log stands below the message. Its supervisor restarts it after failures that may pass. Deploying again is safe.",
        transcript=Transcript(
            "deploy pipelines -t prod",
            "application orders does not run after 60 s; it is waiting",
            ".floe/run/prod/orders/driver.log",
            "read the log; `floe deploy --status` shows what the supervisor does, and deploying again is safe",
            (
                "floe deploy pipelines -t prod --status",
                "floe doctor pipelines/orders.yaml -t prod",
                "floe deploy pipelines -t prod",
            ),
        ),
    ),
)
