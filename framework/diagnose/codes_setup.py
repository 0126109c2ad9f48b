"""FLOE-E: the environment is wrong. Nothing was read and nothing was written; the exit code is 3."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code(
        "FLOE-E001", "The environment is wrong", "The command needs something that is missing. The message says what."
    ),
    Code(
        "FLOE-E002",
        "A secret cannot be read",
        "The environment variable or file that a `${secret:...}` names is missing or empty where the driver runs. Secrets are read at start, in the driver only.",
    ),
    Code(
        "FLOE-E020",
        "The local stack's state cannot be read",
        "The file under `.floe/` is damaged. `floe local down` and `floe local up` write it again; topics and tables stay.",
    ),
    Code(
        "FLOE-E021",
        "Java is missing or of the wrong version",
        "Spark and the embedded broker need Java 17 or 21. The message shows the command that installs it.",
    ),
    Code(
        "FLOE-E022",
        "The broker's files cannot be fetched",
        "The first `floe local up` fetches them from Maven Central. After that it needs no network.",
    ),
    Code(
        "FLOE-E023",
        "A fetched file is not the expected one",
        "Its SHA-256 checksum is not the pinned one, so it is not started. Try again. If the error stays, a proxy changes what is downloaded.",
    ),
    Code("FLOE-E024", "The embedded broker does not start or stop", "Its log, named in the message, says why."),
    Code(
        "FLOE-E025",
        "The embedded stack belongs to something else",
        "The port is in use, or the state folder belongs to another broker. Choose another port with `--kafka-port`, or another folder with FLOE_HOME.",
    ),
    Code(
        "FLOE-E026", "The data of the demonstration cannot be fetched", "It comes from the package index that pip uses."
    ),
    Code(
        "FLOE-E027",
        "The demonstration's topics hold something else",
        "Somebody else wrote to them. `floe local down --wipe` deletes everything and starts over.",
    ),
    Code(
        "FLOE-E030",
        "Others can change one of floe's folders",
        "State and caches hold plans, logs and code that floe runs. It refuses a folder that belongs to another user, that others may write to, or that another user's link points to.",
    ),
    Code("FLOE-E028", "The demonstration cannot be run here", "The message says what is missing."),
    Code("FLOE-E029", "A file is in the way", "`floe init` writes over nothing unless `--force` says so."),
    Code(
        "FLOE-E031",
        "The local Spark cluster does not come up",
        "`floe local up --spark` starts a master and a worker from the installed PySpark. The log named in the message says why one of them did not start.",
    ),
    Code(
        "FLOE-E034",
        "Metrics cannot be served",
        "The address in `monitoring.listen` of the target is none of this machine, or no port from there on is free. `floe` tries a hundred.",
    ),
    Code(
        "FLOE-E035",
        "Templates cannot be fetched",
        "`floe templates lock` and `update` run the program `git`: it is missing, cannot reach the repository, or the tag does not exist or holds no templates. git asks for no password here: set up a credential helper or an SSH agent.",
    ),
    Code(
        "FLOE-E101",
        "Kafka cannot be reached",
        "No broker answers at the address of the connection: it is down, the address or port is wrong, or a firewall blocks it.",
    ),
    Code(
        "FLOE-E102",
        "Kafka refuses the credentials",
        "The connection's user, password, certificate or security protocol is wrong.",
    ),
    Code(
        "FLOE-E103",
        "Kafka denies access",
        "The user lacks a permission. The message says for which group, topic or transactional id.",
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
        "Other live consumers are members of the pipeline's group, so they could move its offsets.",
    ),
    Code(
        "FLOE-E107",
        "The control topic cannot be created",
        "The user may not create topics. The message shows the command for an administrator.",
    ),
    Code("FLOE-E108", "There is no control topic", "No pipeline has run against this target yet, or it was deleted."),
    Code(
        "FLOE-E109",
        "The control topic has settings that lose data",
        "It needs one partition, `cleanup.policy=delete`, a `retention.ms` of at least a day, a `retention.bytes` of at least 1 GiB (-1: for ever), messages of 1 MB, and, with several replicas, `unclean.leader.election.enable=false`.",
    ),
    Code(
        "FLOE-E113",
        "The broker gives topics no id",
        "An offset is valid for one topic only, and the topic's id tells it from a later topic of the same name (invariant 11). Brokers before Kafka 2.8, or with an older inter.broker.protocol.version, have no topic ids. Without them, floe would read a recreated topic from the offset where it left the old one.",
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
        "The command would change what a live run relies on, so it changes nothing. A run is live while it is a member of the pipeline's consumer group; one that was killed is gone after 6 s.",
    ),
    Code(
        "FLOE-E114",
        "Dead letters cannot be replayed",
        "The dead-letter table holds what failed. Replay the table that the records were meant for.",
    ),
    Code(
        "FLOE-E201",
        "The catalog cannot be reached",
        "The address of the target's catalog is wrong, or the catalog is down.",
    ),
    Code(
        "FLOE-E202",
        "The catalog's settings are wrong",
        "PyIceberg cannot open a catalog with them. The message says why.",
    ),
    Code(
        "FLOE-E203",
        "The catalog has no warehouse",
        "New tables need a location. Set `warehouse` in the target's catalog connection.",
    ),
    Code("FLOE-E204", "A package for the catalog is missing", "The message shows the command that installs it."),
    Code("FLOE-E301", "Spark does not start", "Java is missing or the master cannot be reached."),
    Code("FLOE-E310", "No topic to read", "The topics of `source.kafka` do not exist, or the pattern matches none."),
    Code(
        "FLOE-E311",
        "The target has no catalog of this name",
        "A table lives in the catalog `default`, or in the one that `catalog` in `tables` names. Its full name then begins with that catalog, as in `cold:archive.orders`. All targets that share a control topic must declare the same catalogs, since the driver that coordinates commits for all of them.",
    ),
    Code(
        "FLOE-E312",
        "The target's connection is ambiguous",
        "The target has several Kafka connections; name one with `--connection`.",
    ),
    Code(
        "FLOE-E313",
        "The table's catalog is missing",
        "Outside the pipeline file, the name of a table in a catalog other than `default` begins with the catalog: `cold:archive.orders`.",
    ),
    Code(
        "FLOE-E401",
        "A submitted plan cannot be used",
        "The driver got no plan, a damaged one, or one that was edited by hand: its hash does not match its content.",
    ),
    Code(
        "FLOE-E403",
        "floe cannot submit to this Spark master",
        "floe submits to local, spark://, yarn and k8s:// masters.",
    ),
    Code("FLOE-E404", "Several targets in one application", "All pipelines of one driver run on the same target."),
    Code(
        "FLOE-E405",
        "The deploy mode is not possible",
        "The deploy mode is `client`, or `cluster` if the master is a cluster.",
    ),
    Code(
        "FLOE-E406",
        "The packages' archive is missing",
        "The nodes of this master need the Python packages that the driver has; `floe package` makes the archive.",
    ),
    Code("FLOE-E407", "The target sets what `floe submit` sets", "These Spark settings follow from the pipelines."),
    Code("FLOE-E408", "Kubernetes needs a setting", "The message says which one, and why."),
    Code(
        "FLOE-E409",
        "A secret would appear on a command line",
        "Spark's settings appear on the command line of `spark-submit`, and in Spark's own pages and logs. `floe validate` finds the secret in the target file (FLOE-C311).",
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
        "`floe dlq` reads the table that `errors.dead_letter_table` names, and the file names none.",
    ),
    Code("FLOE-E602", "No such dead letter", "No letter of the pipeline has this topic, partition and offset."),
    Code(
        "FLOE-E501",
        "The doctor cannot write to Kafka",
        "`floe doctor` writes one record to a scratch topic to compare clocks, and the user may not write there.",
    ),
)
