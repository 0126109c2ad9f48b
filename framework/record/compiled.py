"""Where floe's compiled modules are: beside their sources, or beside the packages of a shipped environment.

In: a package of floe and a module's name. Out: the module, or ImportError. Python loads no compiled module out of the
zip file in which floe's code travels to a cluster, so `floe package` puts them into the environment's folder
`floe_compiled`.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

SHIPPED = "floe_compiled"


_uncompiled = False


def be_uncompiled(uncompiled: bool) -> None:
    """Whether this process does without compiled modules, as where one of them may have ended a process like it."""
    global _uncompiled
    _uncompiled = uncompiled


def is_uncompiled() -> bool:
    return _uncompiled


def has_compiled(package: str, name: str, interface: int) -> bool:
    """Whether this process has the module, and uses it; `floe doctor` says."""
    return not _uncompiled and _is_there(package, name, interface)


@cache
def _is_there(package: str, name: str, interface: int) -> bool:
    try:
        load_compiled(package, name, interface)
    except ImportError:
        return False
    return True


def load_compiled(package: str, name: str, interface: int) -> ModuleType:
    """The module `name` of `package`.

    Raises:
        ImportError: it is not there, or was built from another version of floe.
    """
    try:
        module = importlib.import_module(f"{package}.{name}")
    except ImportError:
        module = importlib.import_module(f"{SHIPPED}.{name}")
    if getattr(module, "INTERFACE", None) != interface:
        raise ImportError(f"{name} was built from another version of floe")
    return module
