"""Every label that a metric may have, with what stands in it.

In: nothing. Out: the list. No record, key or secret can become a label, since no other one exists.
"""

from __future__ import annotations

from enum import Enum


class Label(str, Enum):
    """Every label that a metric may have, with what stands in it."""

    CATALOG = "catalog"
    CODE = "code"
    CONTROL_TOPIC = "control_topic"
    DUTY = "duty"
    KIND = "kind"
    OBJECTIVE = "objective"
    OUTCOME = "outcome"
    PARTITION = "partition"
    PHASE = "phase"
    PIPELINE = "pipeline"
    PROCESS = "process"
    REASON = "reason"
    REQUEST = "request"
    SERVICE = "service"
    SIZE = "size"
    STAGE = "stage"
    STATE = "state"
    TABLE = "table"
    TARGET = "target"
    TEAM = "team"
    TOPIC = "topic"
    VERSION = "version"


LABELS: dict[Label, str] = {
    Label.CATALOG: "a catalog's name in the target",
    Label.CODE: "a code of [codes.md](codes.md); `none` without one",
    Label.CONTROL_TOPIC: "the control topic's name",
    Label.DUTY: "`pipeline`, `schema`, `catalog`, `topics`, `dead_letters` or `cut_over`, as under `owners:`",
    Label.KIND: "`table`, `partition` or `reason`",
    Label.OBJECTIVE: "`freshness`, `complete` or `dead_letters`, as under `objectives:`",
    Label.OUTCOME: "how a record, a batch or a commit ended; the metric names the values",
    Label.PARTITION: "a partition's number",
    Label.PHASE: "what a batch is at; the metric names the values",
    Label.PIPELINE: "a pipeline's name",
    Label.PROCESS: "`python`: the driver or the coordinator; `java`: the JVM beside it",
    Label.REASON: "the code of why a record was dropped; `rule`: the file says so, and nothing is wrong with it. Of a "
    "table: why it should be maintained; the metric names the values",
    Label.REQUEST: "a kind of request as stores bill them: `get`, `head`, `list`, `put`, `post`, `delete`",
    Label.SERVICE: "`broker`, `catalog`, `store`, `registry` or `spark`",
    Label.SIZE: "`1MiB`, `8MiB`, `32MiB`, `128MiB`, `512MiB`: smaller than that, and no smaller than the one before; `larger`",
    Label.STAGE: "`fetch`, `decode`, `transform`, `route`, `convert` or `write`",
    Label.STATE: "a state as `floe status` shows it",
    Label.TABLE: "a table's name as commands show it",
    Label.TEAM: "a team, as under `owners:`",
    Label.TARGET: "the target's name",
    Label.TOPIC: "a source topic's name",
    Label.VERSION: "the version of floe",
}
