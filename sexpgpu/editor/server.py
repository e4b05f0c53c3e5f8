"""The state of the language server: the open files, each with its last check.

Checks run in the warm process, one at a time; a file is checked when nothing was typed into it for a moment. What is
open in the editor counts as its text there, saved or not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from attrs import evolve
from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from sexpgpu import __version__
from sexpgpu.diag import Diagnostic
from sexpgpu.driver.warm import Answer, Checker, Name, Request
from sexpgpu.editor.checked import Checked
from sexpgpu.editor.publish import Published, published
from sexpgpu.editor.settings import UNFIT, WrongSetting, selection_of
from sexpgpu.editor.text import Text
from sexpgpu.lang.selection import Selection

PAUSE = 0.03
"""Seconds without a change after which a file is checked."""
PATIENCE = 2.0
"""Seconds that a request waits for a check that is under way."""


class Server(LanguageServer):
    """The open files with their last checks."""

    def __init__(self) -> None:
        super().__init__("sexpgpu", __version__)
        self.checker = Checker()
        self.checked: dict[str, Checked] = {}
        self.selection = Selection()
        self._answers: dict[str, Answer] = {}
        self._library: tuple[Name, ...] = ()
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._versions: dict[str, int] = {}
        self._turn = asyncio.Lock()
        self.published = Published(self._send)

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

    # Settings.

    def configure(self, settings: Any) -> None:
        """Check under these settings from now on; wrong ones are shown to the user and change nothing."""
        try:
            chosen = selection_of(settings)
        except WrongSetting as wrong:
            self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, str(wrong)))
            return
        if chosen != self.selection:
            self.selection = chosen
            for document in self.workspace.text_documents.values():
                self._start(self.path(document.uri), passes=True)

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
            request = Request(
                Path(path), self.selection, self._overlay(), passes=passes, names=True, library=not self._library
            )
            unfit = await self._answer(path, version, text, request)
            if unfit:  # the settings are meant for another file
                plain = evolve(request, selection=Selection())
                await self._answer(path, version, text, plain, aside=unfit)

    async def _answer(
        self, path: str, version: int, text: Text, request: Request, aside: tuple[Diagnostic, ...] = ()
    ) -> tuple[Diagnostic, ...]:
        """Check and publish; nothing is published, and the errors returned, where the selection does not fit the file.

        Those of such an attempt before this one are published `aside`, as warnings.
        """
        answers = self.checker.answers(request)
        loop = asyncio.get_running_loop()
        first = True
        unfit: tuple[Diagnostic, ...] = ()
        while (answer := await loop.run_in_executor(None, next, answers, None)) is not None:
            if request.selection != Selection() and first:
                unfit = tuple(d for d in answer.diagnostics if d.code in UNFIT and d.span is None)
            if not unfit and self._versions.get(path) == version:
                answer = evolve(answer, diagnostics=(*aside, *answer.diagnostics))
                self._take(path, text, answer, first)
            first = False
        return tuple(evolve(d, severity="warning") for d in unfit)

    def _take(self, path: str, text: Text, answer: Answer, first: bool) -> None:
        if answer.fault is not None:
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, answer.fault))
            return
        self._library = answer.library or self._library
        if first:
            self._answers[path] = answer
            self.checked[path] = Checked(path, text, answer, self._library, self.text_at)
        found = published(answer, text.text, lambda p: text if p == path else self.text_at(p))
        self.published.replace(path, found, first=first)

    async def settled(self, uri: str) -> Checked | None:
        """The last check of a document, after the one under way."""
        waiting = self._waiting.get(self.path(uri))
        if waiting is not None and not waiting.done():
            await asyncio.wait([waiting], timeout=PATIENCE)
        return self.checked.get(self.path(uri))

    def types(self, path: str, text: Text, offset: int) -> tuple[str, ...]:
        """The types of the form at an offset, as the file itself or one that requires it was traced."""
        own = self.checked.get(path)
        every = ([own] if own is not None else []) + [c for c in self.checked.values() if c is not own]
        return next((types for checked in every if (types := checked.types(path, text, offset))), ())

    def closed(self, uri: str) -> None:
        """Forget a document; its diagnostics go with it."""
        path = self.path(uri)
        self._versions.pop(path, None)
        self._waiting.pop(path, None)
        self.checked.pop(path, None)
        self._answers.pop(path, None)
        self.published.replace(path, {})

    def _send(self, path: str, diagnostics: list[lsp.Diagnostic]) -> None:
        uri = next((d.uri for d in self.workspace.text_documents.values() if self.path(d.uri) == path), None)
        uri = uri or uris.from_fs_path(path) or path
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))
