"""References in string values: `${var.NAME}`, `${env:NAME}`, `${local:NAME}`, `${secret:SCHEME:NAME}`.

In: a tree and what the names stand for. Out: the tree with values in place of references, and the paths of leaves whose
reference could not be resolved. References live in values only, never in keys, and are resolved after parsing, so that
no value can change a file's structure. A secret is left as its reference and never read here. `$${` stands for `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field
from operator import is_

from framework.config.filled.variables import Value
from framework.config.tree import Entry, Mapping, Node, Path, Scalar, Sequence, dotted
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Severity, Span
from framework.diagnose.suggest import did_you_mean, listed

_REFERENCE = re.compile(
    r"\$\$\{|\$\{([^}]*)\}|\$\{[^}]*"
)  # one that is not closed takes the rest: no later one is closed
_NAMED = re.compile(r"(var|param)\.([A-Za-z_][A-Za-z0-9_]*)\Z|(env|local):([A-Za-z_][A-Za-z0-9_]*)\Z")
_SECRET = re.compile(r"\$\{secret:([a-z][a-z0-9_-]*):([^}]+)\}\Z")
_FORMS = (
    "write `${var.NAME}`, `${env:NAME}`, `${local:NAME}`, `${secret:env:NAME}` or `${secret:file:/path}`;"
    " `$${` stands for `${`"
)


@dataclass(frozen=True)
class Scope:
    """What references may name. `open_variables` are declared but have no value here; `secrets` says where they may
    stand."""

    world: World
    variables: Mapped[str, Value]
    open_variables: frozenset[str] = frozenset()
    secrets: bool = False
    environment: frozenset[str] | None = None  # what `${env:NAME}` may read; None: all, for a target's own file
    kind: str = "var"  # "param": only `${param.NAME}` is resolved; everything else is left for the pipeline


@dataclass
class _State:
    scope: Scope
    findings: list[Diagnostic] = field(default_factory=list)
    unresolved: set[Path] = field(default_factory=set)


def resolve(tree: Node, scope: Scope) -> tuple[Node, list[Diagnostic], frozenset[Path]]:
    """The tree with references resolved, what is wrong with them, and the leaves that stay as they were."""
    state = _State(scope)
    result = _walk(tree, (), state)
    return result, state.findings, frozenset(state.unresolved)


def secret_of(text: str) -> tuple[str, str] | None:
    """("env", "NAME") for `${secret:env:NAME}`; None for other text."""
    match = _SECRET.match(text)
    return (match[1], match[2]) if match else None


def _walk(node: Node, path: Path, state: _State) -> Node:
    if isinstance(node, Mapping):
        entries: list[Entry] | None = None
        for index, (key, key_span, value) in enumerate(node.entries):
            if "${" in key:
                remedy = "write the key out; references are for values"
                message = f"the key `{key}` holds a reference"
                state.findings.append(Diagnostic("FLOE-C312", message, key_span, path=dotted(path), remedy=remedy))
            if isinstance(value, Scalar) and not (isinstance(value.value, str) and "${" in value.value):
                continue
            walked = _walk(value, (*path, key), state)
            if walked is not value:
                entries = entries or list(node.entries)
                entries[index] = Entry(key, key_span, walked)
        return Mapping(tuple(entries), node.span) if entries else node
    if isinstance(node, Sequence):
        items = tuple([_walk(item, (*path, index), state) for index, item in enumerate(node.items)])
        return node if all(map(is_, items, node.items)) else Sequence(items, node.span)
    if isinstance(node.value, str) and "${" in node.value:
        return _leaf(node, path, state)
    return node


def _leaf(node: Scalar, path: Path, state: _State) -> Node:
    text = str(node.value)
    if state.scope.kind == "param" and "${param" not in text:
        return node
    secret = secret_of(text)
    if secret:
        finding = _secret_finding(*secret, node.span, path, state.scope)
        if finding:
            _refuse(state, path, finding)
        return node
    whole = _REFERENCE.fullmatch(text)
    if whole is not None and whole[1] is not None:
        value = _value(whole[1], node.span, path, state)
        if isinstance(value, list):
            return Sequence(tuple(Scalar(item, node.span, plain=False) for item in value), node.span)
        return Scalar(value, node.span, plain=False) if path not in state.unresolved else node
    parts: list[str] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        if state.scope.kind == "param" and not (match[1] or "").startswith("param"):
            parts.append(match[0])
            continue
        if match[0] == "$${":
            parts.append("${")
            continue
        place = _inside(node, text, match.start(), len(match[0] if match[1] is not None else "${"))
        if match[1] is None:
            _refuse(
                state,
                path,
                Diagnostic("FLOE-C303", "a reference is not closed", place, path=dotted(path), remedy=_FORMS),
            )
            return node
        if match[1].startswith("secret:") and secret_of(match[0]):
            remedy = "make the secret the whole value; keep the rest of the text in the secret"
            _refuse(
                state,
                path,
                Diagnostic("FLOE-C304", "a secret is inside other text", place, path=dotted(path), remedy=remedy),
            )
            continue
        value = _value(match[1], place, path, state)
        if isinstance(value, list):
            _refuse(
                state,
                path,
                Diagnostic(
                    "FLOE-C313",
                    "a list is inside text",
                    place,
                    path=dotted(path),
                    remedy="use the reference as the whole value",
                ),
            )
            continue
        parts.append(_value_text(value))
    return node if path in state.unresolved else Scalar("".join(parts) + text[position:], node.span, plain=False)


def _secret_finding(scheme: str, name: str, span: Span, path: Path, scope: Scope) -> Diagnostic | None:
    """Why a secret cannot stand here; None when it can. Whether it exists is found out when it is read."""
    where = dotted(path)
    if not scope.secrets:
        remedy = "name secrets in the target's connections only"
        return Diagnostic("FLOE-C304", "a secret cannot be used here", span, path=where, remedy=remedy)
    if scheme not in scope.world.secret_schemes:
        known = sorted(scope.world.secret_schemes)
        message = f"there is no secret scheme `{scheme}`"
        remedy = f"use {listed(known)}, or install the package that offers `{scheme}`"
        return Diagnostic("FLOE-C303", message, span, path=where, hint=did_you_mean(scheme, known), remedy=remedy)
    if scheme == "file" and not name.startswith("/"):
        # What a relative path means would depend on where the driver was started.
        remedy = "write the whole path, such as `${secret:file:/run/secrets/kafka}`"
        return Diagnostic("FLOE-C303", f"`{name}` is no absolute path", span, path=where, remedy=remedy)
    return None


def _value(body: str, span: Span, path: Path, state: _State) -> Value:
    scope, where = state.scope, dotted(path)
    match = _NAMED.match(body)
    if match is None:
        guess = re.match(r"(var|env|local|param|secret)[.:](.*)", body)
        right = {"var": ".", "param": ".", "env": ":", "local": ":"}
        hint = f"did you mean `${{{guess[1]}{right[guess[1]]}{guess[2]}}}`?" if guess and guess[1] in right else None
        _refuse(
            state,
            path,
            Diagnostic("FLOE-C303", f"`${{{body}}}` is not a reference", span, path=where, hint=hint, remedy=_FORMS),
        )
        return None
    kind, name = match[1] or match[3], match[2] or match[4]
    if kind == "env":
        return _env(name, span, path, state)
    if kind == "local":
        if name in scope.world.local:
            return scope.world.local[name]
        state.unresolved.add(path)
        if not scope.world.offline:
            message = f"the local stack has not set `{name}`"
            state.findings.append(
                Diagnostic(
                    "FLOE-C306",
                    message,
                    span,
                    path=where,
                    remedy="run `floe local up`, or name another target with `--target`",
                )
            )
        return None
    if kind == scope.kind and name in scope.variables:
        return scope.variables[name]
    if kind == scope.kind and name in scope.open_variables:
        state.unresolved.add(path)
        return None
    word, section = ("parameter", "parameters") if kind == "param" else ("variable", "variables")
    known = sorted({*scope.variables, *scope.open_variables}) if kind == scope.kind else []
    hint = did_you_mean(name, known)
    remedy = f"declared are {listed(known, 'and')}" if known and len(known) < 10 else f"declare it under `{section}:`"
    _refuse(
        state, path, Diagnostic("FLOE-C301", f"there is no {word} `{name}`", span, path=where, hint=hint, remedy=remedy)
    )
    return None


def _env(name: str, span: Span, path: Path, state: _State) -> Value:
    world, allowed = state.scope.world, state.scope.environment
    if allowed is not None and name not in allowed:
        message = f"the target does not let pipeline files read the environment variable `{name}`"
        remedy = f"use a variable (`${{var.NAME}}`), or add `{name}` to `allow.environment` of the target"
        _refuse(state, path, Diagnostic("FLOE-C314", message, span, path=dotted(path), remedy=remedy))
        return None
    if name in world.env:
        return world.env[name]
    state.unresolved.add(path)
    if world.offline:
        message = f"the environment variable `{name}` is not set here, so its value was not checked"
        state.findings.append(
            Diagnostic(
                "FLOE-C305", message, span, Severity.WARNING, dotted(path), remedy=f"set `{name}` to check it too"
            )
        )
    else:
        message = f"the environment variable `{name}` is not set"
        state.findings.append(
            Diagnostic(
                "FLOE-C302",
                message,
                span,
                path=dotted(path),
                hint=did_you_mean(name, world.env),
                remedy=f"set it: `export {name}=...`",
            )
        )
    return None


def _refuse(state: _State, path: Path, finding: Diagnostic) -> None:
    state.unresolved.add(path)
    state.findings.append(finding)


def _value_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _inside(node: Scalar, text: str, start: int, length: int) -> Span:
    """The span of a part of a one-line value; of the whole value where lines or quotes make that unsure."""
    span = node.span
    if span.line != span.end_line or span.end_column - span.column not in (len(text), len(text) + 2):
        return span
    column = span.column + start + (span.end_column - span.column - len(text)) // 2
    return span._replace(column=column, end_column=column + length)
