"""Whether a run may begin, given its dangerous changes and the codes that a person has allowed.

In: changes of each pipeline, and codes from `--allow` or a saved plan. Out: nothing, or a refusal that lists the
missing codes as options. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from framework.diagnose.counted import counted
from framework.errors import ConfigError
from framework.plan.diff.diff import PlanChange

BREAKING_CODES = (
    "FLOE-P101", "FLOE-P102", "FLOE-P103", "FLOE-P104", "FLOE-P105", "FLOE-P106", "FLOE-P107", "FLOE-P108", "FLOE-P109",
    "FLOE-P110", "FLOE-P111", "FLOE-P112",
)  # fmt: skip


def allowed_codes(words: Iterable[str]) -> frozenset[str]:
    """The codes as written on the command line, `P101` or `FLOE-P101`, in either case.

    Raises:
        ConfigError: a word that is no such code.
    """
    codes = set()
    for word in words:
        code = word.strip().upper()
        code = code if code.startswith("FLOE-") else f"FLOE-{code}"
        if code not in BREAKING_CODES:
            raise ConfigError(
                f"`--allow {word}` allows nothing",
                code="FLOE-P002",
                place="--allow",
                remedy=f"the codes that can be allowed are {', '.join(BREAKING_CODES)}; `floe plan` shows which are needed",
            )
        codes.add(code)
    return frozenset(codes)


def missing_consent(changes: Iterable[PlanChange], allowed: Collection[str]) -> tuple[PlanChange, ...]:
    """The changes with a breaking change that nobody allowed."""
    return tuple(change for change in changes if change.breaking and change.breaking not in allowed)


def check_consent(changes: Mapping[str, Sequence[PlanChange]], allowed: Collection[str]) -> None:
    """Raises ConfigError when a change, by pipeline, is a breaking change that nobody allowed. Nothing was started."""
    missing = [(name, change) for name, found in changes.items() for change in missing_consent(found, allowed)]
    if not missing:
        return
    name, first = missing[0]
    codes = sorted({change.breaking for _, change in missing})
    more = f" ({counted(len(missing) - 1, 'more such change')})" if len(missing) > 1 else ""
    raise ConfigError(
        f"{change_text(first)}: {first.why}{more}",
        code=first.breaking,
        place=f"pipeline {name}",
        remedy=f"look at `floe plan`; if this is meant, {' '.join(f'--allow {code}' for code in codes)}",
    )


def change_text(change: PlanChange) -> str:
    """`tables.defaults.commit.interval 10s -> 3m`, in one line."""
    if change.before is not None and change.after is not None:
        return f"{change.subject} {change.before} -> {change.after}"
    if change.before is not None:
        return f"{change.subject}: {change.before} is removed"
    return f"{change.subject}: {change.after} is added" if change.after is not None else f"{change.subject} is changed"
