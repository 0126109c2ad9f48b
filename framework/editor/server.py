"""The language server: an editor's requests over standard input and output.

In: the texts that are open in an editor. Out: what `floe validate` finds in them, at its places; explanations of keys and
codes; the file of a template. Nothing is written and nothing is asked over a network; files of other tools are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from framework import __version__
from framework.adapters.project.files import real_world
from framework.config.check_files import check_files
from framework.config.names.file_kinds import is_floe_file
from framework.config.text import SourceText
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.editor.cursor import definition_at, explained_at


class FloeServer(LanguageServer):
    """Checks every open file again when one changes: what is wrong with a pipeline may be its template's doing."""

    def __init__(self, target: str | None) -> None:
        super().__init__("floe", __version__)
        self._target = target
        self._findings: dict[str, tuple[Diagnostic, ...]] = {}

    def world(self) -> World:
        """The world in which open files hold what the editor shows."""
        world, texts = real_world(offline=True), self._texts()

        def read_file(path: Path) -> str:
            text = texts.get(path.absolute())
            return world.read_file(path) if text is None else text

        return replace(world, read_file=read_file)

    def check_all(self) -> None:
        world = self.world()
        for document in list(self.workspace.text_documents.values()):
            ours = is_floe_file(document.source)
            found = check_files((Path(document.path),), self._target, world) if ours else ()
            self._findings[document.uri] = found
            self._publish(document.uri, [self._shown(document, finding) for finding in found])

    def forget(self, uri: str) -> None:
        self._findings.pop(uri, None)
        self._publish(uri, [])

    def explained(self, document: TextDocument, position: types.Position) -> types.Hover | None:
        line, column = self._place(document, position)
        source = SourceText(document.path, document.source)
        findings = [f for f in self._findings.get(document.uri, ()) if f.span and f.span.file == document.path]
        found = explained_at(source, line, column, findings, self.world()) if is_floe_file(document.source) else None
        if found is None:
            return None
        text = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        return types.Hover(text, self._range(document.lines, found.span))

    def defined(self, document: TextDocument, position: types.Position) -> types.Location | None:
        world = self.world()
        source = SourceText(document.path, document.source)
        found = definition_at(source, *self._place(document, position), world)
        return self._location(found, world) if found else None

    # ---- between both worlds' places -------------------------------------------------------------------------------

    def _texts(self) -> Mapping[Path, str]:
        documents = self.workspace.text_documents.values()
        return {Path(each.path).absolute(): each.source.replace("\r\n", "\n") for each in documents}

    def _publish(self, uri: str, found: list[types.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    def _shown(self, document: TextDocument, finding: Diagnostic) -> types.Diagnostic:
        """A finding as an editor takes it. One that is about another file stands at the beginning, with its place."""
        here = finding.span is not None and finding.span.file == document.path
        span = finding.span if finding.span and here else Span(document.path, 1, 1, 1, 2)
        words = [finding.message if here or not finding.span else f"{finding.span.start}: {finding.message}"]
        words += [f"remedy: {finding.remedy}"] if finding.remedy else []
        related = None
        if finding.template is not None:
            place = self._location(finding.template.span, self.world())
            related = [types.DiagnosticRelatedInformation(place, "where the template uses it")]
        return types.Diagnostic(
            range=self._range(document.lines, span),
            message="; ".join([words[0], *([finding.hint] if finding.hint else [])])
            + "".join(f"\n{w}" for w in words[1:]),
            severity=types.DiagnosticSeverity.Error if finding.is_error else types.DiagnosticSeverity.Warning,
            code=finding.code,
            source="floe",
            related_information=related,
        )

    def _location(self, span: Span, world: World) -> types.Location:
        try:
            lines = world.read_file(Path(span.file)).split("\n")
        except (OSError, UnicodeDecodeError):
            lines = []
        uri = uris.from_fs_path(str(Path(span.file).absolute()))
        assert uri is not None
        return types.Location(uri, self._range(lines, span))

    def _place(self, document: TextDocument, position: types.Position) -> tuple[int, int]:
        """Line and column from 1, in characters."""
        found = self.workspace.position_codec.position_from_client_units(document.lines, position)
        return found.line + 1, found.character + 1

    def _range(self, lines: Sequence[str], span: Span) -> types.Range:
        """Lines and columns from 0, in the units that the editor counts in."""
        ends = [(span.line, span.column), (span.end_line, span.end_column)]
        start, end = (types.Position(line - 1, column - 1) for line, column in ends)
        return self.workspace.position_codec.range_to_client_units(lines, types.Range(start, end))


def create_server(target: str | None) -> FloeServer:
    """The server, ready to be started.

    Args:
        target: under which files are checked, `local` where none is named.
    """
    server = FloeServer(target)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(server: FloeServer, params: types.DidOpenTextDocumentParams) -> None:
        server.check_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(server: FloeServer, params: types.DidChangeTextDocumentParams) -> None:
        server.check_all()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(server: FloeServer, params: types.DidSaveTextDocumentParams) -> None:
        server.check_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(server: FloeServer, params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(server: FloeServer, params: types.HoverParams) -> types.Hover | None:
        return server.explained(server.workspace.get_text_document(params.text_document.uri), params.position)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(server: FloeServer, params: types.DefinitionParams) -> types.Location | None:
        return server.defined(server.workspace.get_text_document(params.text_document.uri), params.position)

    return server
