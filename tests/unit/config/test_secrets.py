"""Secrets are read in one place, and shown in none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adapters.host.plugins import offered
from framework.adapters.secrets import SecretSchemes, resolve
from framework.config.spec import SecretRef
from framework.diagnose.render import FORMATS, render
from framework.errors import SetupError
from tests.unit.config.in_memory import PIPELINE, TARGET, load, over

SECRET = "hunter2-very-secret"
KAFKA = 'connections:\n  kafka: {{main: {{bootstrap.servers: "b:1", {}}}}}\n  catalog: {{default: {{type: rest, uri: "http://c"{}}}}}'


def test_secrets_are_read_from_environment_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References become values; a file's last line end is not part of its secret."""
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")
    monkeypatch.setenv("FLOE_PASSWORD", SECRET)

    found = resolve(
        {"a": "plain", "b": SecretRef("env", "FLOE_PASSWORD"), "c": SecretRef("file", str(tmp_path / "token"))}
    )

    assert found == {"a": "plain", "b": SECRET, "c": "abc"}


@pytest.mark.parametrize(
    "secret", [SecretRef("env", "FLOE_NOT_SET"), SecretRef("file", "/no/such/file"), SecretRef("vault", "x")]
)
def test_a_missing_secret_is_named_and_never_empty(secret: SecretRef) -> None:
    """A secret that is not there stops the start and names its reference."""
    with pytest.raises(SetupError) as raised:
        resolve({"sasl.password": secret})

    assert raised.value.code == "FLOE-E002"
    assert secret.scheme in str(raised.value)


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that offers the scheme `vault`: it keeps one secret, one empty one, and breaks for the
    rest."""
    (tmp_path / "team_vault.py").write_text(f"def read(name):\n    return {{'a/b#c': {SECRET!r}, 'empty': ''}}[name]\n")
    info = tmp_path / "team_vault-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team-vault\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[floe.secrets]\nvault = team_vault:read\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    offered.cache_clear()
    yield
    offered.cache_clear()


def test_a_package_can_offer_a_vault(vault: None) -> None:
    """A scheme of the entry point group `floe.secrets` is known to validation and read at the start."""
    assert "vault" in SecretSchemes()
    assert resolve({"sasl.password": SecretRef("vault", "a/b#c")}) == {"sasl.password": SECRET}


@pytest.mark.parametrize("name", ["empty", f"missing-{SECRET}"])
def test_a_vault_that_fails_is_named_without_its_words(vault: None, name: str) -> None:
    """What a vault's code says is not repeated: only the reference, and the kind of failure."""
    with pytest.raises(SetupError) as raised:
        resolve({"sasl.password": SecretRef("vault", name)})

    assert raised.value.code == "FLOE-E002"
    assert str(raised.value).count(SECRET) == str(SecretRef("vault", name)).count(SECRET)
    assert raised.value.__cause__ is None


def test_an_unknown_scheme_is_a_finding() -> None:
    """A scheme that nothing offers is found by validation, with the one that was meant."""
    target = over(TARGET, KAFKA.format('sasl.password: "${secret:evn:PASSWORD}"', ""))

    (finding,) = load(files={"targets/local.yaml": target}).diagnostics

    assert (finding.code, finding.hint) == ("FLOE-C303", "did you mean `env`?")


@pytest.mark.parametrize(
    "target",
    [
        KAFKA.format(f"sasl.password: {SECRET}", ""),
        KAFKA.format(f"sasl.password: [{SECRET}]", ""),
        KAFKA.format(f"sasl.password: {{a: {SECRET}}}", ""),
        KAFKA.format(f"SASL.Password: {SECRET}", ""),
        KAFKA.format(f"sasl.password: {SECRET}, group.id: x, typo", ""),
        KAFKA.format("x: y", f", token: {SECRET}"),
        KAFKA.format("x: y", f', s3.secret-access-key: "{SECRET}"'),
        KAFKA.format("x: y", f", credential: >-\n      {SECRET}\n      more\n  "),
        KAFKA.format("x: y", f', uri2: "https://u:{SECRET}@h"'),
        KAFKA.format(f"sasl.password: {SECRET}", "") + "\nbroken: [",
        KAFKA.format(f"sasl.password: {SECRET}", "") + "\n unknown: 1",
        KAFKA.format(f'sasl.password: "${{env:A}}{SECRET}"', ""),
    ],
)
def test_nothing_that_is_said_about_a_file_shows_its_secrets(target: str) -> None:
    """A secret in clear is refused, and no format of no finding repeats it."""
    result = load(files={"targets/local.yaml": over(TARGET, target), "base.yaml": PIPELINE})

    assert not result.ok
    assert all(SECRET not in render(result.diagnostics, name) for name in FORMATS)
