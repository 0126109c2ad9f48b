"""Rules about routes: what may be reached, what can never be reached, where dead letters go."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from framework.config.names.patterns import compiled, groups
from framework.config.rules.create import column_kind
from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.tree import Entry, Mapping, Node, Path, Scalar, plain
from framework.diagnose.diagnostic import Diagnostic, Severity
from framework.diagnose.suggest import did_you_mean
from framework.errors import ConfigError

_TESTS = ("equals", "in", "matches", "exists")


def condition_is_whole(document: Document) -> Iterator[Diagnostic]:
    """A condition tests one field, in one way, or the topic, or both; further fields stand in `and` and `not`."""
    for path, rule in document.items("routes", "rules"):
        when = rule.entry("when") if isinstance(rule, Mapping) else None
        if when is not None:
            yield from _whole(document, when, (*path, "when"))


def _whole(document: Document, condition: Entry | Node, where: Path) -> Iterator[Diagnostic]:
    node = condition.value if isinstance(condition, Entry) else condition
    if not isinstance(node, Mapping) or not document.sound(*where):
        return
    keys = node.keys
    tests = [key for key in _TESTS if key in keys]
    if "field" in keys and not tests:
        message, remedy = "the condition names a field but does not say what it must be", "add `equals:` or `matches:`"
        yield at("FLOE-C408", message, condition, where, remedy)
    elif len(tests) > 1:
        remedy = f"keep one of them; if both must hold, put the other one under `and:`: `and: [{{field: ..., {tests[1]}: ...}}]`"
        yield at("FLOE-C408", f"`{tests[0]}` and `{tests[1]}` are both given", condition, where, remedy)
    elif tests and "field" not in keys:
        yield at("FLOE-C408", f"`{tests[0]}` needs to know which field", condition, where, "add `field:`")
    if (negated := node.entry("not")) is not None:
        yield from _whole(document, negated, (*where, "not"))
    for place, item in document.items(*where, "and"):
        yield from _whole(document, item, place)


_NAMESPACE = re.compile(r"(?:[^.{]|\{[^{}]*\})*")
_TOPIC_PART = re.compile(r"\{topic\.([A-Za-z_][A-Za-z0-9_]*)\}")


def topic_parts_are_named(document: Document) -> Iterator[Diagnostic]:
    """A part of the topic in a table's name is a group of the rule's own pattern for topics."""
    for path, _ in document.items("routes", "rules"):
        where = (*path, "table")
        table, node = document.text(*where), document.node(*where)
        if table is None or node is None or "{topic." not in table or not document.sound(*where):
            continue
        pattern = document.text(*path, "when", "topic")
        known = groups(pattern) if pattern is not None else frozenset()
        # Without a pattern it is a field of the record, which no namespace is made of.
        asked = table if pattern is not None else _NAMESPACE.findall(table)[0]
        for name in _TOPIC_PART.findall(asked):
            if name not in known:
                yield at(
                    "FLOE-C474",
                    f"`{{topic.{name}}}` is no part of the topic: `when.topic` has no group `{name}`",
                    node,
                    where,
                    f"name it in the rule's pattern: `when: {{topic: '(?P<{name}>[^.]+)'}}`",
                    did_you_mean(name, sorted(known)),
                )


def values_can_be_equal(document: Document) -> Iterator[Diagnostic]:
    """What a field is compared with is of the field's kind, where that is declared: `"5"` is never 5, nor `"true"` true."""
    if document.entry("transform", "sql"):
        return  # rules look at what it gives
    conditions = [
        each for path, _ in document.items("routes", "rules") for each in _conditions(document, (*path, "when"))
    ]
    places = [((*path, "field"), (*path, "equals")) for path in conditions]
    places += [((*path, "field"), value) for path in conditions for value, _ in document.items(*path, "in")]
    deletes = [(*policy, "write", "delete_when") for policy in table_policies(document)]
    places += [((*path, "field"), (*path, "equals")) for path in deletes]
    for field_path, path in places:
        field, node = document.text(*field_path), document.node(*path)
        if field is None or not isinstance(node, Scalar) or not document.sound(*path):
            continue
        kind = column_kind(document, field)
        wanted = next((name for name, kinds in _KINDS.items() if kind in kinds), None)
        found = _kind_of(node.value)
        if wanted is not None and found is not None and wanted != found:
            meant = {"text": json.dumps(str(plain(node))), "true or false": "true", "a number": "5"}[wanted]
            yield at(
                "FLOE-C473",
                f"`{field}` is declared `{kind}`, and is compared with {found}: they are never equal",
                node,
                path,
                f"write {wanted}, such as `equals: {meant}`, or declare another type",
            )


