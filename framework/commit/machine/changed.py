"""A frozen dataclass with some of its fields changed, at the cost of a dictionary.

In: a value and its new fields. Out: another value; the first stays as it was. `dataclasses.replace` calls the
constructor with every field, which was a third of what folding a long control log cost.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **fields: Any) -> T:
    """The value with these fields. For dataclasses without slots, `__post_init__` and `init=False` fields.

    Raises:
        TypeError: the class has no field of that name.
    """
    kind = type(value)
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name in fields:  # a set of each would cost as much as the rest
        if name not in known:
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(fields.keys() - known.keys()))}")
    new = object.__new__(kind)
    held = new.__dict__
    held.update(value.__dict__)
    held.update(fields)
    return new
