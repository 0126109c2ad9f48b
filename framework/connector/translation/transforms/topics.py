"""What transforms make of the names of topics, and which topics a predicate takes.

In: a step and the shape of the records before it. Out: the shape with other names, without the topics that a filter
drops; or whether the step is applied at all. Names are known only where the connector lists its topics.
"""

from __future__ import annotations

import re
from dataclasses import replace

from framework.config.names.patterns import compiled
from framework.connector.translation.transforms.chain import ConnectTransform
from framework.connector.translation.transforms.record_shape import RecordShape
from framework.connector.translation.untranslatable import PARTIAL, Untranslatable, same_regex


def applies(step: ConnectTransform, shape: RecordShape) -> bool:
    """Whether the step takes the records that have a value.

    Raises:
        Untranslatable: it takes only some of them.
    """
    predicate = step.predicate
    if predicate is None:
        return True
    if predicate.kind == "RecordIsTombstone":
        return step.is_negated
    if predicate.kind == "TopicNameMatches":
        taken = _matching(step, shape)
        if step.is_negated:
            taken = set(shape.topics or ()) - taken
        if taken and len(taken) < len(shape.topics or ()):
            step.refuse(
                "predicate",
                f"it is applied to the topics {', '.join(sorted(taken))} alone",
                "import the topics with a configuration each",
            )
        return bool(taken)
    return step.refuse("predicate", "a rule of floe's cannot ask whether a record has a header")


def left_of(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """The records behind a filter by topic: its topics are not read at all.

    Raises:
        Untranslatable: no topic would be left.
    """
    taken = _matching(step, shape)
    topics = shape.topics or {}
    if step.is_negated:
        taken = set(topics) - taken
    if len(taken) == len(topics):
        step.refuse("predicate", "it drops every record", "take the transform out")
    return replace(shape, topics={topic: name for topic, name in topics.items() if topic not in taken})


def _matching(step: ConnectTransform, shape: RecordShape) -> set[str]:
    assert step.predicate is not None
    key, pattern = f"predicates.{step.predicate.name}.pattern", step.predicate.options.get("pattern", "")
    if shape.topics is None or None in shape.topics.values():
        raise Untranslatable(key, "the names of the topics are not known here", f"list them in `topics`, or: {PARTIAL}")
    matches = compiled(same_regex(key, pattern)).is_all_of
    return {topic for topic, name in shape.topics.items() if matches(str(name))}


def regex_router(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    return _renamed(step, shape, "regex", "replacement")


def logical_table(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """Debezium's router; what it adds goes into keys."""
    return _renamed(step, shape, "topic.regex", "topic.replacement")


def routed_by_time(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    return replace(shape, topics=None if shape.topics is None else dict.fromkeys(shape.topics), is_rerouted=True)


def _renamed(step: ConnectTransform, shape: RecordShape, regex: str, replacement: str) -> RecordShape:
    pattern, text = step.options.get(regex, ""), step.options.get(replacement, "")
    same_regex(step.key(regex), pattern)  # Python's, below, says the same of what is let through here
    if shape.topics is None:
        return replace(shape, is_rerouted=True)
    try:
        names = {topic: None if name is None else _routed(pattern, text, name) for topic, name in shape.topics.items()}
    except (re.error, IndexError) as error:
        step.refuse(regex, f"`{pattern}` with `{text}` cannot be run here: {error}", "write it with plain groups")
    return replace(shape, topics=names, is_rerouted=shape.is_rerouted or names != dict(shape.topics))


def _routed(pattern: str, replacement: str, topic: str) -> str:
    """Java's `replaceFirst`, for a topic that the whole pattern matches."""
    expression = re.compile(re.sub(r"\(\?<([A-Za-z])", r"(?P<\1", pattern))
    if expression.fullmatch(topic) is None:
        return topic
    found = expression.search(topic)
    assert found is not None

    def part(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return found[match[2] or int(match[3])] or ""

    text = re.sub(r"\\(.)|\$\{(\w+)\}|\$(\d)", part, replacement)
    return topic[: found.start()] + text + topic[found.end() :]
