"""A client of the language server: JSON-RPC over the pipes of a child process, and nothing of the server's own code."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

SECONDS = 30.0


class Client:
    """Starts `sexpgpu lsp`, and keeps what it is told."""

    def __init__(self, folder: Path, options: Any = None, settings: Any = None) -> None:
        """`options` are given at the start; `settings` when the server asks for them, which it may if there are any."""
        self._settings = settings
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sexpgpu", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._versions: dict[str, int] = {}
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        workspace = {"didChangeWatchedFiles": {"dynamicRegistration": True}, "configuration": settings is not None}
        self.registered: list[str] = []
        self.shown: list[str] = []
        root = {"processId": None, "rootUri": folder.as_uri(), "capabilities": {"workspace": workspace}}
        root |= {"initializationOptions": options}
        self.capabilities = self.ask("initialize", root)
        self.tell("initialized", {})

    def _read(self, stream: IO[bytes]) -> None:
        while header := stream.readline():
            size = 0
            while header.strip():
                name, _, value = header.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
                header = stream.readline()
            self._messages.put(json.loads(stream.read(size)))

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._input.flush()

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request."""
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def _next(self) -> dict[str, Any]:
        return self._taken(self._messages.get(timeout=SECONDS))

    def _taken(self, message: dict[str, Any]) -> dict[str, Any]:
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif message.get("method") == "window/showMessage":
            self.shown.append(message["params"]["message"])
        elif message.get("method") == "workspace/configuration":
            assert [item["section"] for item in message["params"]["items"]] == ["sexpgpu"]
            self._send({"id": message["id"], "result": [self._settings]})
        elif message.get("method") == "client/registerCapability":
            self.registered += [r["method"] for r in message["params"]["registrations"]]
            self._send({"id": message["id"], "result": None})
        return message

    # Documents.

    def open(self, file: Path, text: str) -> list[dict[str, Any]]:
        """Open a document with a text, saved or not; its first diagnostics."""
        self._versions[file.as_uri()] = 1
        document = {"uri": file.as_uri(), "languageId": "lisp", "version": 1, "text": text}
        return self._published(file, "textDocument/didOpen", {"textDocument": document})

    def change(self, file: Path, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Edit a document; the diagnostics that come of it."""
        self._versions[file.as_uri()] += 1
        document = {"uri": file.as_uri(), "version": self._versions[file.as_uri()]}
        params = {"textDocument": document, "contentChanges": changes}
        return self._published(file, "textDocument/didChange", params)

    def _published(self, file: Path, method: str, params: Any) -> list[dict[str, Any]]:
        self.tell(method, params)
        while True:
            message = self._next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == file.as_uri():
                return list(message["params"]["diagnostics"])

    def at(self, method: str, file: Path, text: str, mark: str, further: int = 0) -> Any:
        """Ask about the place where `mark` begins in `text`, and `further` code units on."""
        before = text[: text.index(mark)]
        line = before.count("\n")
        units = len(before[before.rfind("\n") + 1 :].encode("utf-16-le")) // 2
        position = {"line": line, "character": units + further}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": file.as_uri()}, "position": position})

    def drain(self, seconds: float) -> None:
        """Take in what comes within some time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._taken(self._messages.get(timeout=left))
            except queue.Empty:
                return

    def close(self) -> int:
        """Leave as the protocol asks; the server's exit code."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        code = self._process.wait(timeout=SECONDS)
        self._reader.join(timeout=SECONDS)
        self._input.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
