"""FLOE-E1xx and FLOE-R12x: Kafka, and the schema registry beside it."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-E101",
        "Kafka cannot be reached",
        "No broker answers at the address of the connection: it is down, the address or port is wrong, or a firewall blocks it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "no answer from Kafka while reading the topics: Connect to ipv4#10.0.0.5:9092 failed: Connection refused",
            "broker:9092",
            "check bootstrap.servers of the target file, and that this machine can reach that address",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-E102",
        "Kafka refuses the credentials",
        "The connection's user, password, certificate or security protocol is wrong.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the broker refused the connection while reading the topics: SASL authentication error: Authentication failed",
            "broker:9092",
            "check security.protocol, sasl.* and ssl.* of the connection in the target file",
            (
                "# Correct the connection in the target file, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E103",
        "Kafka denies access",
        "The user lacks a permission. The message says for which group, topic or transactional id.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "not permitted while reading topic orders: Broker: Topic authorization failed",
            "broker:9092",
            "allow this operation for this principal; `floe doctor FILE` lists what it needs",
            (
                "floe doctor orders.yaml -t prod",
                "# An administrator grants what is missing, for example:",
                "kafka-acls.sh --bootstrap-server broker:9092 --add --allow-principal User:floe --operation Read --operation Describe --topic orders",
            ),
        ),
    ),
    Code(
        "FLOE-E104",
        "The connection sets what the protocol owns",
        "See FLOE-C702.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the Kafka connection sets enable.auto.commit, which the protocol must set itself",
            "broker:9092",
            "remove the key from the connection in the target file",
            (
                "# Remove the key, then:",
                "floe validate orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E105",
        "The connection has no bootstrap.servers",
        "Every Kafka connection of a target needs the address of a broker.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the Kafka connection has no bootstrap.servers",
            "",
            "set bootstrap.servers in the connection of the target file",
            (
                "# Set the key, then:",
                "floe validate orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E106",
        "The consumer group is used by something else",
        "Other live consumers are members of the pipeline's group, so they could move its offsets.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "consumer group floe-orders has live members that are not floe: consumer kafka-ui-1 on 10.0.0.7",
            "broker:9092",
            "stop those consumers, or change the target's prefix or the pipeline's name",
            (
                "# Stop those consumers, then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E107",
        "The control topic cannot be created",
        "The user may not create topics. The message shows the command for an administrator.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the control topic control-iceberg does not exist and may not be created: Broker: Topic authorization failed",
            "broker:9092",
            "ask an administrator to run: kafka-topics.sh --bootstrap-server broker:9092 --create --topic control-iceberg --partitions 1 --config cleanup.policy=delete --config retention.ms=2592000000 --config retention.bytes=-1 --config max.message.bytes=1048588 --config unclean.leader.election.enable=false",
            (
                "# An administrator runs the command of the message; then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E108",
        "There is no control topic",
        "No pipeline has run against this target yet, or it was deleted.",
        transcript=Transcript(
            "status -t prod",
            "the control topic control-iceberg does not exist",
            "broker:9092",
            "`floe run` creates it; or run: kafka-topics.sh --bootstrap-server broker:9092 --create --topic control-iceberg --partitions 1 --config cleanup.policy=delete --config retention.ms=2592000000 --config retention.bytes=-1 --config max.message.bytes=1048588 --config unclean.leader.election.enable=false",
            (
                "# Nothing has run yet: the first run creates the topic.",
                "floe run orders.yaml -t prod",
                "# Another name: the one in `commit.control_topic` of the pipelines.",
                "floe status -t prod --control-topic control-orders",
                "# It was deleted:",
                "floe rebase orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E109",
        "The control topic has settings that lose data",
        "It needs one partition, `cleanup.policy=delete`, a `retention.ms` of at least a day, a `retention.bytes` of at least 1 GiB (-1: for ever), messages of 1 MB, and, with several replicas, `unclean.leader.election.enable=false`.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the control topic control-iceberg has cleanup.policy=compact; compaction would remove announcements",
            "broker:9092",
            "run: kafka-configs.sh --bootstrap-server broker:9092 --alter --topic control-iceberg --add-config cleanup.policy=delete; if it was compacted already, name another topic",
            (
                "kafka-configs.sh --bootstrap-server broker:9092 --alter --topic control-iceberg --add-config cleanup.policy=delete",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E110",
        "A topic does not exist",
        "The source names a topic that the cluster does not have.",
        transcript=Transcript(
            "init --from-topic --topic ordres -t prod",
            "there is no topic ordres",
            "broker:9092",
            "check the topic's name and the target's connection",
            ("floe init --from-topic --topic orders -t prod",),
        ),
    ),
    Code(
        "FLOE-E111",
        "The pipeline is live",
        "The command would change what a live run relies on, so it changes nothing. A run is live while it is a member of the pipeline's consumer group; one that was killed is gone after 6 s.",
        transcript=Transcript(
            "offsets set orders --from-log -t prod",
            "pipeline orders is live, and `floe offsets set` would change what it relies on: run d5b288230460 on 10.0.0.8",
            "broker:9092",
            "end the run first (`floe stop orders` drains it); a killed run is gone after 6 s",
            (
                "floe stop orders -t prod",
                "floe offsets set orders --from-log -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E112",
        "The schema registry refuses us",
        "Wrong credentials or certificates, or an address at which there is no schema registry. It is not tried again by itself.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the schema registry cannot be used: it answers 401 to /schemas/ids/7",
            "https://registry:8081",
            "check basic.auth.user.info or bearer.auth.token of the registry connection, and its permissions",
            (
                "# Correct the registry connection in the target file, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E113",
        "The broker gives topics no id",
        "An offset is valid for one topic only, and the topic's id distinguishes it from a later topic of the same name (invariant 11). Brokers before Kafka 2.8, or with an older inter.broker.protocol.version, have no topic ids. Without them, floe would read a recreated topic from the offset where it left the old one.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the broker gives topic orders no id, so a recreated topic of the same name would look the same",
            "broker:9092",
            "use Kafka 2.8 or newer, with inter.broker.protocol.version at 2.8 or above; topics then get their ids",
            (
                "# Upgrade the brokers and raise inter.broker.protocol.version, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E114",
        "Dead letters cannot be replayed",
        "The dead-letter table holds what failed. Replay the table that the records were meant for.",
        transcript=Transcript(
            "replay orders.yaml --table shop.dead_letters -t prod",
            "table shop.dead_letters holds the dead letters of pipeline orders, which cannot be replayed by themselves",
            "shop.dead_letters",
            "replay the table that the records were meant for; what still fails is dropped there",
            (
                "floe replay orders.yaml --table shop.orders -t prod",
                "# To try the dead letters themselves again:",
                "floe dlq replay orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E115",
        "There is no good token for Kafka",
        "The connection asks an identity provider or AWS for tokens. Either it got none, since the provider is down, does not know the client, or there are no credentials; or the broker does not take the token. A running job waits and tries again.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            'no token for Kafka was given while reading the topics: {"error": "invalid_client"}',
            "https://login.example/token",
            "check that this machine reaches it, and sasl.oauthbearer.client.id, client.secret and scope of the connection",
            (
                "# Correct the connection in the target file, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R120",
        "A temporary error of Kafka",
        "Kafka reports an error that passes. floe tries again by itself.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "Kafka failed for now while reading topic orders: Broker: Leader not available",
            "broker:9092",
            "",
            (
                "# floe tries again by itself. If it goes on:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R121",
        "Kafka refused a request",
        "Kafka answered with an error that does not pass by itself. The message names it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "Kafka refused a request while reading topic orders: Broker: Invalid request",
            "broker:9092",
            "the broker's log says more about this error",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R122",
        "An announcement was aborted",
        "The transaction certainly did not happen. floe tries again by itself.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the announcement was aborted: Broker: Transaction timed out",
            "floe-orders",
            "it is announced again by itself; if this goes on, the broker's log says why",
            (
                "# floe announces the batch again. If it goes on:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R123",
        "Kafka gives no records",
        "The partition has records but delivers none: it has no leader, or the connection is broken.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "no records came from orders-3 at offset 1200 for 60 s",
            "broker:9092",
            "check that the partition has a leader and that this machine can reach every broker",
            (
                "kafka-topics.sh --bootstrap-server broker:9092 --describe --topic orders",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R124",
        "A table that cannot keep the control log",
        "`log.archive` names a table that was made for something else, or whose record of what it holds is gone, or that holds more of the log than the topic has, as after a broker lost records. Nothing is appended to it, and commits of other tables go on. Name a table that does not exist yet: it begins with what the topic still has.",
        transcript=Transcript(
            "readiness orders.yaml -t prod",
            "table ops.control_log is no archive of a control log: it was not made by `log.archive`",
            "ops.control_log",
            "name a table under log.archive that does not exist yet; floe makes it",
            ("floe readiness orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R141",
        "The schema registry does not answer",
        "Records name schemas that only the registry knows. The batch waits and is tried again. Until then nothing is announced, and no record becomes a dead letter.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the schema registry does not answer: https://registry:8081: ConnectTimeout",
            "https://registry:8081",
            "the batch waits and is tried again; check that the registry runs and that executors can reach it",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
)
