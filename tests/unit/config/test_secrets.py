"""Secrets are read in one place, and shown in none."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.adapters.secrets import resolve
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
