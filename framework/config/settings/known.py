"""Which settings a client knows, and which values it takes, without importing the client.

In: the lists beside this module, which `python -m tests.known_settings` makes from what is installed. Out: answers about
one setting. The lists hold names only; what a setting means is for the client's own documentation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pkgutil import get_data

from framework.diagnose.suggest import nearest

_ALIKE = 0.8
_BOOLEANS = frozenset({"true", "t", "1", "false", "f", "0"})
_RANGE = re.compile(r"(number )?(-?[0-9]+) \.\. (-?[0-9]+)\Z")
_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?\Z")
_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]*)(, *[1-9][0-9]*)?\])?\Z"
    r"|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]\Z"
    r"|spark://[^\s,]+:[0-9]+(,[^\s,]+:[0-9]+)*\Z"
    r"|k8s://\S+\Z|yarn\Z"
)
MASTERS = ("local[2,4]", "spark://HOST:PORT", "k8s://HOST:PORT", "yarn")


@dataclass(frozen=True)
class Client:
    """The settings of one client in one version.

    Args:
        values: by setting: the words that it takes, `low .. high` (whole numbers), `number low .. high`, or "" where
            anything may stand.
        families: beginnings of names that end as people like, such as `spark.hadoop.`.
    """

    name: str
    version: str
    values: dict[str, str]
    families: tuple[str, ...]

    def knows(self, setting: str) -> bool:
        return setting in self.values or any(
            setting.startswith(family) and setting != family for family in self.families
        )

    def like(self, setting: str) -> str | None:
        """The known setting that was probably meant. Long names share much without being alike."""
        from difflib import SequenceMatcher  # only wrong files need it

        found = nearest(setting, self.values)
        return found if found and SequenceMatcher(None, found.lower(), setting.lower()).ratio() > _ALIKE else None

    def allowed(self, setting: str, value: str) -> str | None:
        """What the setting takes, in words for a remedy, where it does not take the value; None where it does."""
        taken = self.values.get(setting, "")
        if not taken:
            return None
        if bounds := _RANGE.match(taken):
            form = _NUMBER if bounds[1] else _WHOLE
            inside = len(value) < 40 and form.match(value) and int(bounds[2]) <= float(value) <= int(bounds[3])
            return None if inside else f"a {'' if bounds[1] else 'whole '}number from {bounds[2]} to {bounds[3]}"
        words = taken.split(", ")
        folded = value.lower()
        if folded in (word.lower() for word in words) or (words == ["true", "false"] and folded in _BOOLEANS):
            return None
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    def word_like(self, setting: str, value: str) -> str | None:
        """The word that was probably meant, where the setting takes words."""
        taken = self.values.get(setting, "")
        return None if not taken or _RANGE.match(taken) else nearest(value, taken.split(", "))


@cache
def client(name: str) -> Client:
    """`librdkafka`, `pyiceberg` or `spark`."""
    content = json.loads(get_data(__package__, f"{name}.json") or b"")
    return Client(content["client"], content["version"], content["settings"], tuple(content["families"]))


def is_let_through(setting: str, allowed: tuple[str, ...]) -> bool:
    """Whether a target's `allow.settings` names it, itself or by a pattern."""
    return any(fnmatchcase(setting, pattern) for pattern in allowed)


def is_master(value: str) -> bool:
    """Whether Spark knows what to do with a master."""
    return _MASTER.match(value) is not None
