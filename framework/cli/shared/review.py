"""Options of the verbs that start something: a reviewed plan, and breaking changes that are allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from framework.config.spec import LoadedPipeline

F = TypeVar("F", bound=Callable[..., object])


def allow_option(command: F) -> F:
    """Adds `--allow`, which arrives as `allow`."""
    return click.option(
        "--allow", multiple=True, metavar="CODE", help="Allow a dangerous change by its code, such as FLOE-P102."
    )(command)


def review_options(command: F) -> F:
    """Adds `--plan` and `--allow`, which arrive as `reviewed` and `allow`."""
    return click.option(
        "--plan",
        "reviewed",
        type=click.Path(exists=True, dir_okay=False),
        help="Run exactly what this file from `floe plan --out` holds; what it allows is allowed.",
    )(allow_option(command))


def check_reviewed(pipelines: Sequence[LoadedPipeline], reviewed: str | None, allow: Sequence[str]) -> frozenset[str]:
    """What is allowed, after comparing what would run with what was reviewed, if anything was. Asks nobody.

    Raises:
        ConfigError: it is not what was reviewed, or an option allows nothing.
    """
    from framework.plan.deploy.saved import check_saved, read_saved
    from framework.plan.diff.consent import allowed_codes

    allowed = allowed_codes(allow)
    if reviewed is None:
        return allowed
    saved = read_saved(Path(reviewed).read_text(encoding="utf-8"), reviewed)
    check_saved(pipelines, saved, reviewed)
    return allowed | allowed_codes(saved.allowed)
