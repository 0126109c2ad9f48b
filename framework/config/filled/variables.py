"""The variables of a file: declared with a type, given by the target or on the command line.

In: the `variables:` node of a pipeline file, the target's values and those of `--var`. Out: a value per variable, of
its declared type, or diagnostics. Order of precedence: `--var`, then the target, then the default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as Mapped
from dataclasses import dataclass

from framework.config.tree import Mapping, Node, Scalar, ScalarValue, Sequence, plain
from framework.config.values.value_kinds import show
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.suggest import did_you_mean, listed

Value = ScalarValue | list[ScalarValue]
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "list": "a list",
}


@dataclass(frozen=True)
class Declared:
    """One variable of a pipeline, or one parameter of a template."""

    name: str
    type: str
    span: Span
    description: str = ""
    default: Value = None
    has_default: bool = False
    choices: tuple[ScalarValue, ...] = ()


def declarations(node: Node | None) -> tuple[Declared, ...]:
    """The declared variables; a malformed one is left out, since the schema speaks of it."""
    if not isinstance(node, Mapping):
        return ()
    found = []
    for entry in node.entries:
        value = entry.value
        if not isinstance(value, Mapping):
            found.append(
                Declared(entry.key, _type_of(plain(value)), entry.key_span, default=plain(value), has_default=True)
            )
            continue
        default, kind = value.get("default"), value.get("type")
        name = (
            kind.value if isinstance(kind, Scalar) else (_type_of(plain(default)) if default is not None else "string")
        )
        description, choices = value.get("description"), value.get("choices")
        found.append(
            Declared(
                entry.key,
                str(name),
                entry.key_span,
                str(description.value) if isinstance(description, Scalar) else "",
                plain(default) if default is not None else None,
                default is not None,
                tuple(plain(choices)) if isinstance(choices, Sequence) else (),
            )
        )
    return tuple(found)


def values_of(
    declared: tuple[Declared, ...],
    target: Mapping | None,
    given: Mapped[str, str],
    offline: bool,
) -> tuple[dict[str, Value], list[Diagnostic], frozenset[str]]:
    """The value of every variable, what is wrong, and the names that have no value here (only when `offline`)."""
    values: dict[str, Value] = {}
    findings: list[Diagnostic] = []
    open_names: set[str] = set()
    for entry in target.entries if target else ():
        values[entry.key] = plain(entry.value)
    for variable in declared:
        where, place = variable.span, f"the variable `{variable.name}`"
        if variable.name in given:
            value, fits = _from_text(given[variable.name], variable.type)
            place = f"`--var {variable.name}`"
        elif target is not None and (entry_ := target.entry(variable.name)) is not None:
            value, fits, where = plain(entry_.value), fits_type(plain(entry_.value), variable.type), entry_.value.span
        elif variable.has_default:
            value, fits = variable.default, fits_type(variable.default, variable.type)
        else:
            open_names.add(variable.name)
            if not offline:
                remedy = f"give it with `--var {variable.name}=VALUE`, in the target's `variables:`, or as a `default:`"
                findings.append(
                    Diagnostic(
                        "FLOE-C308", f"{place} has no value", where, path=f"variables.{variable.name}", remedy=remedy
                    )
                )
            continue
        findings.extend(check_value(variable, value, fits, where, place))
        values[variable.name] = value
    for name in given:
        if name not in values and name not in open_names:
            values[name] = given[name]
    return values, findings, frozenset(open_names)


def unknown_variable(name: str, known: list[str]) -> Diagnostic:
    """The finding for a name that `--var` gives and nobody declares."""
    span = Span("--var", 1, 1, 1, len(name) + 1)
    remedy = (
        f"declared are {listed(sorted(known), 'and')}"
        if known
        else "declare it under `variables:` in the pipeline file"
    )
    return Diagnostic(
        "FLOE-C309",
        f"no file declares the variable `{name}`",
        span,
        hint=did_you_mean(name, known),
        remedy=remedy,
        excerpt=name,
    )


def check_value(variable: Declared, value: Value, fits: bool, where: Span, place: str) -> list[Diagnostic]:
    """Whether a value is of the variable's type and among its choices."""
    if not fits:
        message = f"{place} must be {_WORDS.get(variable.type, variable.type)}, not {_shown(value)}"
        return [
            Diagnostic(
                "FLOE-C307",
                message,
                where,
                path=f"variables.{variable.name}",
                remedy="put quotes around it"
                if variable.type == "string" and not isinstance(value, list)
                else f"give it {_WORDS[variable.type]}",
            )
        ]
    values = value if isinstance(value, list) else [value]
    wrong = [item for item in values if variable.choices and item not in variable.choices]
    if wrong:
        words = [str(choice) for choice in variable.choices]
        message = f"{show(wrong[0])} is not one of the choices of {place}"
        return [
            Diagnostic(
                "FLOE-C307",
                message,
                where,
                path=f"variables.{variable.name}",
                hint=did_you_mean(str(wrong[0]), words),
                remedy=f"use {listed(words)}",
            )
        ]
    return []


def _shown(value: Value) -> str:
    return f"the list `{json.dumps(value)}`" if isinstance(value, list) else show(value)


def fits_type(value: object, kind: str) -> bool:
    """Whether a YAML value is of a declared type; a type that does not exist is the schema's to speak of."""
    if kind not in _WORDS:
        return True
    if kind == "list":
        return isinstance(value, list)
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "number":
        return isinstance(value, (int, float))
    return isinstance(value, int if kind == "integer" else str)


def _from_text(text: str, kind: str) -> tuple[Value, bool]:
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()], True
    if kind == "boolean":
        return text == "true", text in ("true", "false")
    try:
        if kind == "integer":
            return int(text), True
        if kind == "number":
            return float(text), True
    except ValueError:
        return text, False
    return text, True


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "list" if isinstance(value, list) else "string"
