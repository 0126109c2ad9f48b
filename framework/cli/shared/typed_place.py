"""Where whoever typed a command is: its target, its control topic, its file, so that remedies name them, too.

In: the words of a command line. Out: a `ReaderPlace` and a `StartedFrom`. Guesses nothing: of several files none is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.config.names.file_kinds import YAML_ENDINGS
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom

_OPTIONS = {"-t": "target", "--target": "target", "--control-topic": "control_topic", "--connection": "connection"}


def typed_place(arguments: Sequence[str]) -> ReaderPlace:
    """What the options say; one that is given twice counts as click has it."""
    found = {"target": "", "control_topic": "", "connection": ""}
    for number, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in _OPTIONS and value:
            found[_OPTIONS[option]] = value
        elif word in _OPTIONS and number + 1 < len(arguments):
            found[_OPTIONS[word]] = arguments[number + 1]
    return ReaderPlace(**found)


def typed_file(arguments: Sequence[str]) -> StartedFrom:
    """The pipeline file, if it is one; a target may be a file as well."""
    files = [
        word
        for before, word in zip(("", *arguments), arguments, strict=False)
        if word.endswith(YAML_ENDINGS) and not word.startswith("-") and before not in _OPTIONS
    ]
    return StartedFrom(files[0]) if len(files) == 1 else StartedFrom()
