"""What becomes of a record for which a table lacks something: a table, a column, a wider type, a value that may be
missing.

In: the policy of one table, whether it may be changed now, and what could be done. Out: an Answer for each difference
between record and table. Keeps to docs/concepts.md, "What each word of `evolve` does"; while a table is frozen, records
that would change it are errors, and all others are what they would be otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from framework.config.spec import EmptyValues, EvolveMode, TablePolicy
from framework.table.model import TableTarget
from framework.table.policy.answers import Act, PolicyAnswer
from framework.table.policy.words import Aspect, meaning, word

_ANSWERS = {act: PolicyAnswer(act) for act in Act}


@dataclass(frozen=True)
class TableRules:
    """The policy of one table as it holds now; `frozen` says why the table must not be changed ("": it may)."""

    policy: TablePolicy
    frozen: str = ""

    def missing_table(self) -> PolicyAnswer:
        """CHANGE: make the table; LEAVE_OUT: drop the record, if it has no other table; or REFUSE."""
        return self._missing_table

    def missing_column(self) -> PolicyAnswer:
        """CHANGE: add the column; LEAVE_OUT: the value; or REFUSE."""
        return self._missing_column

    def missing_metadata_column(self) -> PolicyAnswer:
        """CHANGE: add the column that floe fills itself; or LEAVE_OUT: no record is to blame for it."""
        found = self.missing_column()
        return found if found.act is Act.CHANGE else _ANSWERS[Act.LEAVE_OUT]

    def unfit_value(self, can_widen: bool, can_move: bool) -> PolicyAnswer:
        """CHANGE: widen the column; BESIDE: move the value to a column beside it; LEAVE_OUT: the value; or REFUSE.

        Args:
            can_widen: Iceberg promotes the column's type to one that holds the value.
            can_move: a column beside it can have the value.
        """
        adds = Act.CHANGE in meaning(self.policy.evolve, Aspect.COLUMNS).acts
        return self._answer(Aspect.DATA_TYPE, can_widen, can_move and adds)

    def missing_value(self, can_relax: bool) -> PolicyAnswer:
        """CHANGE: make the column optional; LEAVE_OUT: the nearest optional value around it; or REFUSE.

        Args:
            can_relax: the column need not stay required, as one does that identifies rows.
        """
        return self._answer(Aspect.NULLABILITY, can_relax)

    def unusable_name(self) -> PolicyAnswer:
        """CHANGE: the column of a field whose name no column can have is named otherwise; LEAVE_OUT: the value; REFUSE; or
        BESIDE: any name will do."""
        acts, errors = meaning(self.policy.evolve, Aspect.NAMES).acts, meaning(self.policy.evolve, Aspect.NAMES).errors
        return PolicyAnswer(acts[0], errors) if errors else _ANSWERS[acts[0]]

    @cached_property
    def leaves_empty_out(self) -> bool:
        """Whether `[]`, `{}` and what holds nothing else are null in a column of another kind."""
        return leaves_empty_out(self.policy)

    def refusing_word(self, aspect: Aspect) -> EvolveMode | None:
        """The word for which a table is not changed in this aspect; None where it may be."""
        said = word(self.policy.evolve, aspect)
        if Act.CHANGE not in meaning(self.policy.evolve, aspect).acts:
            return said
        return EvolveMode.FREEZE if self.frozen else None

    # These two are asked for each record that is judged alone.

    @cached_property
    def _missing_table(self) -> PolicyAnswer:
        found = self._answer(Aspect.TABLES, can_change=True)
        return _ANSWERS[Act.REFUSE] if found.act is Act.CHANGE and not may_create(self.policy) else found

    @cached_property
    def _missing_column(self) -> PolicyAnswer:
        return self._answer(Aspect.COLUMNS, can_change=True)

    def _answer(self, aspect: Aspect, can_change: bool, can_move: bool = False) -> PolicyAnswer:
        said = meaning(self.policy.evolve, aspect)
        for act in said.acts:
            if act is Act.CHANGE and can_change:
                return PolicyAnswer(Act.REFUSE, frozen=self.frozen) if self.frozen else _ANSWERS[act]
            if act is Act.BESIDE and can_move:
                return _ANSWERS[act]
            if act is Act.REFUSE:
                return PolicyAnswer(act, said.errors)
            if act is Act.LEAVE_OUT:
                return _ANSWERS[act]
        return self._answer(Aspect.OTHERWISE, can_change=False)


def rules_of(target: TableTarget) -> TableRules:
    """What holds of a table that is there."""
    return TableRules(target.policy, target.frozen)


def may_create(policy: TablePolicy) -> bool:
    """Whether a table of this policy may be made, whatever it is made for."""
    return policy.create.enabled


def leaves_empty_out(policy: TablePolicy) -> bool:
    """Whether `[]`, `{}` and what holds nothing else are null in a column of another kind."""
    return policy.values.empty is EmptyValues.DISCARD and meaning(policy.evolve, Aspect.DATA_TYPE).leaves_empty_out
