"""A reviewed plan as a file: what would run when it was reviewed, its hash, and the breaking changes that the reviewer allowed.

In: loaded pipelines, or the text of such a file. Out: text, or a refusal that shows both hashes and the first
difference. The file holds no secret, no address and no clock: the same input gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framework.config.spec import LoadedPipeline
from framework.errors import ConfigError
from framework.plan.canonical import Canonical, canonical, first_difference, hash_of

KIND = "SavedPlan"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class SavedPlan:
    """`allowed` are the codes of breaking changes that were allowed; `pipelines` are canonical values, None for a bare hash."""

    hash: str
    allowed: tuple[str, ...] = ()
    pipelines: tuple[Canonical, ...] | None = None


def render_saved(pipelines: Sequence[LoadedPipeline], allowed: Iterable[str] = ()) -> str:
    """The file's text."""
    values = [canonical(pipeline) for pipeline in pipelines]
    document = {
        "apiVersion": "floe/v1",
        "kind": KIND,
        "hash": hash_of(values),
        "allow": sorted(set(allowed)),
        "pipelines": values,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_saved(text: str, place: str) -> SavedPlan:
    """A saved plan, or any text with one hash in it, such as a line of `floe submit --print`.

    Raises:
        ConfigError: it is neither, or the file was changed after it was written.
    """
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        match = _HASH.search(text)
        if match is None:
            raise _not_reviewed("the file holds neither a saved plan nor a sha256", place)
        return SavedPlan(match.group())
    try:
        pipelines, allowed = tuple(document["pipelines"]), tuple(str(code) for code in document["allow"])
        said, found = str(document["hash"]), hash_of(pipelines)
    except (KeyError, TypeError) as error:
        raise _not_reviewed(f"the saved plan is damaged: {error}", place) from error
    if said != found:
        raise _not_reviewed(f"the saved plan was edited: its hash is {found}, but it says {said}", place)
    return SavedPlan(found, allowed, pipelines)


def check_saved(pipelines: Sequence[LoadedPipeline], saved: SavedPlan, place: str) -> None:
    """Raises ConfigError when what would run is not what was reviewed."""
    values = [canonical(pipeline) for pipeline in pipelines]
    now = hash_of(values)
    if now == saved.hash:
        return
    where = ""
    if saved.pipelines is not None:
        where = f"; the first difference is {_difference(list(saved.pipelines), values)}"
    raise _not_reviewed(f"the files give {now}, but {saved.hash} was reviewed{where}", place)


def _difference(reviewed: list[Canonical], now: list[Canonical]) -> str:
    names = [[_name(value) for value in values] for values in (reviewed, now)]
    if names[0] != names[1]:
        return f"in the list of pipelines: {', '.join(names[0])} -> {', '.join(names[1])}"
    for name, before, after in zip(names[0], reviewed, now, strict=True):
        difference = first_difference(before, after)
        if difference:
            return f"in pipeline {name}, {difference}"
    return "one that cannot be shown"


def _name(value: Canonical) -> str:
    plan = value.get("plan")
    return str(plan.get("pipeline")) if isinstance(plan, dict) else "?"


def _not_reviewed(message: str, place: str) -> ConfigError:
    return ConfigError(
        message,
        code="FLOE-P001",
        place=place,
        remedy="review `floe plan` again, and save what you reviewed with `floe plan --out FILE`",
    )
