"""The reference page of all verbs, made from the commands themselves, so that it cannot differ from them.

In: click's own description of every command. Out: Markdown.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

_HEAD = """\
# Commands

<!-- Made by `floe docs` from the commands themselves; change those. -->

Exit codes: 0 done, 1 failed while running, 2 a file or an option is wrong, 3 the environment is wrong, 4 another run of
the same pipeline took over, 5 stored positions disagree, 6 a table is blocked, 7 a deadline passed, 8 more dead letters
than the file allows; a signal ends with 128 plus its number.
"""


def page(root: click.Group) -> str:
    """The page of a group's commands, and of the commands below them."""
    context = click.Context(root, info_name="floe", **root.context_settings)  # a command keeps its help option
    sections = [section for name in root.list_commands(context) for section in _sections(root, name, context)]
    return "\n".join([_HEAD, *sections])


def _sections(group: click.Group, name: str, above: click.Context) -> Iterator[str]:
    command = group.get_command(above, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=above)
    yield _section(command, context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _sections(command, child, context)


def _section(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [f"## `{context.command_path}`", "", "```text", f"{context.command_path} {pieces}".rstrip(), "```", ""]
    lines += [_markdown(command.help or command.short_help or ""), ""]
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    options = [(names, reported) for names, reported in rows if reported and not names.endswith("--help")]
    if options:
        lines += ["| option | |", "|---|---|"]
        lines += [f"| `{_cell(names)}` | {_cell(reported)} |" for names, reported in options]
        lines.append("")
    return "\n".join(lines)


def _markdown(help_text: str) -> str:
    """A docstring's paragraphs as Markdown; a paragraph that click is asked not to wrap is a listing."""
    paragraphs = inspect.cleandoc(help_text).split("\n\n")
    return "\n\n".join(
        "```text\n" + paragraph.removeprefix("\b\n") + "\n```" if paragraph.startswith("\b\n") else paragraph
        for paragraph in paragraphs
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
