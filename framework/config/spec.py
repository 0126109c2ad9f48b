"""The pipeline file as frozen values: what a person wrote, with every default filled in and every unit made plain.

`framework.config.load` makes these from YAML; `framework.plan.compile` turns them into a plan. Nothing here knows where
a value came from, and no secret is ever held: a secret stays a `SecretRef` until the driver resolves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from framework.config.names.metadata import HISTORY_OF_ELEMENTS
from framework.config.names.patterns import compiled
from framework.config.names.table_names import DEFAULT_CATALOG, Catalogs, identifier_of, matches_glob, placed
from framework.config.values.maintenance import DAY_MS, MaintenanceLimits, MaintenancePolicy
from framework.config.values.objectives import NO_OBJECTIVES, Objectives
from framework.config.values.owners import NOBODY, Owners


class RouteMode(str, Enum):
    FIRST_MATCH = "first_match"
    ALL_MATCH = "all_match"


class ErrorPolicy(str, Enum):
    """What becomes of a record that cannot be decoded, routed or converted (and, as `unrouted`, matched)."""

    DEAD_LETTER = "dead_letter"
    DROP = "drop"
    FAIL = "fail"


class EvolveMode(str, Enum):
    """What becomes of table, value and record when new data asks for a change of one aspect of a table (`tables`,
    `columns`, `data_type`, `nullability`, `names`). `docs/concepts.md` says it for each aspect and each word."""

    EVOLVE = "evolve"
    WIDEN = "widen"
    NEW_COLUMN = "new_column"
    RELAX = "relax"
    RENAME = "rename"
    FREEZE = "freeze"
    DISCARD_VALUE = "discard_value"
    DEAD_LETTER = "dead_letter"
    FAIL = "fail"


class NameCase(str, Enum):
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


class WholeNumbers(str, Enum):
    """What a field of whole numbers becomes where no type is declared."""

    DOUBLE = "double"
    LONG = "long"


class TextAsNumber(str, Enum):
    """Whether text is read in columns of numbers and booleans."""

    READ = "read"
    REFUSE = "refuse"


class EmptyValues(str, Enum):
    """What `[]` and `{}` are in a column of another kind: null, or an error."""

    DISCARD = "discard"
    REFUSE = "refuse"


class DistributionMode(str, Enum):
    """How rows are shared out to writers; the words are those of Iceberg's `write.distribution-mode`."""

    NONE = "none"
    HASH = "hash"


class WriteMode(str, Enum):
    """How batches change a table: rows are added, or each key keeps its newest row."""

    APPEND = "append"
    UPSERT = "upsert"


class Deletes(str, Enum):
    """How the old row of a key goes: marked in a deletion vector or a position delete file, or rewritten with its file.

    `AUTO` is what the table's format version has: deletion vectors from 3 on, position deletes in 2.
    """

    AUTO = "auto"
    DELETION_VECTORS = "deletion_vectors"
    POSITION_DELETES = "position_deletes"
    COPY_ON_WRITE = "copy_on_write"


class KeyIndexUse(str, Enum):
    """Whether an index of a table's keys is kept; `AUTO` keeps one of tables that are large enough to need it."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class UnavailableValues(str, Enum):
    """What Debezium's placeholder for a value that it does not have becomes: the value of the old row, null, or an error."""

    KEEP = "keep"
    NULL = "null"
    DEAD_LETTER = "dead_letter"


class Updates(str, Enum):
    """Whether an update has all columns of its row, or those alone that changed."""

    FULL = "full"
    PARTIAL = "partial"


@dataclass(frozen=True)
class SecretRef:
    """A secret by reference: a scheme (`env`, `file` or what a package offers) and a name.

    Printed as `${secret:...}`, never as its value.
    """

    scheme: str
    name: str

    def __str__(self) -> str:
        return f"${{secret:{self.scheme}:{self.name}}}"


