"""Plain values as YAML that reads back as the same values: on one line, or tables of a test over several lines.

In: what `framework.testing.values` shows. Out: text. Text that YAML, a reference or a template would take for something
else is quoted or escaped.
"""

from __future__ import annotations

import json
import re

from framework.config.tree import core_value
from framework.testing.values import Plain

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
# Also what YAML takes for the end of a line.
_UNPRINTABLE = re.compile("[^\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue100-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_TEMPLATE = re.compile(r"(?<=\{)[{%#]|(?<=#)%")


def flow(value: Plain) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, str):
        return _yaml_scalar(value)
    return json.dumps(value)


def block(value: Plain, column: int) -> str:
    """A value that begins at a column (from 0): mappings of mappings and lists over several lines, the rest on one."""
    indent = "\n" + " " * column
    if isinstance(value, dict) and any(_is_large(inner) for inner in value.values()):
        return indent.join(
            f"{flow(str(key))}:{indent}  {block(inner, column + 2)}"
            if _is_large(inner)
            else f"{flow(str(key))}: {flow(inner)}"
            for key, inner in value.items()
        )
    if _is_large(value) and isinstance(value, list):
        return indent.join(f"- {flow(item)}" for item in value)
    return flow(value)


def _is_large(value: Plain) -> bool:
    """Whether a value is worth several lines: a list of mappings, or a mapping that holds such."""
    if isinstance(value, dict):
        return any(isinstance(inner, (dict, list)) and inner for inner in value.values())
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _yaml_scalar(value: str) -> str:
    if _PLAIN.match(value) and core_value(value) == value:
        return value
    quoted = json.dumps(value.replace("${", "$${"), ensure_ascii=False)
    quoted = _TEMPLATE.sub(lambda found: f"\\x{ord(found[0]):02x}", quoted)
    return _UNPRINTABLE.sub(_escape, quoted)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
