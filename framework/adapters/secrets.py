"""Secrets, read where and when they are used: in the driver, at start. In: settings with references. Out: plain
settings.

`${secret:env:NAME}` and `${secret:file:/path}` are read here; every other scheme is an entry point of the group
`floe.secrets`, a function from the reference's name to the secret. What is returned is for clients only; nothing prints
it, and no plan, log or event holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from framework.adapters.host.plugins import offered
from framework.config.spec import SecretRef, SettingValue
from framework.diagnose.secrets import HIDDEN, redacted
from framework.errors import SetupError

GROUP = "floe.secrets"
# What was read, so that no message repeats it, whatever a client puts it into. Shorter ones would hide ordinary words.
_KNOWN: set[str] = set()
_SHORTEST_HIDDEN = 4


class SecretSchemes(Collection[str]):
    """The schemes that this installation can read. Packages are only looked at for one that is not built in."""

    def __contains__(self, scheme: object) -> bool:
        return scheme in _BUILT_IN or scheme in offered(GROUP)

    def __iter__(self) -> Iterator[str]:
        return iter((*_BUILT_IN, *offered(GROUP)))

    def __len__(self) -> int:
        return len(_BUILT_IN) + len(offered(GROUP))


def resolve(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """The settings with every secret's value in its place.

    Raises:
        SetupError: FLOE-E002, a secret is not there, is empty, or cannot be read. The message names the reference only.
    """
    read = {key: _read(key, value) for key, value in settings.items() if isinstance(value, SecretRef)}
    _KNOWN.update(value for value in read.values() if len(value) >= _SHORTEST_HIDDEN)
    return {key: read.get(key, str(value)) for key, value in settings.items()}


def hidden(text: str) -> str:
    """A text of any client, server or catalog as it may be shown: without the secrets that this process has read, and
    without what looks like one."""
    for secret in sorted(_KNOWN, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return redacted(text)


def first_line(error: Exception) -> str:
    """What an error says first, as it may be shown."""
    text = str(error).strip() or type(error).__name__
    return hidden(text.splitlines()[0])


def _read(key: str, secret: SecretRef) -> str:
    read = _BUILT_IN.get(secret.scheme) or _from_package
    return read(key, secret)


def _from_environment(key: str, secret: SecretRef) -> str:
    found = os.environ.get(secret.name)
    if not found:
        raise _refused(key, secret, "is not set", f"set the environment variable {secret.name}")
    return found


def _from_file(key: str, secret: SecretRef) -> str:
    try:
        text = Path(secret.name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise _refused(key, secret, f"cannot be read: {reason}", "check the file and its permissions") from None
    if not text.strip():
        raise _refused(key, secret, "is empty", "write the secret into the file")
    return text.rstrip("\r\n")


def _from_package(key: str, secret: SecretRef) -> str:
    point = offered(GROUP).get(secret.scheme)
    if point is None:
        remedy = f"use {', '.join(_BUILT_IN)}, or install the package that offers `{secret.scheme}` where this runs"
        raise _refused(key, secret, "has an unknown scheme", remedy)
    try:
        found = point.load()(secret.name)
    except Exception as error:  # somebody else's code: its words may hold the secret, so only its kind is reported
        said = f"cannot be read: {point.value} failed with {type(error).__name__}"
        raise _refused(key, secret, said, "check the vault's address and this process's permissions") from None
    if not isinstance(found, str) or not found:
        raise _refused(key, secret, f"is empty: {point.value} gave no text", "check the secret's name in the vault")
    return found


_BUILT_IN: dict[str, Callable[[str, SecretRef], str]] = {"env": _from_environment, "file": _from_file}


def _refused(key: str, secret: SecretRef, said: str, remedy: str) -> SetupError:
    return SetupError(f"the secret {secret} of `{key}` {said}", code="FLOE-E002", place=key, remedy=remedy)
