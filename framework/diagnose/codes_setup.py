"""FLOE-E: the environment is wrong. Nothing was read and nothing was written; the exit code is 3."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code(
        "FLOE-E001", "The environment is wrong", "Something that the command needs is missing; the message says what."
    ),
    Code(
        "FLOE-E002",
        "A secret cannot be read",
        "The environment variable or file that a `${secret:...}` names is missing or empty where the driver runs. Secrets are read at start, in the driver only.",
    ),
    Code(
        "FLOE-E020",
        "The local stack's state cannot be read",
        "The file under `.floe/` is damaged. `floe local down` and `floe local up` write it anew; topics and tables stay.",
    ),
    Code(
        "FLOE-E021",
        "Java is missing or of the wrong version",
        "Spark and the embedded broker need Java 17 or 21. The message holds the one command that installs it.",
    ),
    Code(
        "FLOE-E022",
        "The broker's files cannot be fetched",
        "The first `floe local up` fetches them from Maven Central; afterwards no network is needed.",
    ),
    Code(
        "FLOE-E023",
        "A fetched file is not the expected one",
        "Its SHA-256 sum is not the pinned one, so it is not started. Try again; if it stays so, a proxy changes what is fetched.",
    ),
    Code("FLOE-E024", "The embedded broker does not start or stop", "Its log, named in the message, says why."),
    Code(
        "FLOE-E025",
        "The embedded stack belongs to something else",
        "The port is taken, or the state folder is another broker's. Choose another port with `--kafka-port`, or another folder with FLOE_HOME.",
    ),
    Code(
        "FLOE-E026", "The data of the demonstration cannot be fetched", "It comes from the package index that pip uses."
    ),
    Code(
        "FLOE-E027",
        "The demonstration's topics hold something else",
        "They are not what the demonstration wrote. `floe local down --wipe` begins anew.",
    ),
    Code(
        "FLOE-E030",
        "A folder of floe's own is not ours alone",
        "State and caches hold plans, logs and code that is run. A folder that belongs to somebody else, that others may write into, or that somebody else's link leads to is not used.",
    ),
    Code("FLOE-E028", "The demonstration cannot be run here", "The message says what is missing."),
    Code("FLOE-E029", "A file is in the way", "`floe init` writes over nothing unless `--force` says so."),
    Code(
        "FLOE-E029",
        "The local Spark cluster does not come up",
        "`floe local up --spark` starts a master and a worker from the installed PySpark. The log that is named says why one of them did not.",
    ),
    Code(
        "FLOE-E101",
        "Kafka cannot be reached",
        "No broker answers at the address of the connection: it is down, the address or port is wrong, or a firewall is between.",
    ),
    Code(
        "FLOE-E102",
        "Kafka refuses the credentials",
        "User, password or certificate of the connection are wrong, or the security protocol is another.",
    ),
    Code(
        "FLOE-E103",
        "Kafka does not permit it",
        "The user lacks a permission; the message says for which group, topic or transactional id.",
    ),
    Code("FLOE-E104", "The connection sets what the protocol owns", "See FLOE-C702."),
    Code(
        "FLOE-E105",
        "The connection has no bootstrap.servers",
        "Every Kafka connection of a target needs the address of a broker.",
    ),
    Code(
        "FLOE-E106",
        "The consumer group is used by something else",
        "Live consumers that are not floe are members of the pipeline's group, so its offsets would not be its own.",
    ),
    Code(
        "FLOE-E107",
        "The control topic cannot be created",
        "The user may not create topics. The message holds the command for an administrator.",
    ),
    Code("FLOE-E108", "There is no control topic", "No pipeline has run against this target yet, or it was deleted."),
    Code(
        "FLOE-E109",
        "The control topic has settings that lose data",
        "It needs one partition, `cleanup.policy=delete`, a `retention.ms` of a day and a `retention.bytes` of 1 GiB at least (-1: for ever), messages of 1 MB, and with several replicas `unclean.leader.election.enable=false`.",
    ),
    Code(
        "FLOE-E113",
        "The broker gives topics no id",
        "An offset says something of one topic only, and a topic's id is what tells it from another that was made under its name (invariant 11). Brokers before Kafka 2.8, or with an older inter.broker.protocol.version, have none; without them floe would take up a topic that was made anew where it left the old one.",
    ),
    Code(
        "FLOE-E112",
        "The schema registry refuses us",
        "Wrong credentials or certificates, or an address at which there is no schema registry. It is not tried again by itself.",
    ),
    Code("FLOE-E110", "A topic does not exist", "The source names a topic that the cluster does not have."),
    Code(
        "FLOE-E111",
        "The pipeline is live",
        "What the command changes is what a live run goes by, so it refuses and changes nothing. A run is seen as a member of the pipeline's consumer group; one that was killed is gone after 6 s.",
    ),
    Code(
        "FLOE-E112",
        "Dead letters cannot be replayed",
        "The table for dead letters holds what failed. Replay the table that the records should have come into.",
    ),
    Code("FLOE-E201", "The catalog cannot be reached", "The address of the target's catalog is wrong, or it is down."),
    Code(
        "FLOE-E202",
        "The catalog's settings are wrong",
        "PyIceberg cannot make a catalog of them; the message says why.",
    ),
    Code(
        "FLOE-E203",
        "The catalog has no warehouse",
        "New tables need a place. Set `warehouse` in the target's catalog connection.",
    ),
    Code("FLOE-E204", "A package for the catalog is missing", "The message holds the command that installs it."),
    Code("FLOE-E301", "Spark does not start", "Java is missing or the master cannot be reached."),
    Code("FLOE-E310", "No topic to read", "The topics of `source.kafka` do not exist, or the pattern matches none."),
    Code(
        "FLOE-E311",
        "The target has no catalog of this name",
        "Tables live in the catalog `default`, or in the one that `catalog` in `tables` says; their full names begin with it, as in `cold:archive.orders`. All targets that share a control topic name the same catalogs, since whichever driver coordinates commits for all.",
    ),
    Code(
        "FLOE-E312",
        "The target's connection is not clear",
        "The target has several Kafka connections; name one with `--connection`.",
    ),
    Code(
        "FLOE-E313",
        "The table's catalog is not named",
        "A table of another catalog than `default` is named with it everywhere outside the pipeline file: `cold:archive.orders`.",
    ),
    Code(
        "FLOE-E401",
        "A submitted plan cannot be used",
        "The driver was given no plan, a damaged one, or one that was changed by hand: its hash is not that of its content.",
    ),
    Code(
        "FLOE-E403",
        "Spark's master is not one that floe submits to",
        "floe submits to local, spark://, yarn and k8s:// masters.",
    ),
    Code("FLOE-E404", "Several targets in one application", "Pipelines of one driver run on one target."),
    Code(
        "FLOE-E405",
        "The deploy mode is not possible",
        "A driver runs in the `client` or, where the master is a cluster, in the `cluster`.",
    ),
    Code(
        "FLOE-E406",
        "The packages' archive is missing",
        "The nodes of this master need the Python packages that the driver has; `floe package` makes the archive.",
    ),
    Code("FLOE-E407", "The target sets what `floe submit` sets", "These Spark settings follow from the pipelines."),
    Code("FLOE-E408", "Kubernetes needs a setting", "The message says which and what for."),
    Code(
        "FLOE-E409",
        "A secret would stand on a command line",
        "Settings of Spark are words of `spark-submit`, and in Spark's own pages and logs. `floe validate` finds it in the target file (FLOE-C311).",
    ),
    Code("FLOE-E410", "spark-submit is not found", "It comes with pyspark, or with the Spark that SPARK_HOME names."),
    Code("FLOE-E411", "A package is not installed", "The environment is not the one that the lock describes."),
    Code(
        "FLOE-E412",
        "Packages for the nodes cannot be fetched",
        "The platform's name is wrong, or the package index cannot be reached.",
    ),
    Code(
        "FLOE-E601",
        "The pipeline keeps no dead letters",
        "`floe dlq` looks at the table that `errors.dead_letter_table` names, and the file names none.",
    ),
    Code("FLOE-E602", "No such dead letter", "No letter of the pipeline has this topic, partition and offset."),
    Code(
        "FLOE-E501",
        "The doctor cannot write to Kafka",
        "`floe doctor` writes one record to a scratch topic to compare clocks; the user may not.",
    ),
)
