"""The pages of the project, and the commands in them.

In: README.md, CONTRIBUTING.md and docs/, without the records of decisions and without docs/reference, which is generated.
Out: commands with the place where they stand, and what the parser of the command line has against them. What only
describes a command (`floe run FILE...`) is read in its longest form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from framework.cli.main import floe

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not {"decisions", "reference"} & {*path.parts}),
]
_FENCE = re.compile(r"^ *```(\w*)\s*$")
_PROSE = re.compile(r"[a-z]+[,.;:]? (?:the|a|an|is|and|of|to|it|that) ")
_INLINE = re.compile(r"`((?:\.venv/bin/)?floe [^`]+)`")
_END = re.compile(r"\s(?:[12&]?>{1,2}|\||&&|&|\|\||;)(?:\s|$).*")


@dataclass(frozen=True)
class Command:
    """One command of a page; `kind` is the language of its block, `plain` for indented ones, `inline` for a span."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def words(self) -> list[str]:
        """The words behind the program, comments and redirections left out."""
        text = _END.sub("", self.text.replace("…", "..."))
        try:
            return shlex.split(text, comments=True)[1:]
        except ValueError:
            return text.split()[1:]

    @property
    def is_floe(self) -> bool:
        return self.text.startswith("floe ")


def commands(page: Path) -> Iterator[Command]:
    """Every command of a page, in order; a line that ends with a backslash is joined with the next one."""
    kind, lines = "", page.read_text(encoding="utf-8").splitlines()
    joined, begun = "", 0
    for number, line in enumerate(lines, 1):
        if fence := _FENCE.match(line):
            kind = "" if kind else (fence[1] or "text")
            continue
        in_block = bool(kind) or (line.startswith("    ") and not line.lstrip().startswith(("- ", "* ", "|")))
        if in_block:
            joined, begun = (f"{joined} {line.strip()}", begun) if joined else (line, number)
            if line.endswith("\\"):
                joined = joined.rstrip("\\").rstrip()
                continue
            text, joined = joined, ""
            if kind not in ("yaml", "json", "python", "toml", "mermaid") and (found := command_in(text)):
                yield Command(page, begun, kind or "plain", found)
            continue
        for span in _INLINE.findall(line):
            yield Command(page, number, "inline", span.removeprefix(".venv/bin/"))


def command_in(line: str) -> str | None:
    """The command of a line in a block, or None."""
    line = re.sub(r"^(\s*(?:\$ )?)(?:timeout \S+(?: --?\S+)* \d+ |until \[ \"\$\()", r"\1", line)
    found = re.match(r"^\s*(?:\$ )?((?:\.venv/bin/)?(?:floe|python3?)|make)\s+(\S.*)$", line)
    if not found or _PROSE.match(found[2]):
        return None
    return f"{found[1].removeprefix('.venv/bin/')} {found[2]}"


def wrong(command: Command) -> str:
    """What the parser of the command line has against a command of floe's; "" for nothing."""
    described = command.kind == "inline" or re.search(r"\[-|\.\.\.|\||[A-Z]{4,}", command.text)
    words = [word.strip("[],.") for word in command.words if word not in ("|", "...", "]", "[")]
    group: click.Command = floe
    context = click.Context(floe, info_name="floe", **floe.context_settings)
    while isinstance(group, click.Group):
        if not words or words[0].startswith("-"):
            return "" if described or group.invoke_without_command else f"`{group.name}` needs a verb"
        alternatives = [group.get_command(context, name) for name in re.split(r"[|/]", words[0])]
        if words[0] in ("VERB", "COMMAND", "SHELL") and described:
            return ""
        if alternatives[0] is None:
            return f"there is no command `{words[0]}`"
        group, words = alternatives[0], words[1:]
    options = {name for parameter in group.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"-h", "--help"}
    given = {word.partition("=")[0] for word in words if re.match(r"^--?[a-z]", word)}
    if unknown := given - options:
        return f"`floe {group.name}` has no option {', '.join(sorted(unknown))}"
    if described:
        return ""
    try:
        group.make_context(group.name, words, parent=context)  # a command keeps the help option of its first context
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        # Files of the reader's own are made before the command, or are the reader's.
        return "" if "does not exist" in error.format_message() else error.format_message()
    return ""
