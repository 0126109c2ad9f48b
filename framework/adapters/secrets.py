"""Secrets, read where and when they are used: in the driver, at start. In: settings with references. Out: plain settings.

What is returned here is for clients only; nothing prints it, and no plan, log or event holds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from framework.config.spec import SecretRef, SettingValue
from framework.errors import SetupError


def resolve(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """The settings with every secret's value in its place.

    Raises:
        SetupError: a variable is not set, or a file cannot be read or is empty. The message names the reference only.
    """
    return {key: _read(key, value) if isinstance(value, SecretRef) else value for key, value in settings.items()}


def _read(key: str, secret: SecretRef) -> str:
    if secret.scheme == "env":
        found = os.environ.get(secret.name)
        if found is None or found == "":
            raise SetupError(
                f"the secret {secret} of `{key}` is not set",
                code="FLOE-E002",
                place=key,
                remedy=f"set the environment variable {secret.name}",
            )
        return found
    if secret.scheme == "file":
        try:
            text = Path(secret.name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SetupError(
                f"the secret {secret} of `{key}` cannot be read: {reason}",
                code="FLOE-E002",
                place=key,
                remedy="check the file and its permissions",
            ) from None
        if not text.strip():
            raise SetupError(
                f"the secret {secret} of `{key}` is empty",
                code="FLOE-E002",
                place=key,
                remedy="write the secret into the file",
            )
        return text.rstrip("\r\n")
    raise SetupError(
        f"there is no secret scheme `{secret.scheme}`", code="FLOE-E002", place=key, remedy="use `env` or `file`"
    )