# Formats of text that is no date or time: bytes, and decimals as the bytes of a whole number or as digits.
BASE64, HEX, DIGITS = "base64", "hex", "digits"


class ExtraPrecision(str, Enum):
    """What becomes of a time with more digits than its column holds: they are cut off, or it is an error."""

    TRUNCATE = "truncate"
    DEAD_LETTER = "dead_letter"


class InfiniteTimes(str, Enum):
    """What PostgreSQL's `infinity` becomes in a column of dates or timestamps."""

    NULL = "null"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True)
class FieldHint:
    """Declares one source field exactly. `path` is dotted; `type` is an Iceberg type (`timestamptz`, `decimal(10,2)`).

    `format` is a strptime pattern for text, or one of the words above; `unit` (s, ms, us, ns) is for numbers; `zone` is
    the IANA zone of zoneless text; `comment` is for the column of a new table. `on_extra_precision` and `infinity` are for
    dates and times.
    """

    path: str
    type: str
    format: str | None = None
    unit: str | None = None
    zone: str | None = None
    required: bool = False
    comment: str | None = None
    on_extra_precision: ExtraPrecision = ExtraPrecision.DEAD_LETTER
    infinity: InfiniteTimes = InfiniteTimes.DEAD_LETTER


MAX_RECORD_BYTES = 32 * 1024**2


@dataclass(frozen=True)
class KafkaSourceSpec:
    connection: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: str = "earliest"  # earliest | latest; used only if the pipeline has never run
    on_data_loss: str = "fail"
    max_record_bytes: int = MAX_RECORD_BYTES

    def reads(self, topic: str) -> bool:
        """Whether a topic is one of the source's."""
        return topic in self.topics or (
            self.topic_pattern is not None and compiled(self.topic_pattern).is_within(topic)
        )


class FormatType(str, Enum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    RAW = "raw"


class Encoding(str, Enum):
    """What raw bytes are kept as."""

    BYTES = "bytes"
    TEXT = "text"


class Envelope(str, Enum):
    NONE = "none"
    DEBEZIUM = "debezium"
    CONNECT = "connect"
    FIELDS = "fields"
    """One that the file describes by `EnvelopePaths`."""


@dataclass(frozen=True)
class EnvelopePaths:
    """Where a change event says what happened, and where it has the row: dotted paths. `before` has the row of deletes; without
    it `after` has. `operations` are Debezium's letters with the words that mean them, in whatever case; events of a word in
    `ignore` are dropped. `fields` are kept, each as column `__NAME`."""

    operation: str
    after: str
    before: str | None = None
    operations: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("c", ("c", "create", "insert", "i")),
        ("u", ("u", "update")),
        ("d", ("d", "delete")),
        ("r", ("r", "read", "load", "snapshot")),
    )
    ignore: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


WHOLE_RECORD = "$"
"""What `explode` says where the record is the array."""
RECORD_LINES = "$lines"
"""What it says where documents stand one behind the other, as on lines."""


class Truncates(str, Enum):
    """What becomes of events of a table that was truncated."""

    DEAD_LETTER = "dead_letter"
    IGNORE = "ignore"


@dataclass(frozen=True)
class FormatSpec:
    """How bytes are read.

    `registry` names a connection of the target: then each value begins with the id of its writer's schema. `schema` is
    the text to read with: Avro's JSON, or a protobuf descriptor set in Base64; `message` the full name of a protobuf
    message. `column` and `encoding` are for raw bytes, which become one column. `envelope_fields` are further fields of the
    envelope to keep, dotted below `source`. `explode` is the dotted path of the array each element of which becomes a row,
    or `WHOLE_RECORD` or `RECORD_LINES`.
    """

    type: FormatType = FormatType.JSON
    registry: str | None = None
    schema: str | None = None
    message: str | None = None
    envelope: Envelope = Envelope.NONE
    column: str = "value"
    encoding: Encoding = Encoding.BYTES
    envelope_fields: tuple[str, ...] = ()
    on_truncate: Truncates = Truncates.DEAD_LETTER
    explode: str | None = None
    envelope_paths: EnvelopePaths | None = None


