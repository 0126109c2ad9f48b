"""Commands of remedies are whole: file, target, control topic, connection and broker filled in, each word quoted."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from framework.cli.main import floe
from framework.diagnose import whole_commands as w
from framework.diagnose.shown import is_command
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom, whole_commands

PROD = ReaderPlace("prod")


@pytest.mark.parametrize(
    ("text", "place", "run", "whole"),
    [
        ("`floe status` says why", PROD, StartedFrom(), "`floe status -t prod` says why"),
        ("`floe status -t eu` says why", PROD, StartedFrom(), "`floe status -t eu` says why"),
        ("`floe run FILE` goes on", PROD, StartedFrom("a b.yaml"), "`floe run 'a b.yaml' -t prod` goes on"),
        ("`floe run FILE` goes on", PROD, StartedFrom(), "`floe run FILE -t prod` goes on"),
        ("`floe rebase FILE --same-offsets`", PROD, StartedFrom("a.yaml"), "`floe rebase a.yaml --same-offsets -t prod`"),
        ("`floe plan` shows", PROD, StartedFrom("a.yaml"), "`floe plan a.yaml -t prod` shows"),
        ("`floe plan` shows", PROD, StartedFrom(), "`floe plan` shows"),
        ("`floe rollback` settles it", PROD, StartedFrom("a.yaml"), "`floe rollback` settles it"),
        ("`floe dlq stats`", PROD, StartedFrom("a.yaml"), "`floe dlq stats a.yaml -t prod`"),
        ("`floe run FILE`", PROD, StartedFrom(r"C:\1.yaml"), r"`floe run 'C:\1.yaml' -t prod`"),
        ("`floe stop PIPELINE`", PROD, StartedFrom(pipeline="my pipe"), "`floe stop 'my pipe' -t prod`"),
        ("`floe deploy FOLDER`", PROD, StartedFrom("/x/shop/a/b.yaml", "shop"), "`floe deploy /x/shop -t prod`"),
        ("`floe deploy FOLDER`", PROD, StartedFrom("shop/a.yaml", "other"), "`floe deploy FOLDER -t prod`"),
        ("`floe explain FLOE-R110`", PROD, StartedFrom(), "`floe explain FLOE-R110`"),
        ("`floe log`, `floe run FILE`", ReaderPlace("p", "other topic", "eu"), StartedFrom("a.yaml"),
         "`floe log -t p --connection eu --control-topic 'other topic'`, `floe run a.yaml -t p`"),
        ("`floe log`", ReaderPlace("p", w.CONTROL_TOPIC), StartedFrom(), "`floe log -t p`"),
        ("`kafka-configs.sh --bootstrap-server BROKER --alter`", ReaderPlace("p", broker="b:9092,c:9092"), StartedFrom(),
         "`kafka-configs.sh --bootstrap-server b:9092,c:9092 --alter`"),
    ],
)  # fmt: skip
def test_what_a_command_leaves_out_is_filled_in(text: str, place: ReaderPlace, run: StartedFrom, whole: str) -> None:
    """What is known is filled in, what stands there stays, and what nobody knows is left for the reader."""
    assert whole_commands(text, place, run) == whole


def test_no_name_of_others_ends_a_command() -> None:
    """A file's name with quotes, spaces and signs of the shell stays one word; one that no sentence can hold becomes NAME."""
    for name in ("a; rm -rf ~.yaml", "$(id).yaml", "'.yaml", '"', r"\1\g<0>.yaml"):
        (command,) = re.findall("`([^`]*)`", whole_commands("`floe run FILE`", PROD, StartedFrom(name)))
        assert shlex.split(command) == ["floe", "run", name, "-t", "prod"]
        assert is_command(command)
    for name in ("`id`", "--help", "a\nb"):
        assert whole_commands("`floe run FILE`", PROD, StartedFrom(name)) == "`floe run NAME -t prod`"


def test_the_verbs_are_those_that_take_the_options() -> None:
    """What is filled in is an option of that verb, and each verb of Watch and Repair that has it gets it."""
    targeted, by_topic, other = set(), set(), set()
    for name, command in _commands("", floe):
        options = {option for each in command.params for option in each.opts}
        verb = name.split()[0]
        if "--target" in options:
            targeted.add(verb)
            (by_topic if {"--control-topic", "--connection"} <= options else other).add(verb)
    assert targeted >= w._TARGETED
    assert by_topic == w._BY_TOPIC
    assert not other & w._BY_TOPIC


def test_what_is_no_command_by_itself_is_left_as_a_name() -> None:
    """Verbs that want an argument or an option are known: no text shows one with a target alone, as if that could be typed."""
    wanting = {
        name
        for name, command in _commands("", floe)
        if any(each.required for each in command.params) and any("--target" in each.opts for each in command.params)
    }
    assert wanting - {"import-connector", "init", "templates test"} <= w._WANT_A_FILE | w._WANT_MORE
    groups = {name.split()[0] for name, _ in _commands("", floe) if " " in name}
    assert {name for name, _ in _commands("", floe)} | groups >= w._WANT_A_FILE | w._WANT_MORE


def _commands(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(name.strip(), command)]
    context = click.Context(command)
    found = [(each, command.get_command(context, each)) for each in command.list_commands(context)]
    return [deep for each, child in found if child is not None for deep in _commands(f"{name} {each}", child)]
