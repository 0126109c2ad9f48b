"""What each word of `evolve:` means, for each aspect of a table.

In: the words of one table. Out: the acts that an aspect's word allows, in the order in which they are tried. A new word
is taught here: no other module distinguishes words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from framework.config.spec import ErrorPolicy, EvolveMode, EvolvePolicy
from framework.table.policy.answers import Act


class Aspect(str, Enum):
    """The keys of `evolve:` that have words."""

    TABLES = "tables"
    COLUMNS = "columns"
    DATA_TYPE = "data_type"
    NULLABILITY = "nullability"
    OTHERWISE = "otherwise"
    NAMES = "names"


@dataclass(frozen=True)
class Meaning:
    """
    Attributes:
        acts: tried in this order; where none can be done, `otherwise` says what is.
        errors: what becomes of a refused record, where the word says it.
        leaves_empty_out: `[]` and `{}` in a column of another kind are null, as the word does not refuse all that does
            not fit.
    """

    acts: tuple[Act, ...]
    errors: ErrorPolicy | None = None
    leaves_empty_out: bool = False


_AS_IT_IS = {
    EvolveMode.DISCARD_VALUE: Meaning((Act.LEAVE_OUT,), leaves_empty_out=True),
    EvolveMode.FREEZE: Meaning((Act.REFUSE,)),
    EvolveMode.DEAD_LETTER: Meaning((Act.REFUSE,), ErrorPolicy.DEAD_LETTER),
    EvolveMode.FAIL: Meaning((Act.REFUSE,), ErrorPolicy.FAIL),
}
MEANINGS: Mapping[Aspect, Mapping[EvolveMode, Meaning]] = {
    Aspect.TABLES: {EvolveMode.EVOLVE: Meaning((Act.CHANGE,)), **_AS_IT_IS},
    Aspect.COLUMNS: {EvolveMode.EVOLVE: Meaning((Act.CHANGE,)), **_AS_IT_IS},
    Aspect.DATA_TYPE: {
        EvolveMode.WIDEN: Meaning((Act.CHANGE,), leaves_empty_out=True),
        EvolveMode.NEW_COLUMN: Meaning((Act.CHANGE, Act.BESIDE), leaves_empty_out=True),
        # No word of a file: of columns that never change and take `[]` and `{}` as null, see
        # `framework.table.policy.sql_source`.
        EvolveMode.EVOLVE: Meaning((Act.REFUSE,), leaves_empty_out=True),
        **_AS_IT_IS,
    },
    Aspect.NULLABILITY: {EvolveMode.RELAX: Meaning((Act.CHANGE,)), **_AS_IT_IS},
    Aspect.OTHERWISE: _AS_IT_IS,
    Aspect.NAMES: {
        EvolveMode.RENAME: Meaning((Act.CHANGE,)),
        # No word of a file: what is no table of Iceberg's may have columns of any name, see
        # `framework.table.policy.sql_source`.
        EvolveMode.EVOLVE: Meaning((Act.BESIDE,)),
        **_AS_IT_IS,
    },
}


def word(evolve: EvolvePolicy, aspect: Aspect) -> EvolveMode:
    """The word that a table has for an aspect."""
    said: EvolveMode = getattr(evolve, aspect.value)
    return said


def meaning(evolve: EvolvePolicy, aspect: Aspect) -> Meaning:
    """What the word that a table has for an aspect means; one that no file can have for it changes nothing."""
    return MEANINGS[aspect].get(word(evolve, aspect), _AS_IT_IS[EvolveMode.FREEZE])
