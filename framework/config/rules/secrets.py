"""A pipeline file must hold no secrets: it is printed, saved in plans, and announced in the control topic.

In: a tree whose references are resolved. Out: a diagnostic for each value that is a secret by its name or its shape.
The content of test records and of descriptions is not checked, since these are not settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from framework.config.rules.rules import Document, Rule, at
from framework.config.tree import Path, Scalar
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.secrets import holds_secret, is_secret_setting

_NO_SETTINGS = ("tests", "template", "transform", "routes")
_PROPERTIES = ("create", "properties")


def no_secrets(document: Document) -> Iterator[Diagnostic]:
    """No value is a secret; connections, which need some, are the target's."""
    for path, leaf in document.nodes.items():
        if not isinstance(leaf, Scalar) or path[0] in _NO_SETTINGS:
            continue
        if path[:2] == ("source", "schema") or "description" in path:
            continue
        value = "" if leaf.value is None else str(leaf.value)
        # A variable's name is above what is said of it.
        name = str(path[1] if path[0] == "variables" and path[-1] == "default" else path[-1])
        found = is_secret_setting(name, value) if _is_named_by_people(path) else holds_secret(value)
        if found:
            yield at(
                "FLOE-C311",
                f"`{name}` holds a secret, and many people can read a pipeline file",
                leaf,
                path,
                "move it into a connection of the target, as `${secret:env:NAME}`",
            )


def _is_named_by_people(path: Path) -> bool:
    return (
        "variables" in path[:-1]
        or str(path[0]).startswith("x-")
        or ("properties" in path and _PROPERTIES in pairwise(path))
    )


RULES: tuple[Rule, ...] = (no_secrets,)
