"""Frozen classes of `framework.frozen` beside those of the standard library, and expressions that are compiled late."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
from dataclasses import field
from typing import Any, ClassVar

import pytest

from framework.frozen import dataclass
from framework.late import late_pattern


@dataclass(frozen=True)
class Ours:
    """Has a field of every kind."""

    first: int
    second: str = "x"
    made: list[int] = field(default_factory=list)
    hidden: int = field(default=1, repr=False)
    apart: int = field(default=2, compare=False)
    hashed: int = field(default=5, hash=False)
    inner: list[int] = field(default_factory=lambda: [7], init=False, compare=False)
    fixed: int = field(default=3, init=False)
    shared: ClassVar[int] = 4

    @property
    def double(self) -> int:
        return 2 * self.first


@dataclasses.dataclass(frozen=True)
class Theirs:
    """Has a field of every kind."""

    first: int
    second: str = "x"
    made: list[int] = field(default_factory=list)
    hidden: int = field(default=1, repr=False)
    apart: int = field(default=2, compare=False)
    hashed: int = field(default=5, hash=False)
    inner: list[int] = field(default_factory=lambda: [7], init=False, compare=False)
    fixed: int = field(default=3, init=False)
    shared: ClassVar[int] = 4

    @property
    def double(self) -> int:
        return 2 * self.first


@dataclass(frozen=True)
class One:
    value: float


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Below(Ours):
    more: int = 9


class Plain(One):
    """No dataclass itself: it may have attributes of its own."""


def alike(act: Any) -> None:
    """Both classes give the same, apart from their names, or fail alike."""
    results = []
    for kind in (Ours, Theirs):
        try:
            found = repr(act(kind)).replace(kind.__name__, "It")
        except Exception as error:
            found = f"{type(error).__name__}: {error}".replace(kind.__name__, "It")
        results.append(found)
    assert results[0] == results[1]


ACTS: dict[str, Any] = {
    "made": lambda kind: kind(1),
    "made by name": lambda kind: kind(first=1, made=[2], hidden=5),
    "made with too little": lambda kind: kind(),
    "made with too much": lambda kind: kind(1, "x", [], 1, 2, 5, 6),
    "made with an unknown name": lambda kind: kind(1, other=2),
    "made with a field that is not given": lambda kind: kind(1, fixed=2),
    "equal": lambda kind: kind(1) == kind(1),
    "equal but for what does not count": lambda kind: kind(1, apart=7) == kind(1, apart=8),
    "not equal": lambda kind: kind(1, hidden=7) == kind(1),
    "not equal to another kind": lambda kind: (kind(1) == One(1), kind(1).__eq__(One(1))),
    "the same hash": lambda kind: hash(kind(1, made=(), hashed=1)) == hash(kind(1, made=(), hashed=2)),
    "no hash of a list": lambda kind: hash(kind(1)),
    "set": lambda kind: setattr(kind(1), "first", 2),
    "set what is no field": lambda kind: setattr(kind(1), "other", 2),
    "deleted": lambda kind: delattr(kind(1), "first"),
    "replaced": lambda kind: dataclasses.replace(kind(1), second="y", hidden=3),
    "replaced what cannot be given": lambda kind: dataclasses.replace(kind(1), fixed=3),
    "as a dict": lambda kind: dataclasses.asdict(kind(1)),
    "fields": lambda kind: [(each.name, each.type, each.init, each.repr) for each in dataclasses.fields(kind)],
    "match": lambda kind: kind.__match_args__,
    "signature": lambda kind: [(each.name, each.kind) for each in inspect.signature(kind).parameters.values()],
    "annotations": lambda kind: kind.__init__.__annotations__,
    "defaults": lambda kind: (kind.second, kind.hidden, kind.fixed, kind.shared, hasattr(kind, "made")),
    "made anew for each": lambda kind: kind(1).made is kind(1).made,
    "properties": lambda kind: kind(3).double,
    "documented": lambda kind: kind.__doc__,
    "frozen for those below": lambda kind: (kind.__dataclass_params__.frozen, kind.__dataclass_params__.eq),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_class_is_as_the_standard_library_makes_it(act: Any) -> None:
    """What can be done with a frozen class gives the same, or fails with the same words."""
    alike(act)


def test_values_survive_being_sent_elsewhere() -> None:
    """Pickling gives an equal value, as it must for what drivers send to executors."""
    value = Ours(1, made=[1, 2])

    again = pickle.loads(pickle.dumps(value))

    assert (again, again.inner) == (value, [7])


def test_classes_of_one_field_and_of_none() -> None:
    """One field is compared as itself, so that a value that differs from itself still equals itself; none are all equal."""
    odd = float("nan")

    assert One(odd) == One(odd)
    assert One(1.0) != One(2.0)
    assert hash(One(1.0)) == hash(One(1.0))
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"
    assert One.__doc__ == "One"


def test_classes_below_one_are_made_by_the_standard_library() -> None:
    """A frozen class may stand below one of these, and a plain one keeps the fields frozen, not its own attributes."""
    below = Below(1, more=3)
    plain = Plain(1.0)
    plain.other = 5  # type: ignore[attr-defined]

    assert (below.first, below.more) == (1, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.more = 4  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.value = 2.0  # type: ignore[misc]


def test_a_late_expression_answers_as_a_compiled_one() -> None:
    """It compiles at the first question, answers as `re.compile` does, and has no other attributes."""
    late, early = late_pattern(r"(a)(b)?", re.IGNORECASE), re.compile(r"(a)(b)?", re.IGNORECASE)

    assert "match" not in vars(late)
    for method in ("match", "fullmatch", "search"):
        assert getattr(late, method)("AB").groups() == getattr(early, method)("AB").groups()
    assert late.sub("x", "abA") == early.sub("x", "abA")
    assert late.findall("abA") == early.findall("abA")
    assert late.split("1ab2") == early.split("1ab2")
    assert [found.span() for found in late.finditer("aba")] == [found.span() for found in early.finditer("aba")]
    assert "match" in vars(late)
    with pytest.raises(AttributeError):
        _ = late.groupindex
