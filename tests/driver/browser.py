"""A headless Chromium driven over a pair of pipes, without any package: enough to open a file and look at it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0


def executable() -> str:
    """A browser of the machine; the test is skipped where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs a browser, one of {', '.join(NAMES)}")


class Page:
    """One page of a browser. What the page throws or its console complains of is kept in `faults`."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command of the browser's protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            if answer["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.faults.append(json.dumps(answer["params"]))
            if answer["method"] == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])

    def _next(self) -> Any:
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser has ended"
            self._buffer += part
        one, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(one)

    def __call__(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression holds in the page."""
        end = time.monotonic() + SECONDS
        while not self(expression):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.05)

    def open(self, file: Path, width: int = 1400, height: int = 860) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=file.as_uri())
        self.wait("document.body && document.body.dataset.ready === 'yes'")

    def hover(self, selector: str) -> None:
        """Put the mouse over the first element that a selector finds."""
        text = f"JSON.stringify(document.querySelector({selector!r}).getBoundingClientRect())"
        box = json.loads(self(text))
        x, y = box["x"] + min(60, box["width"] / 2), box["y"] + box["height"] / 2
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh browser with one page, which ends with the block."""
    program = executable()
    ours, theirs = os.pipe(), os.pipe()
    flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe about:blank"
    # The browser reads its commands from descriptor 3 and answers on 4.
    line = f'exec "$0" {flags} 3<&{ours[0]} 4>&{theirs[1]}'
    process = subprocess.Popen(
        ["bash", "-c", line, program],
        pass_fds=[ours[0], theirs[1]],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        yield Page(ours[1], theirs[0])
    finally:
        process.kill()
        process.wait()
        os.close(ours[1])
        os.close(theirs[0])