def _conditions(document: Document, path: Path) -> Iterator[Path]:
    """The places of a condition and of all in it."""
    yield path
    if document.entry(*path, "not") is not None:
        yield from _conditions(document, (*path, "not"))
    for item, _ in document.items(*path, "and"):
        yield from _conditions(document, item)


_KINDS = {
    "true or false": ("boolean",),
    "a number": ("int", "long", "float", "double", "decimal"),
    "text": ("string",),
}


def _kind_of(value: object) -> str | None:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else None


def reachable(document: Document) -> Iterator[Diagnostic]:
    """With first_match, a rule after one without `when`, or with the same `when` as an earlier one, is never used."""
    if document.text("routes", "mode") not in (None, "first_match"):
        return
    seen: dict[str, int] = {}
    everything: int | None = None
    for path, rule in document.items("routes", "rules"):
        if not isinstance(rule, Mapping):
            continue
        when = rule.get("when")
        if not document.sound(*path, "when"):
            continue
        # A text of it, so that each rule is looked up and not compared with all before.
        condition = json.dumps(plain(when), sort_keys=True, default=repr) if when else None
        if condition in seen:
            line, why, remedy = seen[condition], "has the same condition", "remove one of them"
        elif everything is not None:
            line, why, remedy = everything, "takes every record", "move it before that rule"
        elif condition is None:
            everything = rule.span.line
            continue
        else:
            seen[condition] = rule.span.line
            continue
        yield at(
            "FLOE-C402",
            f"this rule is never used: the rule on line {line} {why}",
            rule,
            path,
            f"{remedy}, or use `mode: all_match`",
        )


def confined(document: Document) -> Iterator[Diagnostic]:
    """Every table lies inside `allow_tables`; a name that a record takes part in needs `allow_tables` at all."""
    allowed_node = document.entry("routes", "allow_tables")
    globs = document.texts("routes", "allow_tables")
    dynamic = False
    for path, _ in document.items("routes", "rules"):
        where = (*path, "table")
        table, node = document.text(*where), document.node(*where)
        if table is None or node is None:
            continue
        if "{" in table:
            dynamic = True
            prefix = table.split("{")[0]
            if allowed_node is None:
                namespace = "NAMESPACE" if "{" in table.split(".")[0] else table.split(".")[0]
                remedy = f'add `allow_tables: ["{namespace}.*"]` to `routes`'
                yield at(
                    "FLOE-C403",
                    f"`{table}` lets records choose any table",
                    node,
                    where,
                    remedy,
                )
            elif globs and not any(may_meet(document, prefix, glob) for _, glob in globs):
                yield at(
                    "FLOE-C404",
                    f"no table of `{table}` can be inside `allow_tables`",
                    node,
                    where,
                    f'add "{prefix}*" to `allow_tables`',
                )
        elif globs and not any(document.names_match(table, glob) for _, glob in globs):
            yield at(
                "FLOE-C404", f"`{table}` is not inside `allow_tables`", node, where, f'add "{table}" to `allow_tables`'
            )
    for path, glob in globs if dynamic else ():
        item = document.node(*path)
        if item is not None and "." not in re.split(r"[*?]", glob)[0]:
            yield at(
                "FLOE-C403",
                f"`{glob}` lets records choose any namespace",
                item,
                path,
                "begin with a literal namespace, such as `rpc.*`",
            )


def may_meet(document: Document, prefix: str, glob: str) -> bool:
    """Whether some name that begins with `prefix` can match the glob."""
    literal = re.split(r"[*?]", glob)[0]
    if document.names_match(prefix, f"{literal}*"):
        return True
    return document.names_match(literal, f"{prefix}?*") or document.names_match(prefix, glob)


