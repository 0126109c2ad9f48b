"""The plan: what a pipeline will do, as plain data. `floe plan` prints this list of steps and `floe run` executes it.

In: nothing; these are the values `framework.plan.compile` makes from a PipelineSpec and a TargetSpec. Out: frozen steps
that pickle to Spark's tasks and turn into JSON. No step holds a secret or a connection setting: only connection names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.config.names.metadata import HISTORY, HISTORY_OF_ELEMENTS
from framework.config.names.table_names import Catalogs
from framework.config.spec import (
    MAX_RECORD_BYTES,
    DistributionMode,
    ErrorPolicy,
    FieldHint,
    FormatSpec,
    KeySpec,
    RouteMode,
    RouteRule,
    TablesSpec,
)
from framework.config.values.objectives import NO_OBJECTIVES, Objectives
from framework.config.values.owners import NOBODY, Owners


@dataclass(frozen=True)
class ReadKafka:
    """Plan offset ranges of the topics and fetch them. One range may be cut into slices, one task each."""

    connection: str
    topics: tuple[str, ...]
    topic_pattern: str | None
    starting_offsets: str
    on_data_loss: str
    group_id: str
    max_records_per_batch: int
    slices: int
    max_record_bytes: int = MAX_RECORD_BYTES  # of value, key and headers; a larger one is a dead letter
    window: tuple[tuple[str, int, int, int], ...] = ()  # only these (topic, partition, start, end); empty: everything


@dataclass(frozen=True)
class Decode:
    """Bytes to Arrow, block by block."""

    format: FormatSpec
    hints: tuple[FieldHint, ...]
    metadata_columns: tuple[str, ...]
    block_records: int
    key: KeySpec | None = None
    parsed: tuple[str, ...] = ()  # dotted paths of fields whose text is JSON

    @property
    def registries(self) -> tuple[str, ...]:
        """The target's registry connections that values and keys need."""
        named = (self.format.registry, self.key.format.registry if self.key else None)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def has_keys_apart(self) -> bool:
        """Whether keys have another registry than values, so that one id means two schemas."""
        return len(self.registries) > 1


@dataclass(frozen=True)
class Transform:
    """Spark SQL between decode and write; projection and filter over `source` only."""

    sql: str


@dataclass(frozen=True)
class Route:
    """Every record to the name of its table or tables, confined to `allow_tables`."""

    mode: RouteMode
    rules: tuple[RouteRule, ...]
    unrouted: ErrorPolicy
    allow_tables: tuple[str, ...]
    max_new_tables_per_hour: int
    refused_tables: tuple[tuple[str, str], ...] = ()  # while running: (table that cannot be written now, why)
    owned_by_others: tuple[tuple[str, str], ...] = ()  # of these the tables of other pipelines, and whose they are
    only_tables: tuple[str, ...] = ()  # what goes to other tables is dropped: they hold it already; (): all of them
    catalogs: Catalogs = ()  # where tables live, by their names; records are routed to full names
    not_for_records: str | None = None  # the dead-letter table, where names depend on records: none may name it


@dataclass(frozen=True)
class WriteFiles:
    """Convert to each table's schema exactly (invariant 9), write Parquet, keep what cannot be converted."""

    tables: TablesSpec
    errors: ErrorPolicy
    dead_letter_table: str | None
    max_error_ratio: float | None
    max_error_count: int | None
    target_file_bytes: int
    buffer_bytes: int
    error_stages: tuple[tuple[str, ErrorPolicy], ...] = ()
    dead_letter_topic: str | None = None

    def policy_at(self, stage: str) -> ErrorPolicy:
        """What becomes of a record that fails at this stage."""
        return dict(self.error_stages).get(stage, self.errors)


@dataclass(frozen=True)
class Announce:
    """One transaction a batch: DataWritten per table, DataComplete, and all source offsets (invariant 1)."""

    control_topic: str
    transactional_id: str
    trigger_every_ms: int
    heartbeat_ms: int
    max_waiting_batches: int = 2_000  # announced and not yet in their tables: with more, nothing is read
    max_waiting_bytes: int = 256 * 1024**3
    silent_after_ms: int | None = None  # without a record for so long, the pipeline is at risk
    objectives: Objectives = NO_OBJECTIVES  # measured; nothing is decided by them


@dataclass(frozen=True)
class CommitTables:
    """The coordinator appends what is announced, when a table is due. Catalog and tables are those that files are
    written for; `Plan.commit` makes this step of them."""

    coordinator_group: str
    catalog: str
    tables: TablesSpec


Step = ReadKafka | Decode | Transform | Route | WriteFiles | Announce | CommitTables


@dataclass(frozen=True)
class Plan:
    """All steps of one pipeline under one target, in order. `source_file` is shown to people only."""

    pipeline: str
    target: str
    source_file: str
    read: ReadKafka
    decode: Decode
    transform: Transform | None
    route: Route
    write: WriteFiles
    announce: Announce
    coordinator_group: str
    owners: Owners = NOBODY  # shown to people, and a label of alerts

    @property
    def commit(self) -> CommitTables:
        """What becomes of announced files: decided by the same tables that they are written for, so that neither can
        differ."""
        tables = self.write.tables
        return CommitTables(self.coordinator_group, tables.defaults.catalog, tables)

    @property
    def is_distributed(self) -> bool:
        """Whether any table may be written through the exchange."""
        tables = self.write.tables
        policies = (tables.defaults, *(policy for _, policy in tables.overrides))
        return self.is_upserted or any(policy.distribution is DistributionMode.HASH for policy in policies)

    @property
    def is_upserted(self) -> bool:
        """Whether any table is upserted; then one batch at a time is on its way to the tables (invariant
        17): which rows the next one replaces is known when it has come there."""
        return self.write.tables.has_upserts

    @property
    def hints_of_tables(self) -> tuple[FieldHint, ...]:
        """What is declared of the columns of new tables: with SQL nothing, for then the hints are of what it reads."""
        return () if self.transform else self.decode.hints

    def hints_of(self, table: str) -> tuple[FieldHint, ...]:
        """The same of one table: of a history nothing is required, since a delete may have its key alone."""
        if self.write.tables.whose_history(table) is None:
            return self.hints_of_tables
        return tuple(replace(hint, required=False) for hint in self.hints_of_tables)

    def metadata_columns_of(self, table: str) -> tuple[str, ...]:
        """Which of Kafka's own fields are columns of a table; a history says of each change what it was, and where it
        stood."""
        named = self.decode.metadata_columns
        if self.write.tables.whose_history(table) is None:
            return named
        own = self.history_columns
        return (*named, *(name for name in own if name not in named))

    @property
    def history_columns(self) -> tuple[str, ...]:
        """What each history has beside the columns of its table."""
        return HISTORY if self.decode.format.explode is None else HISTORY_OF_ELEMENTS

    @property
    def may_grow_batches(self) -> bool:
        """Whether a batch may be larger while there is a backlog. Not where a task holds its rows until its end, as for
        SQL and the exchange, nor where dead letters travel in the announcing transaction, which must be short."""
        return not (self.transform or self.is_distributed or self.write.dead_letter_topic)

    @property
    def steps(self) -> tuple[Step, ...]:
        middle: tuple[Step, ...] = (self.transform,) if self.transform else ()
        return (self.read, self.decode, *middle, self.route, self.write, self.announce, self.commit)
