"""A tree as YAML text, with or without the place of each line.

In: a tree and the files it came from. Out: lines of block-style YAML that read back as the same values. With `trace`,
each line ends with a comment that names the file and line it was written in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from framework.config.document import Files
from framework.config.tree import Mapping, Node, Scalar, ScalarValue, Sequence, core_value
from framework.diagnose.diagnostic import Span

_PLAIN = re.compile(r"[A-Za-z_/^.][A-Za-z0-9_./*^() -]*\Z")
_Line = tuple[str, Span]


def to_yaml(tree: Node, files: Files, trace: bool = False) -> str:
    """The tree as text that ends with a line end."""
    lines = list(_block(tree, ""))
    if not trace:
        return "".join(f"{text}\n" for text, _ in lines)
    width = min(max((len(text) for text, _ in lines), default=0), 80)
    places = [files.locate(span) for _, span in lines]
    return "".join(
        f"{text:<{width}}  # {place.file}:{place.line}\n" for (text, _), place in zip(lines, places, strict=True)
    )


def _block(node: Node, indent: str) -> Iterator[_Line]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            key = f"{indent}{_scalar(entry.key)}:"
            if _is_block(entry.value):
                yield key, entry.key_span
                yield from _block(entry.value, indent + "  ")
            else:
                yield f"{key} {_inline(entry.value)}", entry.value.span
    elif isinstance(node, Sequence):
        for item in node.items:
            if _is_block(item):
                lines = _block(item, indent + "  ")
                first, span = next(lines)
                yield f"{indent}- {first[len(indent) + 2 :]}", span
                yield from lines
            else:
                yield f"{indent}- {_inline(item)}", item.span
    else:
        yield f"{indent}{_inline(node)}", node.span


def _is_block(node: Node) -> bool:
    return bool(node.entries) if isinstance(node, Mapping) else isinstance(node, Sequence) and bool(node.items)


def _inline(node: Node) -> str:
    if isinstance(node, Scalar):
        return _scalar(node.value)
    return "{}" if isinstance(node, Mapping) else "[]"


def _scalar(value: ScalarValue) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if core_value(value) == value and _PLAIN.match(value) and not value.endswith(" "):
        return value
    return json.dumps(value, ensure_ascii=False)
