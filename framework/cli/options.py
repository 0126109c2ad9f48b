"""The options that every verb which reads pipeline files shares, and the one way in which verbs load files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from framework.adapters.files import load_or_raise
from framework.config.spec import LoadedPipeline

F = TypeVar("F", bound=Callable[..., object])


def load_options(command: F) -> F:
    """--target, --var and --set."""
    command = click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Replace one value of the file.")(command)
    command = click.option("--var", "variables", multiple=True, metavar="K=V", help="Set a variable.")(command)
    return click.option("--target", "-t", default=None, help="The target; `local` where none is named.")(command)


def pairs(items: tuple[str, ...], option: str) -> dict[str, str]:
    """`("a=1",)` as `{"a": "1"}`."""
    result = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise click.BadParameter(f"{item!r} is not of the form KEY=VALUE", param_hint=option)
        result[key] = value
    return result


def load_pipelines(
    files: tuple[str, ...], target: str | None, variables: tuple[str, ...], sets: tuple[str, ...]
) -> list[LoadedPipeline]:
    """Load every file, or raise one ConfigError with all findings."""
    return load_or_raise(list(files), target or "local", pairs(variables, "--var"), pairs(sets, "--set"))
