"""The lock of template libraries: which commit of which repository, and what each of its files holds.

In: the text of `floe.lock`, and what was fetched. Out: libraries as values, the text to write, and the library that a
name stands for. Invariant: a template of a library is used only with the very text that the lock names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from framework.config.text import SourceText
from framework.config.tree import Mapping as Tree
from framework.config.tree import Node, parse, plain
from framework.config.tree import Sequence as Items
from framework.diagnose.diagnostic import Diagnostic

LOCK_FILE = "floe.lock"
SCHEMES = ("https", "ssh", "file")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}\Z")
_TAG = re.compile(r"(?!.*(\.\.|//|/\.|\.lock(/|\Z)|[./]\Z))[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}\Z")
_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")
_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
_PATH = re.compile(r"(?!.*(^|/)\.\.?(/|\Z))[^/\\\0-\x1f\x7f\ufffd][^\\\0-\x1f\x7f\ufffd]*\Z")
_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+){0,2})\Z")
_HEAD = """\
# Template libraries. Written by `floe templates lock` and `floe templates update`; keep it with the pipeline files.
version: 1
libraries:
"""
_REMEDY = "restore it from version control, or remove it and run `floe templates lock NAME URL --tag TAG` again"


@dataclass(frozen=True)
class Library:
    """One version of a library. `folder` is where its templates are in the repository, "" for its root; `files` are the
    hashes of their texts by path below it."""

    name: str
    url: str
    tag: str
    commit: str
    folder: str
    files: tuple[tuple[str, str], ...]

    @property
    def content(self) -> str:
        """64 hexadecimal digits that name all of its texts together: its folder in the cache."""
        return hashlib.sha256(json.dumps(self.files).encode()).hexdigest()

    @property
    def shown(self) -> str:
        """`acme@v1.2.0`."""
        return f"{self.name}@{self.tag}"

    def is_version(self, wanted: str) -> bool:
        """Whether `@wanted` means this one: by its tag, or by the first numbers of a tag that is a version."""
        version = _VERSION.match(self.tag)
        return wanted == self.tag or (
            version is not None and f"{version[1]}.".startswith(f"{wanted.removeprefix('v')}.") and wanted != ""
        )


def text_hash(text: str) -> str:
    """`sha256:` and the hash of a template's text, as it is read."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def library_of(name: str, url: str, tag: str, commit: str, folder: str, texts: Mapping[str, str]) -> Library:
    """The library that was fetched."""
    files = tuple((path, text_hash(texts[path])) for path in sorted(texts))
    return Library(name, url, tag, commit, folder, files)


def lock_text(libraries: Sequence[Library]) -> str:
    """The text of a lock, in one order whatever was locked first."""
    lines = []
    for each in sorted(libraries, key=lambda library: (library.name, version_key(library.tag))):
        lines += [f"  - name: {each.name}", f"    url: {json.dumps(each.url)}", f"    tag: {json.dumps(each.tag)}"]
        lines += [f"    commit: {json.dumps(each.commit)}", f"    folder: {json.dumps(each.folder)}", "    files:"]
        lines += [f"      {json.dumps(path)}: {digest}" for path, digest in each.files]
    return _HEAD + "".join(f"{line}\n" for line in lines) if lines else _HEAD.replace("libraries:", "libraries: []")


def version_key(tag: str) -> tuple[tuple[int, ...], str]:
    """Orders tags: those that are versions by their numbers, behind all others."""
    version = _VERSION.match(tag)
    return (tuple(int(part) for part in version[1].split(".")) if version else (), tag)


def newer(tag: str, tags: Sequence[str], any_major: bool) -> str:
    """The newest of the tags with the same first number, or of all; the tag itself where none is newer."""
    now = version_key(tag)
    versions = [
        each for each in tags if version_key(each)[0] > now[0] and (any_major or version_key(each)[0][:1] == now[0][:1])
    ]
    return max(versions, key=version_key, default=tag) if now[0] else tag


def name_problem(name: str) -> str | None:
    """Why a library cannot have this name, or None."""
    return None if _NAME.match(name) else "a library's name is letters, digits, `_` and `-`, and begins with a letter"


def tag_problem(tag: str) -> str | None:
    """Why this is not the name of a tag, or None."""
    return None if _TAG.match(tag) else f"`{tag}` is not the name of a tag"


def folder_problem(folder: str) -> str | None:
    """Why this is not a folder of a repository, or None."""
    return None if not folder or _PATH.match(folder) else f"`{folder}` is not a folder inside the repository"


def path_problem(path: str) -> str | None:
    """Why a file of a repository cannot be in a lock, or None."""
    return None if _PATH.match(path) else f"{json.dumps(path)} is not a path that a lock can name"


def url_problem(url: str) -> str | None:
    """Why git is not asked for this address, or None. An address is kept in a file, so it holds no secret."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it is not an address"
    if parts.scheme not in SCHEMES:
        return "it must begin with `https://`, `ssh://` or `file://`"
    if not url.isprintable() or " " in url or parts.query or parts.fragment:
        return "an address of a repository has no spaces, `?` or `#`"
    if parts.password is not None or (parts.scheme == "https" and parts.username is not None):
        return "it holds a secret or a user; let git's credential helper give them"
    if parts.scheme == "file":
        return None if not host and parts.path.startswith("/") else "a local repository is `file:///PATH`"
    if not re.match(r"[A-Za-z0-9\[]", host) or (parts.username or "").startswith("-"):
        return "it names no host"
    return None


@lru_cache(maxsize=8)
def read_lock(source: SourceText) -> tuple[tuple[Library, ...], tuple[Diagnostic, ...]]:
    """The libraries of a lock, and what is wrong with it; then there are none."""
    tree, findings = parse(source)
    if tree is None or findings:
        return (), tuple(findings)
    libraries: list[Library] = []
    try:
        for node, value in _entries(tree):
            libraries.append(_library(node, value))
    except _Wrong as wrong:
        return (), (Diagnostic("FLOE-C615", wrong.message, wrong.node.span, remedy=_REMEDY),)
    return tuple(libraries), ()


class _Wrong(Exception):
    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.message, self.node = message, node


def _entries(tree: Node) -> Iterator[tuple[Node, dict[str, object]]]:
    libraries = tree.get("libraries") if isinstance(tree, Tree) else None
    if not isinstance(tree, Tree) or plain(tree).get("version") != 1 or not isinstance(libraries, Items):
        raise _Wrong("the lock is not of version 1, which is all that this version of floe reads", tree)
    for item in libraries.items:
        value = plain(item)
        if not isinstance(value, dict) or value.keys() != {"name", "url", "tag", "commit", "folder", "files"}:
            raise _Wrong("a library has `name`, `url`, `tag`, `commit`, `folder` and `files`, and nothing else", item)
        yield item, value


def _library(node: Node, value: dict[str, object]) -> Library:
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    files = value["files"]
    if len(texts) != 5 or not isinstance(files, dict) or not files:
        raise _Wrong("a library's values are text, and `files` are hashes by path", node)
    for problem in (
        name_problem(texts["name"]),
        url_problem(texts["url"]),
        tag_problem(texts["tag"]),
        folder_problem(texts["folder"]),
        None if _COMMIT.match(texts["commit"]) else f"`{texts['commit']}` is not a commit",
    ):
        if problem:
            raise _Wrong(problem, node)
    for path, digest in files.items():
        if not _PATH.match(str(path)) or not _HASH.match(str(digest)):
            raise _Wrong(f"`{path}` is not a path with a hash", node)
    return Library(
        texts["name"], texts["url"], texts["tag"], texts["commit"], texts["folder"], tuple(sorted(files.items()))
    )
