"""Translates the words of `evolve:` into the spec.

In: a word for one aspect, or one word for all of them. Out: `EvolveMode`, or the policy that the single word stands
for. The single words are those of Flink CDC's `schema.change.behavior`.
"""

from __future__ import annotations

from framework.config.spec import EvolveMode

EVOLVE_SHORTHANDS: dict[str, dict[str, str]] = {
    "exception": {
        "tables": "fail",
        "columns": "fail",
        "data_type": "fail",
        "nullability": "fail",
        "otherwise": "fail",
        "names": "fail",
    },
    "evolve": {
        "tables": "evolve",
        "columns": "evolve",
        "data_type": "widen",
        "nullability": "relax",
        "otherwise": "freeze",
        "names": "rename",
    },
    "try_evolve": {
        "tables": "evolve",
        "columns": "evolve",
        "data_type": "widen",
        "nullability": "relax",
        "otherwise": "discard_value",
        "names": "rename",
    },
    "lenient": {
        "tables": "evolve",
        "columns": "evolve",
        "data_type": "new_column",
        "nullability": "relax",
        "otherwise": "freeze",
        "names": "rename",
    },
    "ignore": {
        "tables": "freeze",
        "columns": "discard_value",
        "data_type": "discard_value",
        "nullability": "discard_value",
        "otherwise": "discard_value",
        "names": "discard_value",
    },
}

# Second names of a word: `evolve` says of every aspect that it may change, `ignore` is what it was called for columns.
_ALIASES = {
    ("data_type", "evolve"): EvolveMode.WIDEN,
    ("nullability", "evolve"): EvolveMode.RELAX,
    ("columns", "ignore"): EvolveMode.DISCARD_VALUE,
}


def evolve_mode(aspect: str, word: str) -> EvolveMode:
    """The word of one aspect; the schema has checked that the aspect has it."""
    return _ALIASES.get((aspect, word)) or EvolveMode(word)
