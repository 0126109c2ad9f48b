"""What a pipeline file cannot say of a sink: the property, why, and what to do.

In: a property of the connector. Out: an exception that carries the three, so that whoever assembles the file either
refuses the whole configuration or leaves a TODO at the place.
"""

from __future__ import annotations

from framework.config.names.patterns import unfit
from framework.connector.translation.java_regex import Differs, translated
from framework.errors import ConfigError

PARTIAL = "`--allow-partial` writes the file without it, and a TODO in its place"


class Untranslatable(Exception):
    """One property of the sink that has no words in a pipeline file."""

    def __init__(self, key: str, message: str, remedy: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message
        self.remedy = remedy

    def as_error(self) -> ConfigError:
        """The refusal that a person reads."""
        return ConfigError(f"`{self.key}`: {self.message}", code="FLOE-R405", remedy=self.remedy)


def same_regex(key: str, pattern: str, of_topics: bool = False) -> str:
    """An expression of Java's in the words of floe's rules, see `translated`.

    Raises:
        Untranslatable: there is none that matches the same texts.
    """
    if (found := unfit(pattern)) is not None:
        message = f"`{pattern}` is not a regular expression that floe can run: {found.reason}"
        raise Untranslatable(key, message, found.remedy)
    try:
        return translated(pattern, of_topics)
    except Differs as differs:
        message = f"`{pattern}` would match other texts in floe than in the sink: {differs}"
        raise Untranslatable(key, message, "write it with characters, classes and groups alone") from None


def refused(key: str, message: str, remedy: str = "") -> ConfigError:
    """A refusal that no option lifts."""
    return Untranslatable(key, message, remedy or "change the setting, or write the pipeline file by hand").as_error()
