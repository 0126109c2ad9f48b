"""FLOE-E0xx, E3xx, E5xx and E6xx: the environment is wrong. Nothing was read and nothing was written; the exit code is 3."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-E001",
        "The environment is wrong",
        "The command needs something that is missing. The message says what.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            'a setting of the Kafka connection is wrong: Property "fetch.max.byts" is not known',
            "broker:9092",
            "correct it in the target file; the keys are librdkafka's (CONFIGURATION.md)",
            (
                "# Correct the setting in the target file, then:",
                "floe validate orders.yaml -t prod",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E002",
        "A secret cannot be read",
        "The environment variable or file that a `${secret:...}` names is missing or empty where the driver runs. Secrets are read at start, in the driver only.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the secret ${secret:env:KAFKA_PASSWORD} of `sasl.password` is not set",
            "sasl.password",
            "set the environment variable KAFKA_PASSWORD",
            (
                "# Where the driver runs:",
                "export KAFKA_PASSWORD",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E034",
        "Metrics cannot be served",
        "The address in `monitoring.listen` of the target is none of this machine, or no port from there on is free. `floe` tries a hundred.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "metrics cannot be served: Cannot assign requested address",
            "10.0.0.9:9464",
            "correct `monitoring.listen` of the target",
            (
                '# Set an address of this machine in the target, such as `monitoring: {listen: "localhost:9464"}`.',
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E035",
        "Templates cannot be fetched",
        "`floe templates lock` and `update` run the program `git`: it is missing, cannot reach the repository, or the tag does not exist or holds no templates. git asks for no password here: set up a credential helper or an SSH agent.",
        transcript=Transcript(
            "templates lock acme https://git.example.com/acme/templates --tag v2",
            "the templates cannot be fetched: git fails: fatal: couldn't find remote ref refs/tags/v2",
            "https://git.example.com/acme/templates",
            "check address and tag; try `git ls-remote --tags` with the address",
            (
                "git ls-remote --tags https://git.example.com/acme/templates",
                "floe templates lock acme https://git.example.com/acme/templates --tag v2.0.0",
            ),
        ),
    ),
    Code(
        "FLOE-E036",
        "The page cannot be served",
        "The address of `floe ops --listen` is none of this machine, or its port is taken.",
        transcript=Transcript(
            "ops -t prod",
            "the page cannot be served: Address already in use",
            "127.0.0.1:8765",
            "name another address with --listen, such as `--listen 127.0.0.1:8766`",
            ("floe ops -t prod --listen 127.0.0.1:8766",),
        ),
    ),
    Code(
        "FLOE-E037",
        "The page has no usable tokens",
        "Off loopback `floe ops` needs a token file. It must belong to you, be closed to others, and hold a line `NAME read|act TOKEN` for each person or program; a token has at least 24 characters. In place of a token, a line may hold `sha256:` and the token's SHA-256 in hex.",
        transcript=Transcript(
            "ops -t prod --listen 0.0.0.0:8765 --tokens ops-tokens",
            "the token file may be read or written by others",
            "ops-tokens",
            "`chmod 600 ops-tokens`",
            (
                "chmod 600 ops-tokens",
                "floe ops -t prod --listen 0.0.0.0:8765 --tokens ops-tokens",
            ),
        ),
    ),
    Code(
        "FLOE-E038",
        "A file of records cannot be read",
        "`floe init --from-file` and `floe local send` take JSON (one value a line, a list, or values of several lines) and CSV whose first line names the columns.",
        transcript=Transcript(
            "init orders --topic orders --table shop.orders --from-file orders.jsonl",
            "orders.jsonl cannot be read: it holds no record",
            "orders.jsonl",
            "give it records: one JSON object a line, a JSON list, or CSV with a head",
            ("floe init orders --topic orders --table shop.orders --from-file records.jsonl",),
        ),
    ),
    Code(
        "FLOE-E039",
        "The embedded stack does not run",
        "`floe local topic` and `floe local send` need its broker. It is looked for in FLOE_HOME, or in `.floe` in the current folder and the folders above it.",
        transcript=Transcript(
            "local send orders orders.jsonl",
            "the embedded stack does not run",
            ".floe",
            "floe local up",
            ("floe local up", "floe local send orders orders.jsonl"),
        ),
    ),
    Code(
        "FLOE-E040",
        "The receivers of notifications cannot be read",
        "`floe ops --notify FILE` sends troubles to the receivers in the file. It holds addresses and keys, so it must belong to you and be closed to others. Each line is `slack URL`, with the URL of an incoming webhook, or `pagerduty ROUTING_KEY`, with the key of an Events API v2 integration and, behind it, the URL of another region.",
        transcript=Transcript(
            "ops -t prod --notify receivers",
            "the file of receivers may be read or written by others",
            "receivers",
            "`chmod 600 receivers`",
            (
                "chmod 600 receivers",
                "floe ops -t prod --notify receivers",
            ),
        ),
    ),
    Code(
        "FLOE-E301",
        "Spark does not start",
        "Java is missing or the master cannot be reached.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "Spark does not start: Java gateway process exited before sending its port number",
            "local[2]",
            "check that Java 17 or 21 is installed (`java -version`) and that the target's spark.master is reachable",
            ("floe doctor -t prod --spark",),
        ),
    ),
    Code(
        "FLOE-E310",
        "No topic to read",
        "The topics of `source.kafka` do not exist, or the pattern matches none.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "no topic orders",
            "orders.yaml",
            "create it: `kafka-topics.sh --bootstrap-server broker:9092 --create --topic orders`; or correct source.kafka.topics",
            (
                "kafka-topics.sh --bootstrap-server broker:9092 --create --topic orders --partitions 6",
                "floe plan orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E311",
        "The target has no catalog of this name",
        "A table lives in the catalog `default`, or in the one that `catalog` in `tables` names. Its full name then begins with that catalog, as in `cold:archive.orders`. All targets that share a control topic must declare the same catalogs, since the driver that coordinates commits for all of them.",
        transcript=Transcript(
            "maintain cold:archive.orders -t prod",
            "the target names no catalog cold",
            "connections.catalog.cold",
            "name one of default, or add connections.catalog.cold",
            (
                "# A table of the catalog `default` has no prefix:",
                "floe maintain archive.orders -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E312",
        "The target's connection is ambiguous",
        "The target has several Kafka connections; name one with `--connection`.",
        transcript=Transcript(
            "status -t prod",
            "target prod has several Kafka connections: archive, main",
            "prod",
            "name one with --connection",
            ("floe status -t prod --connection main",),
        ),
    ),
    Code(
        "FLOE-E313",
        "The table's catalog is missing",
        "Outside the pipeline file, the name of a table in a catalog other than `default` begins with the catalog: `cold:archive.orders`.",
        transcript=Transcript(
            "discard --table archive.orders -t prod",
            "nothing is announced for table archive.orders, only for cold:archive.orders in another catalog",
            "archive.orders",
            "name the table with its catalog: --table cold:archive.orders",
            ("floe discard --table cold:archive.orders -t prod",),
        ),
    ),
    Code(
        "FLOE-E501",
        "The doctor cannot write to Kafka",
        "`floe doctor` writes one record to a scratch topic to compare clocks, and the user may not write there.",
        transcript=Transcript(
            "doctor -t prod",
            "one record could not be written to the scratch topic: Broker: Topic authorization failed",
            "floe-doctor-3f1c",
            "grant Write on topics that begin with floe-doctor-, or ignore this line",
            (
                "# An administrator grants it; nothing but this check needs it:",
                "kafka-acls.sh --bootstrap-server broker:9092 --add --allow-principal User:floe --operation Write --topic floe-doctor- --resource-pattern-type prefixed",
                "floe doctor -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E601",
        "The pipeline keeps no dead letters",
        "`floe dlq` reads the table that `errors.dead_letter_table` names, and the file names none.",
        transcript=Transcript(
            "dlq list orders.yaml -t prod",
            "pipeline orders keeps no dead letters",
            "orders.yaml",
            "name a table in errors.dead_letter_table",
            (
                "# Name a table in the file (`errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}`), then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E602",
        "No such dead letter",
        "No dead letter of the pipeline has this topic, partition and offset.",
        transcript=Transcript(
            "dlq show orders.yaml orders-0@7 -t prod",
            "pipeline orders has no dead letter orders-0@7",
            "shop.dead_letters",
            "`floe dlq list orders.yaml --all` lists them",
            ("floe dlq list orders.yaml --all -t prod",),
        ),
    ),
)
