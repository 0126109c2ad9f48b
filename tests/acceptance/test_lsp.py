"""`floe lsp` as an editor meets it: a client of its own speaks to the process over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.unit.config.in_memory import PIPELINE, TARGET

# The character before the mistake takes two units of UTF-16, in which editors count, and one of Python's.
WRONG = PIPELINE.replace("{name: orders}", '{name: orders, owner: "\U0001f355", descriptoin: x}')
TEMPLATE = """\
apiVersion: floe/v1
kind: Template
metadata: {name: landing, version: 1.0.0, description: Lands a topic.}
parameters:
  topic: {type: string, description: The topic that is read.}
pipeline:
  source: {kafka: {topics: ["${param.topic}"]}}
  routes: {rules: [{table: shop.orders}]}
"""
USER = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {name: orders}
template:
  name: landing
  version: "1"
  parameters: {topic: orders}
errors: {dead_letter_table: shop.dead_letters}
"""


class Editor:
    """Opens and changes files, and waits for what the server says of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = LanguageClient("editor", "1")
        self.reported: dict[str, list[types.Diagnostic]] = {}
        self._heard = asyncio.Event()
        self._version = 0

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def reported(params: types.PublishDiagnosticsParams) -> None:
            self.reported[params.uri] = list(params.diagnostics)
            self._heard.set()

    async def start(self) -> None:
        await self.client.start_io(sys.executable, "-m", "framework.cli.main", "lsp", cwd=self.root, env=os.environ)
        capabilities = types.ClientCapabilities()
        await self.client.initialize_async(
            types.InitializeParams(capabilities, process_id=os.getpid(), root_uri=self.root.as_uri())
        )
        self.client.initialized(types.InitializedParams())

    async def end(self) -> int:
        process = self.client._server
        assert process is not None
        await self.client.shutdown_async(None)
        self.client.exit(None)
        return await asyncio.wait_for(process.wait(), 20)

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    async def open(self, name: str, text: str) -> list[types.Diagnostic]:
        item = types.TextDocumentItem(self.uri(name), "yaml", 0, text)
        return await self._after(
            lambda: self.client.text_document_did_open(types.DidOpenTextDocumentParams(item)), name
        )

    async def change(self, name: str, text: str, about: str | None = None) -> list[types.Diagnostic]:
        self._version += 1
        document = types.VersionedTextDocumentIdentifier(self._version, self.uri(name))
        whole = [types.TextDocumentContentChangeWholeDocument(text)]
        params = types.DidChangeTextDocumentParams(document, whole)
        return await self._after(lambda: self.client.text_document_did_change(params), about or name)

    async def hover(self, name: str, text: str, word: str) -> str:
        document = types.TextDocumentIdentifier(self.uri(name))
        found = await self.client.text_document_hover_async(types.HoverParams(document, place(text, word)))
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def definition(self, name: str, text: str, word: str) -> types.Location | None:
        document = types.TextDocumentIdentifier(self.uri(name))
        found: Any = await self.client.text_document_definition_async(
            types.DefinitionParams(document, place(text, word))
        )
        return found

    async def _after(self, act: Callable[[], None], name: str) -> list[types.Diagnostic]:
        self.reported.pop(self.uri(name), None)
        act()
        while self.uri(name) not in self.reported:
            self._heard.clear()
            await asyncio.wait_for(self._heard.wait(), 20)
        return self.reported[self.uri(name)]


def place(text: str, word: str) -> types.Position:
    """The middle of the first occurrence of a word, in units of UTF-16."""
    before = text[: text.index(word) + len(word) // 2]
    return types.Position(before.count("\n"), _units(before.rpartition("\n")[2]))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def marked(text: str, found: types.Range) -> str:
    """The text of a range within one line."""
    assert found.start.line == found.end.line
    line = text.split("\n")[found.start.line].encode("utf-16-le")
    return line[2 * found.start.character : 2 * found.end.character].decode("utf-16-le")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "targets").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    (tmp_path / "templates" / "landing.yaml").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path


def in_editor(root: Path, act: Callable[[Editor], Awaitable[None]]) -> None:
    """Runs one editor against one server, which must end as it is asked to."""

    async def session() -> None:
        editor = Editor(root)
        await editor.start()
        await act(editor)
        assert await editor.end() == 0

    asyncio.run(asyncio.wait_for(session(), 60))


def test_a_mistake_is_reported_at_its_place_while_it_is_typed(root: Path) -> None:
    """A wrong key is told with its code, at the key, and no longer once it is corrected; the file on disk does not count."""

    async def act(editor: Editor) -> None:
        (found,) = await editor.open("a.yaml", WRONG)
        assert (found.code, found.source, found.severity) == ("FLOE-C201", "floe", types.DiagnosticSeverity.Error)
        assert marked(WRONG, found.range) == "descriptoin"
        assert "descriptoin" in found.message
        assert "remedy: " in found.message
        assert await editor.change("a.yaml", PIPELINE) == []

    in_editor(root, act)


def test_text_that_is_no_yaml_yet_is_reported_and_breaks_nothing(root: Path) -> None:
    """In the middle of a line, when the file is no YAML, the editor is told so, and the server goes on."""

    async def act(editor: Editor) -> None:
        half = PIPELINE + "tables: {defaults: \n"
        (found,) = await editor.open("a.yaml", half)
        assert found.code == "FLOE-C103"
        assert await editor.hover("a.yaml", half, "defaults") == ""
        assert await editor.change("a.yaml", PIPELINE) == []
        assert await editor.change("a.yaml", "services: {web: {image: x}}\n") == []  # another tool's file

    in_editor(root, act)


def test_hover_explains_keys_codes_and_parameters(root: Path) -> None:
    """Over a key stands what the schema says of it, over a code and over a mistake what `floe explain` says, over a parameter
    what its template says."""

    async def act(editor: Editor) -> None:
        text = "# see FLOE-C207\n" + WRONG
        await editor.open("a.yaml", text)
        assert await editor.hover("a.yaml", text, "topics") == "**source.kafka.topics**\n\nThe topics by name."
        assert (await editor.hover("a.yaml", text, "FLOE-C207")).startswith("**FLOE-C207: ")
        assert "FLOE-C201: " in await editor.hover("a.yaml", text, "descriptoin")
        assert await editor.hover("a.yaml", text, "see") == ""
        await editor.open("b.yaml", USER)
        assert "The topic that is read." in await editor.hover("b.yaml", USER, "topic:")

    in_editor(root, act)


def test_a_template_is_found_and_its_changes_count_at_once(root: Path) -> None:
    """From its name one goes to the template's file, from a parameter to where it is declared; what an open template lacks is
    told in the file that uses it."""

    async def act(editor: Editor) -> None:
        assert [each.message for each in await editor.open("b.yaml", USER)] == []
        there = await editor.definition("b.yaml", USER, "landing")
        assert there is not None
        assert there.uri == editor.uri("templates/landing.yaml")
        declared = await editor.definition("b.yaml", USER, "topic:")
        assert declared is not None
        assert marked(TEMPLATE, declared.range) == "topic"
        assert await editor.definition("b.yaml", USER, "metadata") is None
        await editor.open("templates/landing.yaml", TEMPLATE)
        renamed = TEMPLATE.replace("topic: {type", "topics: {type").replace("param.topic}", "param.topics}")
        found = await editor.change("templates/landing.yaml", renamed, about="b.yaml")
        assert {each.code for each in found} == {"FLOE-C609", "FLOE-C611"}

    in_editor(root, act)


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="only there it is seen which libraries a process holds"
)
def test_the_server_loads_no_engine(root: Path) -> None:
    """A server that has checked a file holds no Arrow, no Kafka client and no Spark."""

    async def act(editor: Editor) -> None:
        await editor.open("a.yaml", WRONG)
        process = editor.client._server
        assert process is not None
        held = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
        assert "yaml" in held
        assert [engine for engine in ("pyarrow", "confluent_kafka", "numpy", "pyiceberg") if engine in held] == []

    in_editor(root, act)
