"""What `floe explain` says of codes that no file alone can show: what a person sees, and how to repair it."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

import framework
from framework.cli.main import floe, run_main, show_error
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.entry import CodeEntry, ShownAs, Transcript
from framework.diagnose.transcript import repair_lines, seen_lines
from framework.errors import FloeError

SHOWN = [entry for entry in CODES.values() if entry.transcript is not None]
HOLE, FILLED = "\0", "(?s:.*?)"
FEWEST_LETTERS = 5
RECORD = re.compile(r"a record failed at stage [a-z]+: (?P<failure>.*?)( \(field .*\))?")


def transcript(entry: CodeEntry) -> Transcript:
    assert entry.transcript is not None
    return entry.transcript


def text_of(node: ast.expr) -> str | None:
    """A piece of text of the program, with a mark for each value that it is filled with."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (text_of(node.left) or HOLE) + (text_of(node.right) or HOLE)
    return None


@cache
def sentences() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Every text of the program as a pattern, with its longest piece that holds no value."""
    texts = {
        text
        for source in Path(framework.__file__).parent.rglob("*.py")
        if "codes" not in source.parts
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr) and (text := text_of(node)) is not None
    }
    found = []
    for text in texts:
        pieces = text.split(HOLE)
        longest = max(pieces, key=len)
        if sum(map(str.isalpha, longest)) >= FEWEST_LETTERS:
            found.append((longest, re.compile(FILLED.join(map(re.escape, pieces)))))
    return tuple(found)


def is_said(text: str) -> bool:
    """Whether the program can say this, or what follows a colon in it: sentences are made of a subject and a reason."""
    if record := RECORD.fullmatch(text):
        text = record["failure"]
        # Converters put a few words of their own between a value and its column's type.
        if any(
            FILLED not in pattern.pattern and piece.count(" ") > 1 and piece in text for piece, pattern in sentences()
        ):
            return True
    tails = [text, *(text[colon.end() :] for colon in re.finditer(": ", text))]
    return any(piece in tail and pattern.fullmatch(tail) for tail in tails for piece, pattern in sentences())


def check_command(arguments: list[str]) -> None:
    """Raises click's error for a verb, an option or an argument that does not exist."""
    command: click.Command = floe
    context = click.Context(floe, info_name="floe", **floe.context_settings)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, _, rest = command.resolve_command(context, arguments)
        command, arguments = command.get_command(context, str(name)) or command, rest
        context = click.Context(command, info_name=name, parent=context)
    if not isinstance(command, click.Group) or arguments:
        command.make_context(context.info_name, arguments, parent=context.parent)


def test_every_code_shows_what_it_looks_like() -> None:
    """Each code has a wrong and a right example, or a transcript; none has both."""
    assert {code for code, entry in CODES.items() if bool(entry.wrong) == bool(entry.transcript)} == set()


@pytest.mark.parametrize("entry", SHOWN, ids=lambda entry: entry.code)
def test_a_transcript_shows_its_code(entry: CodeEntry) -> None:
    """The printed lines hold the code, or the one under which people see it; `floe status` shows the reason alone."""
    seen = transcript(entry)
    printed = "\n".join(seen_lines(entry)[1:])

    assert seen.message.splitlines()[0] in printed
    if seen.shown_as is not ShownAs.STATUS:
        assert f"[{seen.printed or entry.code}]" in printed
    assert not seen.printed or seen.printed in CODES
    if seen.shown_as is ShownAs.ERROR:
        error = FloeError(seen.message, code=seen.printed or entry.code, place=seen.place, remedy=seen.remedy)
        assert printed == show_error(error)


@pytest.mark.parametrize("entry", SHOWN, ids=lambda entry: entry.code)
def test_a_transcript_says_what_the_program_says(entry: CodeEntry) -> None:
    """The sentence and the remedy of a transcript are those of the program, with values filled in."""
    seen = transcript(entry)

    assert is_said(seen.message), seen.message
    assert not seen.remedy or is_said(seen.remedy), seen.remedy


@pytest.mark.parametrize("entry", SHOWN, ids=lambda entry: entry.code)
def test_commands_of_a_transcript_exist(entry: CodeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that was run and those that mend it have verbs, options and arguments that floe takes."""
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line.removeprefix("$ ")) for line in repair_lines(entry) if line.startswith("$ ")]
    own = [words[1:] for words in commands if words[0] == "floe"]

    assert own, "no command of floe mends it, or shows that it is mended"
    for arguments in [shlex.split(transcript(entry).command), *own]:
        for file in arguments:
            if file.endswith((".json", ".jsonl", ".yaml")) and "/" not in file:
                (tmp_path / file).touch()
        (tmp_path / "pipelines").mkdir(exist_ok=True)
        check_command(arguments)


def test_lost_announcements_name_the_way_on() -> None:
    """A recreated topic is mended by `floe rebase`; the explanation names it, with the option for copied topics."""
    for code in ("FLOE-R316", "FLOE-R319"):
        repairs = "\n".join(repair_lines(CODES[code]))
        assert "floe rebase" in repairs
        assert "--same-offsets" in repairs
        assert "--same-offsets" in CODES[code].text


def test_a_code_s_page_shows_the_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    """`floe explain` prints what was typed, what was printed and how to repair it."""
    assert run_main(["explain", "R319"]) == 0

    shown = capsys.readouterr().out
    assert "    $ floe run orders.yaml -t prod\n    error[FLOE-R319] pipeline orders announced batch 3" in shown
    assert "    $ floe rebase orders.yaml -t prod\n" in shown
