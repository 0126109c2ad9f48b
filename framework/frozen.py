"""`dataclass` as in the standard library, which makes frozen classes in a quarter of the time.

In: a class with annotated fields. Out: the same class, frozen: fields, equality, hash, text, `replace` and pickling are
those of `dataclasses.dataclass(frozen=True)`. The standard library compiles six functions for each class when its module is
imported; here one is compiled and the others are closures. Most of what floe imports to check a file is such classes.
Whatever is unusual is left to the standard library.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, **others):
        """`dataclasses.dataclass`."""
        if cls is None:
            return lambda wanted: dataclass(wanted, frozen=frozen, **others)
        if not frozen or others or not _OWN.isdisjoint(vars(cls)) or any(map(dataclasses.is_dataclass, cls.__mro__)):
            return dataclasses.dataclass(frozen=frozen, **others)(cls)
        cls.__doc__ = cls.__doc__ or cls.__name__  # or its signature is made into one
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        params = cls.__dataclass_params__
        params.init = params.repr = params.eq = params.frozen = True
        for method in (_init(cls), *_closures(cls)):
            if method.__name__ not in vars(cls) or method.__name__ == "__hash__":
                method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
                method.__module__ = cls.__module__
                setattr(cls, method.__name__, method)
        return cls


# A class that has one of these says something about it that the standard library knows how to take.
_OWN = frozenset({"__init__", "__post_init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__slots__"})
_NOT_GIVEN = object()


def _init(cls: Any) -> Any:
    """`__init__`, the one method that must be compiled: its parameters are the fields."""
    known: dict[str, object] = {"_set": object.__setattr__, "_not_given": _NOT_GIVEN}
    parameters, body = ["self"], []
    annotations: dict[str, object] = {}
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        makes = field.default_factory is not dataclasses.MISSING
        known[f"_made_{name}"], known[f"_default_{name}"] = field.default_factory, field.default
        if not field.init:
            value = f"_made_{name}()"
            if makes:
                body.append(f"_set(self, {name!r}, {value})")
            continue
        if makes:
            parameters.append(f"{name}=_not_given")
            value = f"_made_{name}() if {name} is _not_given else {name}"
        else:
            parameters.append(name if field.default is dataclasses.MISSING else f"{name}=_default_{name}")
        annotations[name] = field.type
        body.append(f"_set(self, {name!r}, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)  # names of fields only
    made: Any = known["__init__"]
    made.__annotations__ = {**annotations, "return": None}
    return made


def _closures(cls: Any) -> tuple[Any, ...]:
    """The methods that need no text of their own."""
    fields = dataclasses.fields(cls)
    names = frozenset(field.name for field in fields)
    compared = _values_of([field.name for field in fields if field.compare])
    hashed = _values_of([field.name for field in fields if (field.compare if field.hash is None else field.hash)])
    shown = [field.name for field in fields if field.repr]

    def __eq__(self: Any, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __eq__, __hash__, recursive_repr()(__repr__), __setattr__, __delattr__


def _values_of(names: list[str]) -> Any:
    """A function from an instance to a tuple of some of its values."""
    if not names:
        return lambda instance: ()
    return attrgetter(*names) if len(names) > 1 else attrgetter(names[0], names[0])  # of one name it makes no tuple
