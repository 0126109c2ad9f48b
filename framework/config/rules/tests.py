"""Rules about the tests of a file: each record is one that the source could read."""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.names.patterns import compiled, unfit
from framework.config.rules.rules import Document, Rule, at
from framework.config.tree import Mapping
from framework.config.values.type_text import structure
from framework.config.values.value_kinds import nested_type
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed


def records_have_one_value(document: Document) -> Iterator[Diagnostic]:
    """A test's record has a value, as YAML or as bytes."""
    for test, _ in document.items("tests"):
        for path, record in document.items(*test, "input"):
            if not isinstance(record, Mapping) or not document.sound(*path):
                continue
            raw, value = document.entry(*path, "raw"), document.entry(*path, "value")
            if raw and value:
                yield at("FLOE-C424", "the record has both `value` and `raw`", raw, (*path, "raw"), "keep one of them")
            elif not raw and not value:
                remedy = "add `value:`, with a mapping, text, or null for a tombstone; or `raw:` with the bytes"
                yield at("FLOE-C424", "the record has no `value`", record, path, remedy)


def records_are_of_the_source(document: Document) -> Iterator[Diagnostic]:
    """A test's record comes from a topic that the source reads."""
    topics = [text for path, _ in document.items("source", "kafka", "topics") if (text := document.text(*path))]
    pattern = document.text("source", "kafka", "topic_pattern")
    if len(topics) != len(document.items("source", "kafka", "topics")) or bool(topics) == bool(pattern):
        return
    if pattern and unfit(pattern) is not None:
        return
    for test, _ in document.items("tests"):
        for path, record in document.items(*test, "input"):
            if not isinstance(record, Mapping) or not document.sound(*path):
                continue
            entry, topic = document.entry(*path, "topic"), document.text(*path, "topic")
            if entry is None and pattern:
                message = "the record names no topic, and the source has a topic pattern"
                yield at("FLOE-C425", message, record, path, "add `topic:` with a name that the pattern matches")
            elif entry and topic and pattern and not compiled(pattern).is_within(topic):
                message = f"the source's pattern does not match the topic `{topic}`"
                yield at("FLOE-C425", message, entry.value, (*path, "topic"), "name a topic that it matches")
            elif entry and topic and topics and topic not in topics:
                message = f"the source does not read the topic `{topic}`"
                hint = did_you_mean(topic, topics)
                yield at("FLOE-C425", message, entry.value, (*path, "topic"), f"use {listed(topics)}", hint)


def given_types(document: Document) -> Iterator[Diagnostic]:
    """The columns of a table that is given have types that it could have."""
    for test, _ in document.items("tests"):
        for table in document.mapping(*test, "given", "tables"):
            for column in document.mapping(*test, "given", "tables", table.key, "schema"):
                path = (*test, "given", "tables", table.key, "schema", column.key)
                text, node = document.text(*path), document.node(*path)
                if text is None or node is None or "<" not in text:
                    continue
                try:
                    structure(text)
                except ValueError:
                    found = nested_type(text)
                    yield at(found.code, found.message, node, path, found.remedy)


RULES: tuple[Rule, ...] = (records_have_one_value, records_are_of_the_source, given_types)