@dataclass(frozen=True)
class KeySpec:
    """How the key's bytes are read: each of its fields becomes a column whose name begins with `prefix`."""

    format: FormatSpec
    prefix: str = "key_"

    @property
    def column(self) -> str:
        """The column of a key that is no record."""
        return self.prefix.rstrip("_") if self.format.column == FormatSpec.column else self.format.column


@dataclass(frozen=True)
class SourceSpec:
    """`metadata_columns` names Kafka's own fields to add as columns `_kafka_<name>`; framework.table.metadata has
    them. `parsed` are the dotted paths of fields whose text is JSON. `silent_after_ms`: a topic without a record for so long is
    at risk; None: whatever its silence. `outage_ms`: the longest outage that must lose nothing; None: nobody has said.
    `rebuild_topic`, `rebuild_table`: what the tables could be made again from; "" for none."""

    kafka: KafkaSourceSpec
    format: FormatSpec = field(default_factory=FormatSpec)
    key: KeySpec | None = None
    hints: tuple[FieldHint, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    parsed: tuple[str, ...] = ()
    silent_after_ms: int | None = None
    outage_ms: int | None = None
    rebuild_topic: str = ""
    rebuild_table: str = ""


@dataclass(frozen=True)
class RouteCondition:
    """Either a test of a record's field (dotted path; `equals`, `one_of`, `exists` or `matches`, a regular expression for the
    whole value) or a test of the topic's name (`topic`, a regular expression searched in it), or both. All of `all_of` hold
    as well, and `negated` does not."""

    field: str | None = None
    equals: str | int | float | bool | None = None
    matches: str | None = None
    topic: str | None = None
    one_of: tuple[str | int | float | bool, ...] = ()
    exists: bool | None = None
    negated: RouteCondition | None = None
    all_of: tuple[RouteCondition, ...] = ()

    @property
    def parts(self) -> Iterator[RouteCondition]:
        """Itself, and every condition in it."""
        yield self
        for inner in (*((self.negated,) if self.negated else ()), *self.all_of):
            yield from inner.parts


@dataclass(frozen=True)
class RouteRule:
    """`table` is `namespace.name`, perhaps with `{field}` behind a literal prefix; `when` None matches every record."""

    table: str
    when: RouteCondition | None = None


@dataclass(frozen=True)
class RoutesSpec:
    rules: tuple[RouteRule, ...]
    mode: RouteMode = RouteMode.FIRST_MATCH
    unrouted: ErrorPolicy = ErrorPolicy.DEAD_LETTER
    allow_tables: tuple[str, ...] = ()
    max_new_tables_per_hour: int = 100


@dataclass(frozen=True)
class PartitionFieldSpec:
    """One partition field: `transform` is identity, bucket, truncate, year, month, day or hour; `argument` its
    number."""

    column: str
    transform: str = "identity"
    argument: int | None = None


@dataclass(frozen=True)
class SortFieldSpec:
    """One field of a sort order: a column through a transform, ascending or descending, with nulls first or last."""

    by: PartitionFieldSpec
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class CreatePolicy:
    """`location` is a pattern with `{namespace}` and `{table}`; None leaves it to the catalog."""

    enabled: bool = True
    partition_by: tuple[PartitionFieldSpec, ...] = ()
    properties: tuple[tuple[str, str], ...] = (("format-version", "2"),)
    sort_by: tuple[SortFieldSpec, ...] = ()
    identifier_fields: tuple[str, ...] = ()
    comment: str | None = None
    location: str | None = None


@dataclass(frozen=True)
class EvolvePolicy:
    """`otherwise` is for changes that a policy allows and Iceberg does not, `names` for fields whose names no column can
    have. `include` and `exclude` are globs of dotted
    paths: a field that is not included, or excluded, never becomes a column. `max_columns` counts fields inside of
    columns."""

    tables: EvolveMode = EvolveMode.EVOLVE
    columns: EvolveMode = EvolveMode.EVOLVE
    data_type: EvolveMode = EvolveMode.WIDEN
    nullability: EvolveMode = EvolveMode.RELAX
    otherwise: EvolveMode = EvolveMode.FREEZE
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_columns: int = 1000
    names: EvolveMode = EvolveMode.RENAME


@dataclass(frozen=True)
class CommitPolicy:
    interval_ms: int = 180_000
    max_bytes: int = 512 * 1024 * 1024
    max_rows: int = 10_000_000
    branch: str = "main"


@dataclass(frozen=True)
class ValuesPolicy:
    """What becomes of values that a column can take in more than one way."""

    whole_numbers: WholeNumbers = WholeNumbers.DOUBLE
    text_as_number: TextAsNumber = TextAsNumber.READ
    empty: EmptyValues = EmptyValues.DISCARD


@dataclass(frozen=True)
class DeleteWhen:
    """The records that delete their key's row: those whose `field` (a dotted path) is `equals`; with `field` None those
    without a value, Kafka's tombstones."""

    field: str | None = None
    equals: str | int | float | bool | None = None


@dataclass(frozen=True)
class WritePolicy:
    """`key` names the columns by which rows are one and the same; only `upsert` has one.

    `order_field` is the column whose larger value is newer; None takes the source's own order: topic, partition,
    offset. With it, deleted keys are remembered for `remember_deletes_ms`. `history` is the identifier of an append
    table that gets every change as well. `unavailable` and `updates` say what becomes of values that a record lacks.
    """

    mode: WriteMode = WriteMode.APPEND
    key: tuple[str, ...] = ()
    order_field: str | None = None
    remember_deletes_ms: int = 7 * DAY_MS
    delete_when: DeleteWhen | None = None
    deletes: Deletes = Deletes.AUTO
    key_index: KeyIndexUse = KeyIndexUse.AUTO
    history: str | None = None
    unavailable: UnavailableValues = UnavailableValues.KEEP
    updates: Updates = Updates.FULL

    @property
    def is_upsert(self) -> bool:
        return self.mode is WriteMode.UPSERT

    @property
    def keeps_old_values(self) -> bool:
        """Whether a record may lack values that the old row of its key has."""
        return self.is_upsert and (self.unavailable is UnavailableValues.KEEP or self.updates is Updates.PARTIAL)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that each record has a value for, also one that deletes: the key, and what orders records."""
        return self.key if self.order_field is None else (*self.key, self.order_field)


@dataclass(frozen=True)
class TablePolicy:
    create: CreatePolicy = field(default_factory=CreatePolicy)
    evolve: EvolvePolicy = field(default_factory=EvolvePolicy)
    commit: CommitPolicy = field(default_factory=CommitPolicy)
    case: NameCase = NameCase.INSENSITIVE
    catalog: str = DEFAULT_CATALOG
    distribution: DistributionMode = DistributionMode.NONE
    values: ValuesPolicy = field(default_factory=ValuesPolicy)
    write: WritePolicy = field(default_factory=WritePolicy)
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)


@dataclass(frozen=True)
class HistoryTable:
    """Every change of the table `of`, which is an upsert table, is appended to `table` as well; both are identifiers."""

    table: str
    of: str


@dataclass(frozen=True)
class TablesSpec:
    """`overrides` are (glob, complete policy) pairs, already merged over the defaults; the first that matches wins.

    `append_only` are identifiers of tables that are appended to whatever their policy says: the table of dead letters.
    A history has the policy of an override that is for it, and else that of the table whose changes it has.
    """

    defaults: TablePolicy = field(default_factory=TablePolicy)
    overrides: tuple[tuple[str, TablePolicy], ...] = ()
    append_only: tuple[str, ...] = ()
    histories: tuple[HistoryTable, ...] = ()

    def policy_for(self, table: str) -> TablePolicy:
        """The policy of one table, by its name with or without its catalog."""
        table = self.fold(identifier_of(table))
        policy = self._override(table)
        history = self._history(table)
        if history is not None and (policy is None or policy.write.is_upsert):
            return history_policy(self._override(self.fold(history.of)) or self.defaults)
        policy = policy or self.defaults
        if policy.write.is_upsert and table in map(self.fold, self.append_only):
            return replace(policy, write=WritePolicy())
        return policy

    def _override(self, folded: str) -> TablePolicy | None:
        return next((policy for glob, policy in self.overrides if matches_glob(folded, self.fold(glob))), None)

    def _history(self, folded: str) -> HistoryTable | None:
        return next((each for each in self.histories if self.fold(each.table) == folded), None)

    def history_of(self, table: str) -> str | None:
        """The full name of the table that gets every change of this one as well."""
        folded = self.fold(identifier_of(table))
        return next((self.full_name(each.table) for each in self.histories if self.fold(each.of) == folded), None)

    def holds_pipeline(self, table: str) -> bool:
        """Whether a change that the table lacks could not be made up for: later ones of its key go on in the other one."""
        return self.policy_for(table).write.is_upsert or self.whose_history(table) is not None

    def whose_history(self, table: str) -> str | None:
        """The full name of the table whose changes this one gets; None where it is no history."""
        found = self._history(self.fold(identifier_of(table)))
        return None if found is None else self.full_name(found.of)

    @property
    def has_upserts(self) -> bool:
        """Whether any table may be upserted."""
        return any(policy.write.is_upsert for policy in (self.defaults, *(policy for _, policy in self.overrides)))

    def fold(self, name: str) -> str:
        """A name as names and patterns are compared: the case policy of the defaults holds of them."""
        return name.lower() if self.defaults.case is NameCase.INSENSITIVE else name

    @property
    def catalogs(self) -> Catalogs:
        """Which catalog a table lives in, by its name; empty where all live in the default one."""
        histories = ((each.table, self.policy_for(each.table).catalog) for each in self.histories)
        patterns = ((glob, policy.catalog) for glob, policy in self.overrides)
        found = (*histories, *patterns, ("*", self.defaults.catalog))
        return found if any(catalog != DEFAULT_CATALOG for _, catalog in found) else ()

    def full_name(self, identifier: str) -> str:
        """The name by which floe knows the table that the pipeline file calls so."""
        return placed(identifier, self.catalogs, self.fold)

    def in_one_catalog(self) -> TablesSpec:
        """The same with every table in the default catalog, so that full names are those of the pipeline file."""
        overrides = tuple((glob, replace(policy, catalog=DEFAULT_CATALOG)) for glob, policy in self.overrides)
        return replace(self, defaults=replace(self.defaults, catalog=DEFAULT_CATALOG), overrides=overrides)


def history_policy(policy: TablePolicy) -> TablePolicy:
    """The policy of a history, from that of the table whose changes it has: rows are added, and none is identified."""
    create = policy.create
    location = create.location if "{table}" in (create.location or "") else None  # or both would lie in one place
    made = replace(create, identifier_fields=(), comment=None, location=location)
    evolve = replace(policy.evolve, max_columns=policy.evolve.max_columns + len(HISTORY_OF_ELEMENTS))
    return replace(policy, create=made, evolve=evolve, write=WritePolicy())


@dataclass(frozen=True)
class ErrorsSpec:
    """`stages` are (stage, policy) pairs for the stages that have a policy other than `policy`."""

    policy: ErrorPolicy = ErrorPolicy.DEAD_LETTER
    stages: tuple[tuple[str, ErrorPolicy], ...] = ()
    dead_letter_table: str | None = None
    dead_letter_topic: str | None = None
    max_ratio: float | None = None
    max_count: int | None = None


@dataclass(frozen=True)
class TestSpec:
    """One case of `tests:`; the input and the expectations are kept as plain YAML values."""

    __test__ = False

    name: str
    input: tuple[object, ...]
    expect: object


@dataclass(frozen=True)
class PipelineSpec:
    name: str
    source: SourceSpec
    routes: RoutesSpec
    owners: Owners = NOBODY
    objectives: Objectives = NO_OBJECTIVES
    description: str | None = None
    transform_sql: str | None = None
    tables: TablesSpec = field(default_factory=TablesSpec)
    errors: ErrorsSpec = field(default_factory=ErrorsSpec)
    control_topic: str = "control-iceberg"
    max_waiting_batches: int = 2_000
    max_waiting_bytes: int = 256 * 1024**3
    trigger_every_ms: int | None = None  # None: auto
    tests: tuple[TestSpec, ...] = ()


SettingValue = str | SecretRef


@dataclass(frozen=True)
class MonitoringSpec:
    """How a target's drivers and coordinators are watched. `listen` (metrics) and `page`: `host:port`, "" for no server;
    `textfile` and `pushgateway`: "" for none. Off loopback there is a `token`. `names`: of the host, beside the machine's own."""

    listen: str = ""
    page: str = ""
    token: SettingValue = ""
    textfile: str = ""
    pushgateway: str = ""
    max_tables: int = 200
    stalled_after_ms: int = 600_000
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LineageSpec:
    """Where OpenLineage events of runs and commits go: one of `file`, `http` (with a `token`, if it has one) and a Kafka topic;
    "" for none. `namespace` is that of the jobs, "" for the target's prefix."""

    namespace: str = ""
    file: str = ""
    http: str = ""
    token: SettingValue = ""
    kafka_connection: str = ""
    kafka_topic: str = ""

    @property
    def is_wanted(self) -> bool:
        return bool(self.file or self.http or self.kafka_topic)


@dataclass(frozen=True)
class LogArchiveSpec:
    """The table that keeps the control log, by its full name ("" for none), and how often it is appended to."""

    table: str = ""
    interval_ms: int = 600_000


@dataclass(frozen=True)
class TargetSpec:
    """Where a pipeline runs. Connection settings are librdkafka's and PyIceberg's own keys, values perhaps secrets.

    `prefix` begins every consumer group and transactional id, so that teams can be kept apart by ACL. `allow_...` is
    what pipeline files may name beside what is allowed everywhere: roots of tables' locations, globs of table
    properties and names of environment variables; of pipelines, globs of those whose dead letters the page may show.
    `drills_max_age_ms`: how old the last result of a drill may be; None where nobody asks for drills.
    """

    name: str
    kafka: dict[str, dict[str, SettingValue]]
    catalogs: dict[str, dict[str, SettingValue]]
    registries: dict[str, dict[str, SettingValue]] = field(default_factory=dict)
    prefix: str = "floe"
    spark_master: str = "local[2,4]"
    spark_conf: dict[str, str] = field(default_factory=dict)
    state_dir: str = ".floe"
    allow_locations: tuple[str, ...] = ()
    allow_properties: tuple[str, ...] = ()
    allow_environment: tuple[str, ...] = ()
    allow_dead_letters_on_page: tuple[str, ...] = ()
    monitoring: MonitoringSpec = field(default_factory=MonitoringSpec)
    lineage: LineageSpec = field(default_factory=LineageSpec)
    maintenance: MaintenanceLimits = field(default_factory=MaintenanceLimits)
    drills_max_age_ms: int | None = None
    log_archive: LogArchiveSpec = field(default_factory=LogArchiveSpec)


@dataclass(frozen=True)
class TemplateUse:
    """The shared template that a file is made with: its name as written, its version, and the hash of its text and of what it
    includes."""

    name: str
    version: str
    hash: str


@dataclass(frozen=True)
class LoadedPipeline:
    """One pipeline file under one target: where it was read, what it says, and what it runs against."""

    file: str
    spec: PipelineSpec
    target: TargetSpec
    template: TemplateUse | None = None
