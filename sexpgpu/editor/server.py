"""The language server: the protocol's requests, answered from the last check of each open file.

Checks run in the warm process, one at a time; a file is checked when nothing was typed into it for a moment. What is
open in the editor counts as its text there, saved or not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from sexpgpu import __version__
from sexpgpu.diag import Diagnostics
from sexpgpu.driver.warm import Answer, Checker, Name, Request
from sexpgpu.editor.checked import Checked
from sexpgpu.editor.publish import Published, published
from sexpgpu.editor.text import Text

PAUSE = 0.03
"""Seconds without a change after which a file is checked."""
PATIENCE = 2.0
"""Seconds that a request waits for a check that is under way."""
KINDS = {
    "function": lsp.CompletionItemKind.Function,
    "macro": lsp.CompletionItemKind.Keyword,
    "special form": lsp.CompletionItemKind.Keyword,
    "keyword": lsp.CompletionItemKind.Property,
    "knob": lsp.CompletionItemKind.Constant,
}


class Server(LanguageServer):
    """The open files with their last checks."""

    def __init__(self) -> None:
        super().__init__("sexpgpu", __version__)
        self.checker = Checker()
        self.checked: dict[str, Checked] = {}
        self._answers: dict[str, Answer] = {}
        self._library: tuple[Name, ...] = ()
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._versions: dict[str, int] = {}
        self._turn = asyncio.Lock()
        self._published = Published(self._send)

    # Texts.

    def path(self, uri: str) -> str:
        return uris.to_fs_path(uri) or uri

    def text(self, uri: str) -> Text:
        """The text of an open document."""
        document = self.workspace.get_text_document(uri)
        return Text(document.source, document.position_codec)

    def text_at(self, path: str) -> Text | None:
        """The text of any file: as it is open, or else on disk."""
        document = next((d for d in self.workspace.text_documents.values() if self.path(d.uri) == path), None)
        if document is not None:
            return Text(document.source, document.position_codec)
        try:
            return Text(Path(path).read_text("utf-8"), self.workspace.position_codec)
        except (OSError, UnicodeDecodeError):
            return None

    def _overlay(self) -> dict[str, str]:
        return {self.path(d.uri): d.source for d in self.workspace.text_documents.values()}

    # Checking.

    def changed(self, uri: str, *, passes: bool = False) -> None:
        """Check a document, and those that require it, soon."""
        path = self.path(uri)
        for entry in [path, *self._depending(path)]:
            self._start(entry, passes)

    def changed_on_disk(self, uri: str) -> None:
        """Check the open documents that require a file which is not open itself."""
        path = self.path(uri)
        if path not in self._overlay():
            for entry in self._depending(path):
                self._start(entry, passes=True)

    def _depending(self, path: str) -> list[str]:
        return [entry for entry, answer in self._answers.items() if entry != path and path in answer.files]

    def _start(self, path: str, passes: bool) -> None:
        self._versions[path] = self._versions.get(path, 0) + 1
        check = self._check(path, self._versions[path], passes)
        self._waiting[path] = asyncio.get_running_loop().create_task(check)

    async def _check(self, path: str, version: int, passes: bool) -> None:
        """Check a file unless it changes before its turn comes; a check that has begun goes on to its end."""
        await asyncio.sleep(PAUSE)
        async with self._turn:
            text = self.text_at(path)
            if text is None or self._versions.get(path) != version:
                return
            request = Request(Path(path), overlay=self._overlay(), passes=passes, names=True, library=not self._library)
            answers = self.checker.answers(request)
            loop = asyncio.get_running_loop()
            first = True
            while (answer := await loop.run_in_executor(None, next, answers, None)) is not None:
                if self._versions.get(path) == version:
                    self._take(path, text, answer, first)
                first = False

    def _take(self, path: str, text: Text, answer: Answer, first: bool) -> None:
        if answer.fault is not None:
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, answer.fault))
            return
        self._library = answer.library or self._library
        if first:
            self._answers[path] = answer
            self.checked[path] = Checked(path, text, answer, self._library, self.text_at)
        found = published(answer, text.text, lambda p: text if p == path else self.text_at(p))
        self._published.replace(path, found, first=first)

    async def settled(self, uri: str) -> Checked | None:
        """The last check of a document, after the one under way."""
        waiting = self._waiting.get(self.path(uri))
        if waiting is not None and not waiting.done():
            await asyncio.wait([waiting], timeout=PATIENCE)
        return self.checked.get(self.path(uri))

    def closed(self, uri: str) -> None:
        """Forget a document; its diagnostics go with it."""
        path = self.path(uri)
        self._versions.pop(path, None)
        self._waiting.pop(path, None)
        self.checked.pop(path, None)
        self._answers.pop(path, None)
        self._published.replace(path, {})

    def _send(self, path: str, diagnostics: list[lsp.Diagnostic]) -> None:
        uri = next((d.uri for d in self.workspace.text_documents.values() if self.path(d.uri) == path), None)
        uri = uri or uris.from_fs_path(path) or path
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))


def make_server() -> Server:
    """The server with its features."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, passes=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        server.changed(params.text_document.uri, passes=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(lsp.INITIALIZED)
    async def initialized(params: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        able = workspace.did_change_watched_files if workspace is not None else None
        if able is not None and able.dynamic_registration:
            watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher("**/*.sx")])
            asked = lsp.Registration("sx-files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched)
            await server.client_register_capability_async(lsp.RegistrationParams([asked]))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def did_change_watched_files(params: lsp.DidChangeWatchedFilesParams) -> None:
        for event in params.changes:
            server.changed_on_disk(event.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        checked = await server.settled(params.text_document.uri)
        if checked is None:
            return None
        text = server.text(params.text_document.uri)
        found = checked.hover(text, text.offset(params.position))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n".join(found))) if found else None

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        checked = await server.settled(params.text_document.uri)
        text = server.text(params.text_document.uri)
        token = text.token(text.offset(params.position))
        if checked is None or token is None:
            return None
        found = checked.place(text, token)
        return _location(server, params.text_document.uri, found) if found is not None else None

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["(", ":"], resolve_provider=False)
    )
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList:
        checked = server.checked.get(server.path(params.text_document.uri))
        if checked is None:
            return lsp.CompletionList(is_incomplete=True, items=[])
        text = server.text(params.text_document.uri)
        offset = text.offset(params.position)
        start, found = checked.complete(text, offset)
        where = text.range(start, offset)
        items = [
            lsp.CompletionItem(
                item.label,
                kind=KINDS.get(item.kind, lsp.CompletionItemKind.Variable),
                detail=item.detail or None,
                documentation=item.doc or None,
                text_edit=lsp.TextEdit(where, item.label),
            )
            for item in found
        ]
        return lsp.CompletionList(is_incomplete=True, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        from sexpgpu.lang.layout import checked_layout
        from sexpgpu.lang.limits import run_deep

        text = server.text(params.text_document.uri)
        name = server.path(params.text_document.uri)
        loop: Any = asyncio.get_running_loop()
        formatted = await loop.run_in_executor(None, run_deep, lambda: checked_layout(name, text.text, Diagnostics()))
        if formatted is None or formatted == text.text:
            return None
        return [lsp.TextEdit(text.range(0, len(text.text)), formatted)]

    return server


def _location(server: Server, uri: str, found: tuple[str, int]) -> lsp.Location | None:
    path, offset = found
    text = server.text_at(path)
    if text is None:
        return None
    target = uri if path == server.path(uri) else uris.from_fs_path(path) or path
    return lsp.Location(target, text.range(offset, offset))


def serve() -> None:
    """Serve standard input and output until the client leaves."""
    server = make_server()
    try:
        server.start_io()
    finally:
        server.checker.close()
