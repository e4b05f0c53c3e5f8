"""The requests of the protocol, each answered from the last check of the file that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from lsprotocol import types as lsp
from pygls import uris

from sexpgpu.diag import Diagnostics
from sexpgpu.editor.server import Server
from sexpgpu.editor.settings import SECTION
from sexpgpu.editor.symbols import outline

KINDS = {
    "function": lsp.CompletionItemKind.Function,
    "macro": lsp.CompletionItemKind.Keyword,
    "special form": lsp.CompletionItemKind.Keyword,
    "keyword": lsp.CompletionItemKind.Property,
    "knob": lsp.CompletionItemKind.Constant,
}


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

    @server.feature(lsp.INITIALIZE)
    async def initialize(params: lsp.InitializeParams) -> None:
        server.configure(params.initialization_options)

    @server.feature(lsp.INITIALIZED)
    async def initialized(params: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        await _pull_settings(server)
        able = workspace.did_change_watched_files if workspace is not None else None
        if able is not None and able.dynamic_registration:
            watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher("**/*.sx")])
            asked = lsp.Registration("sx-files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched)
            await server.client_register_capability_async(lsp.RegistrationParams([asked]))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def did_change_watched_files(params: lsp.DidChangeWatchedFilesParams) -> None:
        for event in params.changes:
            server.changed_on_disk(event.uri)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: lsp.DidChangeConfigurationParams) -> None:
        settings = params.settings
        if isinstance(settings, Mapping) and settings:
            server.configure(settings.get(SECTION, settings))
        else:  # the client wants to be asked
            await _pull_settings(server)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        checked = await server.settled(params.text_document.uri)
        if checked is None:
            return None
        text = server.text(params.text_document.uri)
        offset = text.offset(params.position)
        types = server.types(server.path(params.text_document.uri), text, offset)
        found = checked.hover(text, offset, types)
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

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=[" "]))
    async def signature_help(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        checked = server.checked.get(server.path(params.text_document.uri))
        text = server.text(params.text_document.uri)
        found = checked.signature(text, text.offset(params.position)) if checked is not None else None
        if found is None:
            return None
        parameters = [lsp.ParameterInformation(place) for place in found.parameters]
        shown = lsp.SignatureInformation(found.label, found.doc or None, parameters, found.active)
        return lsp.SignatureHelp([shown], active_signature=0, active_parameter=found.active)

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

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        return outline(server.text(params.text_document.uri))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        checked = await server.settled(uri)
        if checked is None or checked.text.text != server.text(uri).text:
            return []  # the edits are of a text that is no more
        return [_quick_fix(d) for d in server.published.fixes(server.path(uri)) if _meet(d.range, params.range)]

    return server


def _quick_fix(diagnostic: lsp.Diagnostic) -> lsp.CodeAction:
    changes = {
        uri: [lsp.TextEdit(lsp.Range(_position(e["range"]["start"]), _position(e["range"]["end"])), e["newText"])
              for e in edits]
        for uri, edits in (diagnostic.data or {}).items()
    }  # fmt: skip
    help = next((line for line in diagnostic.message.splitlines() if line.startswith("help: ")), "help: apply the fix")
    return lsp.CodeAction(
        help.removeprefix("help: "),
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True,
        edit=lsp.WorkspaceEdit(changes=changes),
    )


def _position(at: Mapping[str, int]) -> lsp.Position:
    return lsp.Position(at["line"], at["character"])


def _meet(one: lsp.Range, other: lsp.Range) -> bool:
    return one.start <= other.end and other.start <= one.end


async def _pull_settings(server: Server) -> None:
    """Ask a client that can say it for our part of its configuration; null is what has none."""
    workspace = server.client_capabilities.workspace
    if workspace is None or not workspace.configuration:
        return
    asked = lsp.ConfigurationParams([lsp.ConfigurationItem(section=SECTION)])
    (settings,) = await server.workspace_configuration_async(asked)
    if settings:
        server.configure(settings)


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
