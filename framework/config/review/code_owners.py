"""Whether CODEOWNERS asks the owner of a pipeline's schema to review its file.

In: a pipeline file, the team of `owners.schema`, and the folders above the file. Out: a finding where the project has a
CODEOWNERS file and its entry for this file does not name the team. A project without one is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from framework.config.document import read_source, upwards
from framework.config.tree import Mapping, find
from framework.config.values.owners import OwningTeam
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic

NAME = "CODEOWNERS"
PLACES = (".github", ".gitlab", "", "docs")  # in the order of hosts that look at several
_SECTION = re.compile(r"\^?\[[^\]]+\](?:\[\d+\])?(.*)")


def asks_the_owner(path: Path, tree: Mapping, owner: OwningTeam, world: World) -> Iterator[Diagnostic]:
    """A finding where a change of the file would be merged without a word of the team."""
    found = _nearest(path.parent, world)
    node = find(tree, ("owners", "schema"))
    if found is None or node is None:
        return
    root, file = found
    source, _ = read_source(file, world)
    try:
        inside = world.real_path(path).relative_to(world.real_path(root)).as_posix()
    except ValueError:  # a link leads out of the project
        return
    if source is None or any(_is_team(each, owner) for each in reviewers(source.text, inside)):
        return
    asked = reviewers(source.text, inside)
    named = f"names {', '.join(asked)}" if asked else "names nobody"
    message = f"{file} {named} for this file, and not `{owner.team}`, which owns its schema"
    handle = owner.team if owner.team.startswith("@") else f"@{owner.team}"
    remedy = f"write `/{inside} {handle}` as the last line of {file}, or the team that it names under `owners.schema`"
    yield Diagnostic("FLOE-C475", message, node.span, path="owners.schema", remedy=remedy)


def reviewers(text: str, path: str) -> tuple[str, ...]:
    """Whom a CODEOWNERS file names for a path below its project: of each section the last line that matches."""
    sections: list[tuple[str, ...]] = [()]
    defaults: tuple[str, ...] = ()
    for line in text.splitlines():
        words = re.sub(r"(^|\s)#.*", "", line).strip()
        if not words:
            continue
        if (section := _SECTION.fullmatch(words)) is not None:
            defaults = tuple(section[1].split())
            sections.append(())
            continue
        pattern, *names = re.split(r"(?<!\\)\s+", words)
        if _matches(pattern.replace("\\ ", " "), path):
            sections[-1] = tuple(names) or defaults
    return tuple(dict.fromkeys(name for section in sections for name in section))


def _nearest(folder: Path, world: World) -> tuple[Path, Path] | None:
    """The nearest folder above that has such a file, and the file; none beyond the root of the repository."""
    for above in upwards(folder):
        names = world.names_in(above)
        for place in PLACES:
            if (not place or place in names) and NAME in (world.names_in(above / place) if place else names):
                return above, above / place / NAME
        if ".git" in names:
            return None
    return None


def _matches(pattern: str, path: str) -> bool:
    """As gitignore has it: from the root where the pattern has a slash inside, and all that is below what it names. One part
    after the other, so that no pattern takes long."""
    body = pattern.strip("/")
    wanted = body.split("/") if pattern.startswith("/") or "/" in body else ["**", body]
    last = len(wanted) - 1
    reached = _with_skipped({0}, wanted)
    parts = path.split("/")
    for number, part in enumerate(parts, start=1):
        found = {at + 1 for at in reached if at <= last and wanted[at] != "**" and fnmatchcase(part, wanted[at])}
        deep = {at for at in reached if at <= last and wanted[at] == "**"}
        reached = _with_skipped(found | deep | ({last + 1} if last in deep else set()), wanted)
        is_whole = number == len(parts)
        if last + 1 in reached and (not pattern.endswith("/") if is_whole else not body.endswith("/*")):
            return True
    return False


def _with_skipped(reached: set[int], wanted: list[str]) -> set[int]:
    """Also behind each `**` that stands for no folder; the last one stands for something."""
    for at in range(len(wanted) - 1):
        if at in reached and wanted[at] == "**":
            reached.add(at + 1)
    return reached


def _is_team(entry: str, owner: OwningTeam) -> bool:
    """Whether an entry is the team: with its organization or without, or the address by which it is reached."""
    name, team = entry.casefold().removeprefix("@"), owner.team.casefold().removeprefix("@")
    return name in (team, owner.contact.casefold()) or ("/" not in team and name.rpartition("/")[2] == team)