def dead_letters_have_a_home(document: Document) -> Iterator[Diagnostic]:
    """Dead letters need a table of their own."""
    if document.entry("errors") is None and document.entry("routes") is None:
        return  # without routes nothing is sent anywhere, and that they are missing is said
    home = document.entry("errors", "dead_letter_table")
    wanting = []
    errors_mapping = document.node("errors")
    policy, unrouted = document.text("errors", "policy"), document.text("routes", "unrouted")
    if policy == "dead_letter" or (policy is None and document.entry("errors", "policy") is None):
        wanting.append(("errors.policy", policy is not None))
    if unrouted == "dead_letter" or (unrouted is None and document.entry("routes", "unrouted") is None):
        wanting.append(("routes.unrouted", unrouted is not None))
    for stage in document.mapping("errors", "stages"):
        if document.text("errors", "stages", stage.key) == "dead_letter":
            wanting.append((f"errors.stages.{stage.key}", True))
    if home is None and wanting and (errors_mapping is None or isinstance(errors_mapping, Mapping)):
        place = document.entry("errors") or document.entry("routes")
        assert place is not None
        said = " and ".join(f"`{name}`{'' if written else ' (by default)'}" for name, written in wanting)
        verb = "send" if len(wanting) > 1 else "sends"
        message = f"{said} {verb} records to the dead-letter table, but none is named"
        yield at(
            "FLOE-C405",
            message,
            place,
            ("errors", "dead_letter_table"),
            f"add `errors: {{dead_letter_table: {_namespace(document)}.dead_letters}}`, or choose `drop` or `fail`",
        )
    name = document.text("errors", "dead_letter_table")
    for path, _ in document.items("routes", "rules"):
        table, node = document.text(*path, "table"), document.node(*path, "table")
        if name and table == name and node is not None:
            yield at(
                "FLOE-C416",
                f"`{name}` is the dead-letter table and cannot hold records too",
                node,
                (*path, "table"),
                "choose another table",
            )


def dead_letter_topic_is_apart(document: Document) -> Iterator[Diagnostic]:
    """The dead-letter topic is fed from the dead-letter table's files, and the pipeline does not read it itself."""
    path = ("errors", "dead_letter_topic")
    topic, node = document.text(*path), document.node(*path)
    if topic is None or node is None:
        return
    if document.entry("errors", "dead_letter_table") is None:
        yield at(
            "FLOE-C426",
            "a dead-letter topic is given, but no dead-letter table",
            node,
            path,
            f"add `dead_letter_table: {_namespace(document)}.dead_letters`: the topic gets what the table gets",
        )
    topics = [topic for _, topic in document.texts("source", "kafka", "topics")]
    pattern = document.text("source", "kafka", "topic_pattern")
    try:
        is_source = topic in topics or (pattern is not None and compiled(pattern).is_within(topic))
    except ConfigError:
        return
    if is_source:
        yield at(
            "FLOE-C426",
            f"the pipeline reads `{topic}`, so its dead letters would come back to it for ever",
            node,
            path,
            "choose a topic that the source does not read",
        )


def _namespace(document: Document) -> str:
    """The literal namespace of the first table, for a remedy that can be copied."""
    tables = [document.text(*path, "table") for path, _ in document.items("routes", "rules")]
    return next(
        (table.rpartition(".")[0] for table in tables if table and "{" not in table.rpartition(".")[0]), "namespace"
    )


def topic_can_match(document: Document) -> Iterator[Diagnostic]:
    """A condition on the topic can be met by at least one of the topics that are named."""
    topics = [topic for _, topic in document.texts("source", "kafka", "topics")]
    for path, _ in document.items("routes", "rules"):
        where = (*path, "when", "topic")
        pattern, node = document.text(*where), document.node(*where)
        if not topics or pattern is None or node is None or _unresolved_topics(document):
            continue
        try:
            found = any(compiled(pattern).is_within(topic) for topic in topics)
        except ConfigError:
            continue
        if not found:
            yield at(
                "FLOE-C421",
                f"no topic of this pipeline matches `{pattern}`",
                node,
                where,
                "correct the expression, or add the topic",
                severity=Severity.WARNING,
            )


def _unresolved_topics(document: Document) -> bool:
    return any(path[:3] == ("source", "kafka", "topics") for path in document.unresolved)


RULES: tuple[Rule, ...] = (
    condition_is_whole,
    topic_parts_are_named,
    values_can_be_equal,
    reachable,
    confined,
    dead_letters_have_a_home,
    dead_letter_topic_is_apart,
    topic_can_match,
)
