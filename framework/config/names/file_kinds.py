"""Distinguishes floe's own files from other tools' YAML, by what they hold and not by their names.

In: a file's text. Out: whether it is floe's, and of which kind. In doubt a file is floe's, so that a mistake in it is
reported: it is enough that it looks like one, whatever else is wrong with it.
"""

from __future__ import annotations

import re

from framework.diagnose.suggest import nearest

YAML_ENDINGS = (".yaml", ".yml")
_KIND = re.compile(r"^kind:[ ]*(Target|Template)[ ]*(#.*)?$", re.MULTILINE)
_KINDS = frozenset({"Pipeline", "Target", "Template"})
_SCHEMA = re.compile(r"^#.*\b(?:pipeline|target|template)\.v[0-9]+\.schema\.json", re.MULTILINE)
_TOP = re.compile(r"^[\"']?([A-Za-z][A-Za-z_]*)[\"']?[ ]*:(?:[ ]+[\"']?([^\s\"'#]*))?", re.MULTILINE)
# Two keys that no other tool's files have together, for a file whose first lines are wrong or not there.
_PAIRS = {
    "Pipeline": frozenset({"source", "routes"}),
    "Target": frozenset({"connections", "metadata"}),
    "Template": frozenset({"parameters", "pipeline"}),
}


def kind_in(text: str) -> str:
    """`Target` or `Template` where a file says so, or means it; everything that is unclear is left to the loader of
    pipelines."""
    if "\nkind: Pipeline\n" in text:
        return "Pipeline"
    found = _KIND.search(text) if "Target" in text or "Template" in text else None
    return found[1] if found else _kind_meant(text)


def _kind_meant(text: str) -> str:
    """The kind of a file whose `kind:` is mistyped or not there: by its word, else by what only files of a kind hold."""
    top = _top(text)
    is_ours = top.get("apiVersion", "floe").lower().startswith("floe")  # other tools have kinds of such names, too
    word = nearest(top.get("kind", ""), _KINDS) if is_ours else None
    return word or next((kind for kind, pair in _PAIRS.items() if pair <= top.keys()), "Pipeline")


def _top(text: str) -> dict[str, str]:
    """The keys at the top of a text, each with the first word of its value."""
    return {found[1]: found[2] or "" for found in _TOP.finditer(text)}


def is_floe_file(text: str) -> bool:
    """Whether a text is meant for floe: by `apiVersion: floe/...`, by the schema that its comment names, by its kind
    where no other `apiVersion` is given, or by keys that only floe's files have."""
    top = _top(text)
    version = top.get("apiVersion", "").lower()
    if version.startswith("floe") or _SCHEMA.search(text):
        return True
    if not version and top.get("kind") in _KINDS:
        return True
    return any(pair <= top.keys() for pair in _PAIRS.values())
