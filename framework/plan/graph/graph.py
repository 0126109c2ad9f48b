"""Plans as a picture: topics, pipelines and tables, and what flows from one to the next.

In: plans. Out: a `Graph`, which is plain data in the order of the files. A table that several pipelines fill is one
node; a table whose name comes from the record is one node too, with the name as the rule writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from framework.config.spec import ErrorPolicy, RouteCondition
from framework.plan.catalogs import shown_table
from framework.plan.model import Plan


class NodeKind(str, Enum):
    """The three columns of the picture; dead letters stand among the tables."""

    TOPIC = "topic"
    PIPELINE = "pipeline"
    TABLE = "table"
    DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True)
class GraphNode:
    kind: NodeKind
    name: str


@dataclass(frozen=True)
class GraphEdge:
    """`label` says when records take this way; empty: always."""

    start: GraphNode
    end: GraphNode
    label: str = ""


@dataclass(frozen=True)
class Graph:
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph_of(plans: Iterable[Plan]) -> Graph:
    """Every topic, pipeline and table of the plans, each once, and the ways between them."""
    edges = tuple(dict.fromkeys(edge for plan in plans for edge in _edges(plan)))
    nodes = tuple(dict.fromkeys(node for edge in edges for node in (edge.start, edge.end)))
    return Graph(nodes, edges)


def _edges(plan: Plan) -> Iterator[GraphEdge]:
    pipeline = GraphNode(NodeKind.PIPELINE, plan.pipeline)
    for topic in plan.read.topics or (f"/{plan.read.topic_pattern}/",):
        yield GraphEdge(GraphNode(NodeKind.TOPIC, topic), pipeline)
    for rule in plan.route.rules:
        yield GraphEdge(pipeline, GraphNode(NodeKind.TABLE, shown_table(plan, rule.table)), condition_text(rule.when))
    tables = plan.write.tables
    for history in tables.histories:
        end = GraphNode(NodeKind.TABLE, tables.full_name(history.table))
        yield GraphEdge(pipeline, end, f"every change of {tables.full_name(history.of)}")
    if plan.write.dead_letter_table and ErrorPolicy.DEAD_LETTER in (plan.write.errors, plan.route.unrouted):
        yield GraphEdge(pipeline, GraphNode(NodeKind.DEAD_LETTERS, plan.write.dead_letter_table), "cannot be written")


def condition_text(when: RouteCondition | None) -> str:
    """A rule's condition in a few characters; empty where it always holds."""
    if when is None:
        return ""
    parts = [] if when.topic is None else [f"topic ~ {when.topic}"]
    if when.matches is not None:
        parts.append(f"{when.field} ~ {when.matches}")
    elif when.one_of:
        parts.append(f"{when.field} in {', '.join(map(str, when.one_of))}")
    elif when.exists is not None:
        parts.append(f"{when.field} {'exists' if when.exists else 'is not there'}")
    elif when.field is not None:
        parts.append(f"{when.field} = {when.equals}")
    parts += [condition_text(each) for each in when.all_of]
    if when.negated is not None:
        parts.append(f"not ({condition_text(when.negated)})")
    return " and ".join(parts)
