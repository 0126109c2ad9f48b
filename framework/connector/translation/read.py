"""The configuration of a Kafka Connect connector as settings: JSON, alone or under `config`, or a properties file.

In: a text. Out: the connector's name and its settings, all as text. Only an Iceberg sink is taken.
"""

from __future__ import annotations

import json

import javaproperties

from framework.config.units import setting_text
from framework.errors import ConfigError

_CLASSES = (
    "org.apache.iceberg.connect.IcebergSinkConnector",
    "io.tabular.iceberg.connect.IcebergSinkConnector",
)


def read_settings(text: str, file: str) -> tuple[str | None, dict[str, str]]:
    """The connector's name and its settings, from JSON (alone or under `config`) or from a properties file.

    Raises:
        ConfigError: FLOE-R404, the text is neither, or of another connector.
    """
    name: str | None = None
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _not_a_sink(f"the text is not JSON: {error}", file) from None
        settings = document
        if isinstance(document.get("config"), dict):
            settings, name = document["config"], document.get("name")
        if not all(isinstance(value, (str, int, float, bool)) for value in settings.values()):
            raise _not_a_sink("a setting is neither text nor a number", file)
        found = {key: setting_text(value) for key, value in settings.items()}
    else:
        found = _properties(text, file)
    kind = found.get("connector.class", "")
    if kind not in _CLASSES:
        shown = f"`connector.class` is `{kind}`" if kind else "there is no `connector.class`"
        raise _not_a_sink(shown, file)
    own = name if isinstance(name, str) else found.get("name")
    return own, found


def with_worker(settings: dict[str, str], text: str, file: str) -> dict[str, str]:
    """The connector's settings with those that it takes from its worker: converters that it does not name, what the
    worker gives its consumers, and the address and the credentials of the brokers.

    Args:
        text: the worker's properties, of this file.

    Raises:
        ConfigError: FLOE-R404, the text is none.
    """
    worker = _properties(text, file)
    found = dict(settings)
    for name in ("key.converter", "value.converter", "header.converter"):
        if name not in settings:
            found = {key: value for key, value in found.items() if not key.startswith(f"{name}.")}
            found |= {key: value for key, value in worker.items() if key == name or key.startswith(f"{name}.")}
    for key, value in worker.items():
        if key.startswith("consumer."):
            found.setdefault(f"consumer.override.{key.removeprefix('consumer.')}", value)
        elif key == "bootstrap.servers" or key.startswith(("security.", "sasl.", "ssl.")):
            found.setdefault(f"iceberg.kafka.{key}", value)
    return found


def _properties(text: str, file: str) -> dict[str, str]:
    """Properties as Java reads them, without the blanks around their values, which Connect cuts off."""
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except javaproperties.InvalidUEscapeError as error:
        raise _not_a_sink(f"no properties of Java's: {error}", file) from None


def _not_a_sink(message: str, file: str) -> ConfigError:
    remedy = f"give the configuration of a connector of class {_CLASSES[0]}"
    return ConfigError(message, code="FLOE-R404", place=file, remedy=remedy)
