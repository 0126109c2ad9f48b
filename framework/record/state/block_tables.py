"""The tables that blocks may go to: their targets and shapes, and what their policies say.

In: the plan, and the tables as the task knows them. Out: answers, each found once for all blocks of a task. Where tables
are upserted (`keyed`), their second targets are among them. Nothing here changes with the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

from framework.config.names.metadata import metadata_column
from framework.config.spec import FieldHint, NameCase, TablePolicy, TextAsNumber
from framework.plan.model import Plan
from framework.record.convert.nested import fold
from framework.record.destination import Destination, rows_of
from framework.record.fit.infer_types import NO_KEYS
from framework.record.fit.parse_plan import ParseGroup, parse_groups
from framework.record.fit.table_shape import TableShape, table_shape
from framework.record.model import ObservedType, TableTarget
from framework.record.routing.route import routing_fields
from framework.record.state.partition_bounds import least_values
from framework.record.upsert.key_types import KeyPaths, key_paths
from framework.record.upsert.tables import needed_columns, upsert_tables
from framework.table.policy.admitted import most_columns_of_any
from framework.table.policy.answers import Act
from framework.table.policy.delete_policy import delete_policy
from framework.table.policy.metadata_columns import metadata_columns, own_fields, spellings
from framework.table.policy.rules import TableRules, rules_of
from framework.table.schema.observed import observed_columns
from framework.table.schema.types import NANOSECONDS_SINCE, format_version

_T = TypeVar("_T")
# Records may name any number of tables that are not there.
_MOST_NEW = 10_000


class BlockTables:
    """Tables that are not there yet have rules and a policy as well, and neither target nor shape. `given` are the tables
    as they were given, which nobody changes while this is in use."""

    def __init__(self, plan: Plan, tables: Mapping[str, TableTarget]) -> None:
        self.plan = plan
        self.given = tables
        self.keyed = upsert_tables(plan, tables)
        self.histories = {} if self.keyed is None else {own: of for of, own in self.keyed.histories.items()}
        """By history the table whose changes it has."""
        self.targets = {rows_of(name): target for name, target in tables.items()}
        if self.keyed is not None:
            self.targets |= self.keyed.targets
        self.shapes: dict[Destination, TableShape] = {
            to: table_shape(target, plan.decode.hints, self.metadata_names(to), plan.decode.format.envelope)
            for to, target in self.targets.items()
        }
        self.least = {to: found for to, target in self.targets.items() if (found := least_values(target))}
        self.insensitive = plan.write.tables.defaults.case is NameCase.INSENSITIVE
        self.any_insensitive = self.insensitive or any(shape.insensitive for shape in self.shapes.values())
        self._rules: dict[Destination, TableRules] = {}
        self._rules_of_new: dict[Destination, TableRules] = {}
        self._lacking_metadata: dict[Destination, dict[str, ObservedType]] = {}
        self._own_columns: dict[tuple[str, ...], dict[str, ObservedType]] = {}
        self._taken: dict[tuple[str, ...], frozenset[str]] = {}

    def rules(self, to: Destination) -> TableRules:
        """What becomes of records for which the table lacks something."""
        found = self._rules.get(to) or self._rules_of_new.get(to)
        if found is None:
            target = self.targets.get(to)
            if target is not None:
                found = self._rules[to] = rules_of(target)
            else:
                if len(self._rules_of_new) >= _MOST_NEW:
                    self._rules_of_new.clear()
                found = self._rules_of_new[to] = TableRules(self._policy_of_new(to))
        return found

    def policy(self, to: Destination) -> TablePolicy:
        return self.rules(to).policy

    def _policy_of_new(self, to: Destination) -> TablePolicy:
        policy = self.plan.write.tables.policy_for(to.table)
        return delete_policy(policy) if to.is_delete else policy

    def is_upsert(self, to: Destination) -> bool:
        """Whether what goes there is a change of a key."""
        return self.keyed is not None and self.policy(rows_of(to.table)).write.is_upsert

    def made_by(self, to: Destination) -> KeyPaths:
        """What of a new table's columns cannot be of any type."""
        return NO_KEYS if to in self.targets else key_paths(self.plan.write.tables.policy_for(to.table))

    def of_key(self, to: Destination, fields: Mapping[str, ObservedType]) -> dict[str, ObservedType]:
        """Of these fields those that a change of a key must have."""
        return {name: fields[name] for name in fields if needed_columns([name], self.policy(to))}

    def columns_of_current(self, history: Destination) -> dict[str, tuple[str, ObservedType]]:
        """By folded name the columns that the table has whose history this is: the history has them alike. A wider one of
        its own stays as it is."""
        current = self.targets.get(rows_of(self.histories.get(history.table, "")))
        if current is None:
            return {}
        insensitive = self.policy(history).case is NameCase.INSENSITIVE
        present = self.shapes[history].names if history in self.shapes else frozenset[str]()
        columns = self.own_fields(observed_columns(current.schema_json), history).items()
        folded = ((fold(name, insensitive), name, kind) for name, kind in columns)
        return {key: (name, kind) for key, name, kind in folded if key not in present}

    def counts_nanoseconds(self, to: Destination) -> bool:
        """Whether the table may have columns of nanoseconds."""
        target = self.targets.get(to)
        version = target.format_version if target else format_version(self.policy(to).create.properties)
        return version >= NANOSECONDS_SINCE

    # ---- what is asked of records --------------------------------------------------------------------------------

    @cached_property
    def routing_paths(self) -> frozenset[str]:
        """The dotted paths that tell where a record goes, and whether it deletes there."""
        paths = routing_fields(self.plan.route)
        return paths if self.keyed is None else paths | self.keyed.fields

    @cached_property
    def routing_roots(self) -> frozenset[str]:
        """The folded names of the top-level fields that these paths lead into."""
        return frozenset(fold(path.split(".")[0], self.insensitive) for path in self.routing_paths)

    @cached_property
    def takes_tombstones(self) -> bool:
        """Whether records without a value may delete; where they may not they are dropped."""
        return self.keyed is not None and self.keyed.takes_tombstones

    # ---- how records are parsed ----------------------------------------------------------------------------------

    @cached_property
    def parse_groups(self) -> list[ParseGroup]:
        """The tables that one parse serves, of those whose records can be read in columns; none where no table's can. No
        rule leads to the dead-letter table, whose columns have names that records use for other things."""
        shapes = {to: shape for to, shape in self.shapes.items() if to.table != self.plan.write.dead_letter_table}
        readable = {to: shape for to, shape in shapes.items() if self.is_readable(shape)}
        return parse_groups(readable) if readable or not shapes else []

    def is_readable(self, shape: TableShape) -> bool:
        """Whether a table's records can be read in columns: no map lies where columns cannot have one, or rules look into
        one."""
        if not shape.vectorised:
            return False
        if not shape.maps:
            return True
        return self.routing_roots.isdisjoint(fold(name, self.insensitive) for name in shape.maps)

    @cached_property
    def most_columns(self) -> int:
        """The most columns that any table may have."""
        return most_columns_of_any(self.plan.write.tables)

    @cached_property
    def no_text(self) -> frozenset[str]:
        """The lower-cased names of columns, of any table and at any depth, that are neither text nor structure."""
        return frozenset[str]().union(*(shape.no_text for shape in self.shapes.values()))

    @cached_property
    def counts(self) -> frozenset[str]:
        """The lower-cased names of columns, of any table, whose numbers count a unit of time."""
        return frozenset[str]().union(*(shape.counts for shape in self.shapes.values()))

    @cached_property
    def read_text(self) -> bool:
        """Whether all tables take text for the number that it says."""
        return all(self.policy(to).values.text_as_number is TextAsNumber.READ for to in self.shapes)

    def hints(self, insensitive: bool) -> dict[str, FieldHint]:
        return {fold(hint.path, insensitive): hint for hint in self.plan.decode.hints}

    # ---- the columns that floe fills itself ----------------------------------------------------------------------

    @property
    def all_metadata(self) -> tuple[str, ...]:
        """Kafka's names of those of all the tables."""
        named = self.plan.decode.metadata_columns
        also = self.plan.history_columns if self.histories else ()
        return (*named, *(name for name in also if name not in named))

    @cached_property
    def routing_metadata(self) -> list[str]:
        """Kafka's names of those that rules look at."""
        names = self.plan.decode.metadata_columns
        return [name for name in names if fold(metadata_column(name), self.insensitive) in self.routing_roots]

    def metadata_names(self, to: Destination) -> tuple[str, ...]:
        """Kafka's names of those of one table."""
        is_history = to.table in self.histories
        return self.plan.metadata_columns_of(to.table) if is_history else self.plan.decode.metadata_columns

    def metadata_columns(self, to: Destination) -> dict[str, ObservedType]:
        """Those of one table, with their types."""
        names = self.metadata_names(to)
        found = self._own_columns.get(names)
        if found is None:
            found = self._own_columns[names] = metadata_columns(names)
        return found

    def own_fields(self, fields: dict[str, _T], to: Destination) -> dict[str, _T]:
        """A record's fields without those that are named like floe's metadata columns of the table."""
        names = self.metadata_names(to)
        taken = self._taken.get(names)
        if taken is None:
            taken = self._taken[names] = spellings(self.metadata_columns(to))
        return own_fields(fields, taken) if taken else fields

    def lacking_metadata(self, to: Destination) -> dict[str, ObservedType]:
        """Metadata columns that were asked for and that the table has not, where the policy lets it gain them."""
        found = self._lacking_metadata.get(to)
        if found is None:
            may_gain = self.rules(to).missing_metadata_column().act is Act.CHANGE
            wanted = self.metadata_columns(to).items() if may_gain else ()
            found = {name: kind for name, kind in wanted if not self.shapes[to].has_column(name)}
            self._lacking_metadata[to] = found
        return found
