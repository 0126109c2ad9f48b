"""The transforms of Kafka Connect themselves, run in a JVM on single records, as a worker runs them before its sink.

In: a connector's settings and a record's bytes. Out: the record as the sink would get it, None where a filter drops it,
or why the task would end. The jars come once from Maven Central; no broker and no worker is started.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from framework.adapters.host.java import find_java
from framework.connector.sink.model import SinkRecord, Stops, Value
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

KAFKA_VERSION = "4.3.1"
ICEBERG_VERSION = "1.11.0"
DEBEZIUM_VERSION = "3.0.8.Final"
# How a moment is written, so that no text of a record is taken for one.
_MARK = "\ue0d0"
_DATE = f"'{_MARK}'Gyyyy-MM-dd HH:mm:ss.SSS"
# Tabular gave its transforms to Apache, where they go on under another name.
_TABULAR, _APACHE = "io.tabular.iceberg.connect.transforms.", "org.apache.iceberg.connect.transforms."


def transform_jars() -> Path:
    """The directory with Connect's own transforms, Iceberg's and Debezium's."""
    return jars(
        f"connect-transforms-{KAFKA_VERSION}",
        [
            *(dependency("org.apache.kafka", name, KAFKA_VERSION) for name in ("connect-transforms", "connect-json")),
            dependency("org.apache.iceberg", "iceberg-kafka-connect-transforms", ICEBERG_VERSION),
            dependency("io.debezium", "debezium-core", DEBEZIUM_VERSION),
            dependency("org.slf4j", "slf4j-nop", "1.7.36"),
        ],
    )


class BeyondPython(Exception):
    """A moment in a year that Python has no word for."""


class Connect:
    """A JVM that holds the transforms, until `close`."""

    def __init__(self, more: str = "") -> None:
        """Start it.

        Args:
            more: what else is on the class path.
        """
        py4j = next(JARS_OF_PYSPARK.glob("py4j-*.jar"))
        port, token, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{transform_jars()}/*{more}",
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"],
            die_on_exit=True,
            java_path=find_java(),
            enable_auth=True,
            return_proc=True,
            redirect_stderr=subprocess.DEVNULL,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._jvm: Any = self._gateway.jvm
        self._converter = self._made("org.apache.kafka.connect.json.JsonConverter")
        self._converter.configure({"schemas.enable": "false"}, False)
        self._writer = self._made("com.fasterxml.jackson.databind.ObjectMapper")
        form, calendar = self._jvm.java.text.SimpleDateFormat(_DATE), self._jvm.java.util.GregorianCalendar()
        calendar.setGregorianChange(self._jvm.java.util.Date(-(2**63)))  # as Python and Iceberg count days
        form.setCalendar(calendar)
        self._writer.setDateFormat(form)
        feature = self._jvm.com.fasterxml.jackson.core.JsonGenerator.Feature.QUOTE_NON_NUMERIC_NUMBERS
        self._writer.configure(feature, False)
        self._kind = self._jvm.org.apache.kafka.common.record.TimestampType.CREATE_TIME

    def close(self) -> None:
        self._gateway.shutdown()
        self._process.kill()
        self._process.wait()

    def chain(self, settings: Mapping[str, str]) -> Chain:
        """The transforms of a connector, configured.

        Raises:
            Stops: the connector does not start with these settings.
        """
        steps = []
        for name in _list(settings.get("transforms", "")):
            options = _below(settings, f"transforms.{name}.")
            kind = options.pop("type").replace(_TABULAR, _APACHE)
            predicate, negate = options.pop("predicate", None), options.pop("negate", "false").lower() == "true"
            test = None
            if predicate:
                asked = _below(settings, f"predicates.{predicate}.")
                test = self._configured(asked.pop("type"), asked)
            steps.append((self._configured(kind, options), test, negate))
        return Chain(self, steps)

    def _configured(self, kind: str, options: dict[str, str]) -> Any:
        try:
            made = self._made(kind)
            made.configure(options)
        except Py4JJavaError as error:
            raise Stops(str(error.java_exception)) from None
        return made

    def _made(self, kind: str) -> Any:
        nothing = self._gateway.new_array(self._jvm.java.lang.Class, 0)
        none = self._gateway.new_array(self._jvm.java.lang.Object, 0)
        return self._jvm.java.lang.Class.forName(kind).getDeclaredConstructor(nothing).newInstance(none)

    def read(self, record: SinkRecord, value: bytes | None) -> Any:
        """The record as the worker reads it, with Connect's own converter of JSON."""
        return self.record(record, None, self._converter.toConnectData(record.topic, value).value())

    def record(self, record: SinkRecord, schema: Any, value: Any) -> Any:
        """A record of Java's with another value, and its schema."""
        return self._jvm.org.apache.kafka.connect.sink.SinkRecord(
            record.topic, record.partition, None, None, schema, value, record.offset, record.timestamp_ms, self._kind
        )

    def written(self, value: Any) -> str:
        """A value of Java's as JSON; moments are marked."""
        return str(self._writer.writeValueAsString(value))


class Chain:
    """The transforms of one connector in their order."""

    def __init__(self, connect: Connect, steps: list[tuple[Any, Any, bool]]) -> None:
        self._connect, self._steps = connect, steps

    def transformed(self, record: SinkRecord, value: bytes | None) -> SinkRecord | None:
        """The record behind all transforms; None where one drops it.

        Raises:
            Stops: the value is not read, or a transform refuses it.
        """
        try:
            found = self.applied(record, value)
            if found is None:
                return None
            written = self._connect.written(found.value())
            return replace(record, topic=found.topic(), value=_plain(json.loads(written)))
        except Py4JJavaError as error:
            raise Stops(str(error.java_exception)) from None

    def applied(self, record: SinkRecord, value: bytes | None) -> Any:
        """The same as Java's own record. Raises Py4JJavaError."""
        return self.applied_to(self._connect.read(record, value))

    def applied_to(self, found: Any) -> Any:
        """A record of Java's behind all transforms; None where one drops it. Raises Py4JJavaError."""
        for transform, predicate, negate in self._steps:
            if predicate is not None and bool(predicate.test(found)) is negate:
                continue
            found = transform.apply(found)
            if found is None:
                return None
        return found


def _plain(value: Any) -> Value:
    """A value of Java's JSON as the interpreter has it."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str) and value.startswith(_MARK):
        try:
            return datetime.strptime(value, f"{_MARK}AD%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc)
        except ValueError:
            raise BeyondPython(value[1:]) from None
    return value


def _below(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
