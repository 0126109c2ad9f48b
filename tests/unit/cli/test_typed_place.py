"""Remedies of errors name the target and the file that were typed."""

from __future__ import annotations

import pytest

from framework.cli.main import run_main
from framework.cli.shared.typed_place import typed_file, typed_place
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom


@pytest.mark.parametrize(
    ("words", "place", "file"),
    [
        ("status -t prod", ReaderPlace("prod"), ""),
        ("run a.yaml --target=prod", ReaderPlace("prod"), "a.yaml"),
        ("run a.yaml b.yml -t prod", ReaderPlace("prod"), ""),
        ("run a.yaml -t targets/prod.yaml", ReaderPlace("targets/prod.yaml"), "a.yaml"),
        ("log --control-topic c --connection eu", ReaderPlace("", "c", "eu"), ""),
        ("status -t", ReaderPlace(), ""),
        ("", ReaderPlace(), ""),
    ],
)
def test_what_was_typed_is_known(words: str, place: ReaderPlace, file: str) -> None:
    """Options in both forms; a file that is a target is none of a pipeline, and of several none is meant."""
    assert typed_place(words.split()) == place
    assert typed_file(words.split()) == StartedFrom(file)


def test_an_error_names_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown can be typed where the command was typed."""
    from framework.errors import SetupError

    def fails(*_: object, **__: object) -> None:
        raise SetupError("it does not run", remedy="`floe status` says why; `floe run FILE` starts it")

    monkeypatch.setattr("framework.cli.main.floe.main", fails)
    assert run_main(["stop", "a b.yaml", "-t", "prod"]) == 3
    assert "`floe status -t prod` says why; `floe run 'a b.yaml' -t prod` starts it" in capsys.readouterr().err
