"""Token files: what counts, what is refused, and that a token taken out counts no more."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from framework.adapters.host.private_files import why_not_private
from framework.cli.main import run_main
from framework.errors import SetupError
from framework.web.access.access import Identity, Role, needs_tokens, parse_tokens, who
from framework.web.access.token_file import TokenFile

LONG = "a-token-that-is-long-enough"


def test_a_line_is_a_name_a_role_and_a_token_or_its_hash() -> None:
    """Comments and empty lines are passed over; a hashed token is brought in the clear like any other."""
    hashed = hashlib.sha256(b"another-token-of-these-tests").hexdigest()
    tokens = parse_tokens(f"# who may\n\nann act {LONG}\nrita   read sha256:{hashed}\n", "tokens")
    assert who(f"Bearer {LONG}", tokens) == Identity("ann", Role.ACT)
    assert who("bearer another-token-of-these-tests", tokens) == Identity("rita", Role.READ)
    assert who(f"Bearer sha256:{hashed}", tokens) is None
    assert who(f"Bearer {hashed}", tokens) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nobody",
        f"ann {LONG}",
        f"ann write {LONG}",
        f"ann act {LONG} more",
        "ann act short",
        f"ann:x act {LONG}",
        f"\x1b[2J act {LONG}",
        "ann act sha256:abc",
    ],
)
def test_a_file_of_another_form_is_refused_without_repeating_it(text: str) -> None:
    """FLOE-E037 names the line, and no message holds what may be a token."""
    with pytest.raises(SetupError) as refused:
        parse_tokens(text, "tokens")
    assert refused.value.code == "FLOE-E037"
    assert LONG not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def private(path: Path, text: str = f"ann act {LONG}\n") -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o644])
def test_a_file_that_others_may_read_or_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """Whoever could read the file has every token in it."""
    path = private(tmp_path / "tokens")
    path.chmod(mode)
    with pytest.raises(SetupError) as refused:
        TokenFile(path)
    assert (refused.value.code, refused.value.remedy) == ("FLOE-E037", f"`chmod 600 {path}`")


@pytest.mark.parametrize(("user", "owner"), [(10001, 0), (10001, 10001), (10001, 10002), (0, 0), (0, 10001)])
def test_only_roots_file_may_be_read_by_a_group(user: int, owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Secret of Kubernetes is root's, and its group is the pod's: only root may write it, and nobody else read it. Of every
    mode that there is."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    for mode in range(0o10000):
        found = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 10001, 10, 0, 0, 0))
        by_group, by_others = mode & 0o070, mode & 0o007
        is_roots = owner == 0 and user != 0
        wanted = owner in (user, 0) and not by_others and (by_group == 0 or (is_roots and by_group == 0o040))
        assert (why_not_private(found, Path("tokens")) is None) is wanted, oct(mode)


def test_a_token_that_is_taken_out_counts_no_more(tmp_path: Path) -> None:
    """The file is read again when it changes; one that became wrong, public or lost lets nobody in."""
    path = private(tmp_path / "tokens")
    found = TokenFile(path)
    assert who(f"Bearer {LONG}", found.tokens()) is not None
    private(path, f"bea act {LONG}-2\n")
    assert who(f"Bearer {LONG}", found.tokens()) is None
    assert who(f"Bearer {LONG}-2", found.tokens()) is not None
    path.chmod(0o644)
    assert found.tokens() == ()
    path.chmod(0o600)
    assert len(found.tokens()) == 1
    path.unlink()
    assert found.tokens() == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com"])
def test_off_loopback_nothing_starts_without_a_token_file(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The address is refused before anything is listened at or asked."""
    monkeypatch.chdir(tmp_path)
    assert needs_tokens(host)
    listen = f"[{host}]:0" if ":" in host else f"{host}:0"
    assert run_main(["ops", "--listen", listen]) == 3
    assert "FLOE-E037" in capsys.readouterr().err


def test_a_token_file_that_is_not_there_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody believes that tokens count while none is read; also on loopback."""
    monkeypatch.chdir(tmp_path)
    assert run_main(["ops", "--tokens", "nothing"]) == 3
    assert "FLOE-E037" in capsys.readouterr().err


def test_without_its_packages_the_verb_names_what_to_install(tmp_path: Path) -> None:
    """Whoever installed floe without its page gets the command, and every other verb works without these packages."""
    program = (
        "import sys, importlib.util as u; real = u.find_spec;"
        "u.find_spec = lambda name, *more: None if name in ('starlette', 'uvicorn') else real(name, *more);"
        "from framework.cli.main import run_main; sys.exit(run_main(sys.argv[1:]))"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", program, "ops"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.returncode == 3
    assert "pip install 'floe-pipelines[ops]'" in done.stderr
