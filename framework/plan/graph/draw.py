"""A graph of pipelines as text that draws: Mermaid for pages, DOT for Graphviz, SVG for a browser.

In: a `Graph`. Out: one text. Names come from files and may hold anything, so each form escapes them in its own way.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from framework.plan.graph.graph import Graph, GraphNode, NodeKind

FORMATS = ("mermaid", "dot", "svg")

_COLUMNS = {NodeKind.TOPIC: 0, NodeKind.PIPELINE: 1, NodeKind.TABLE: 2, NodeKind.DEAD_LETTERS: 2}
_MERMAID_SHAPES = {
    NodeKind.TOPIC: '{0}[/"{1}"/]',
    NodeKind.PIPELINE: '{0}("{1}")',
    NodeKind.TABLE: '{0}[("{1}")]',
    NodeKind.DEAD_LETTERS: '{0}[("{1}")]:::dead',
}
_DOT_SHAPES = {
    NodeKind.TOPIC: "shape=parallelogram",
    NodeKind.PIPELINE: 'shape=box, style="rounded,bold"',
    NodeKind.TABLE: "shape=cylinder",
    NodeKind.DEAD_LETTERS: "shape=cylinder, style=dashed",
}
_FILLS = {
    NodeKind.TOPIC: "#e8f0fb",
    NodeKind.PIPELINE: "#ffffff",
    NodeKind.TABLE: "#e9f5ec",
    NodeKind.DEAD_LETTERS: "#fbeeea",
}
_ROW, _BOX_HEIGHT, _MARGIN = 44, 30, 16
_CHARACTER = 7.3  # the width of one character of the 12 px monospaced font, in px


def draw(graph: Graph, format: str) -> str:
    """The graph in one of `FORMATS`."""
    lines = {"mermaid": _mermaid, "dot": _dot, "svg": _svg}[format](graph)
    return "\n".join(lines) + "\n"


def _mermaid(graph: Graph) -> Iterator[str]:
    ids = _ids(graph)
    yield "flowchart LR"
    for node in graph.nodes:
        yield "  " + _MERMAID_SHAPES[node.kind].format(ids[node], _mermaid_text(node.name))
    for edge in graph.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        yield f"  {ids[edge.start]} -->{label} {ids[edge.end]}"
    if any(node.kind is NodeKind.DEAD_LETTERS for node in graph.nodes):
        yield "  classDef dead stroke-dasharray: 4 3"


def _mermaid_text(text: str) -> str:
    """Within quotes, Mermaid wants these by their number: quotes end the text, the others begin markup or an escape."""
    return "".join(f"#{ord(char)};" if char in '"#<>&`\\*\n' else char for char in text)


def _dot(graph: Graph) -> Iterator[str]:
    ids = _ids(graph)
    yield "digraph floe {"
    yield '  rankdir=LR; node [fontname="monospace"]; edge [fontname="monospace", fontsize=10];'
    for node in graph.nodes:
        yield f"  {ids[node]} [label={_dot_text(node.name)}, {_DOT_SHAPES[node.kind]}];"
    for edge in graph.edges:
        yield f"  {ids[edge.start]} -> {ids[edge.end]}" + (f" [label={_dot_text(edge.label)}];" if edge.label else ";")
    yield "}"


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _svg(graph: Graph) -> Iterator[str]:
    """Three columns, each as wide as its longest name; labels stand on the lines, near the table."""
    columns: list[list[GraphNode]] = [[], [], []]
    for node in graph.nodes:
        columns[_COLUMNS[node.kind]].append(node)
    widths = [max((_width(node.name) for node in column), default=0.0) for column in columns]
    label_width = max((_width(edge.label) for edge in graph.edges), default=0.0)
    gaps = (60.0, max(60.0, label_width + 30))
    lefts = [_MARGIN, _MARGIN + widths[0] + gaps[0], _MARGIN + widths[0] + gaps[0] + widths[1] + gaps[1]]
    height = _MARGIN * 2 + _ROW * max((len(column) for column in columns), default=0)
    width = lefts[2] + widths[2] + _MARGIN
    middle = {
        node: height / 2 + (row - (len(column) - 1) / 2) * _ROW for column in columns for row, node in enumerate(column)
    }
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="monospace" font-size="12">'
    )
    yield '<rect width="100%" height="100%" fill="white"/>'
    for edge in graph.edges:
        column = _COLUMNS[edge.start.kind]
        x1, x2 = lefts[column] + widths[column], lefts[column + 1]
        y1, y2 = middle[edge.start], middle[edge.end]
        half = x1 + 30
        yield f'<path d="M{x1:.0f} {y1:.0f} C{half:.0f} {y1:.0f} {x1:.0f} {y2:.0f} {x1 + 40:.0f} {y2:.0f} H{x2:.0f}" '
        yield 'fill="none" stroke="#8a94a0"/>'
        if edge.label:
            yield f'<text x="{x2 - 8:.0f}" y="{y2 - 5:.0f}" text-anchor="end" fill="#56606b" font-size="11">'
            yield f"{html.escape(edge.label)}</text>"
    for node in graph.nodes:
        column = _COLUMNS[node.kind]
        x, y = lefts[column], middle[node]
        dashed = ' stroke-dasharray="4 3"' if node.kind is NodeKind.DEAD_LETTERS else ""
        yield (
            f'<rect x="{x:.0f}" y="{y - _BOX_HEIGHT / 2:.0f}" width="{widths[column]:.0f}" height="{_BOX_HEIGHT}" rx="5" '
            f'fill="{_FILLS[node.kind]}" stroke="#56606b"{dashed}/>'
        )
        yield f'<text x="{x + widths[column] / 2:.0f}" y="{y + 4:.0f}" text-anchor="middle">{html.escape(node.name)}</text>'
    yield "</svg>"


def _width(text: str) -> float:
    return len(text) * _CHARACTER + 20


def _ids(graph: Graph) -> dict[GraphNode, str]:
    return {node: f"n{number}" for number, node in enumerate(graph.nodes, start=1)}
