"""Where printed text goes: a growing buffer that knows its column."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.active import active
from sexpgpu.lang.forms import NIL, T, symbol

LONGEST: Final = 10_000_000


class TextOutput:
    """Collects text; `column` is the count of characters since the last line break."""

    __slots__ = ("_parts", "column", "size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.column = 0
        self.size = 0

    def write(self, text: str) -> None:
        """Append `text` (E-LIMIT-005 past ten million characters)."""
        self._parts.append(text)
        self.size += len(text)
        if len(text) > 64:
            active().spend(len(text) >> 3)
        if self.size > LONGEST:
            raise error("E-LIMIT-005", f"more than {LONGEST:,} characters were printed")
        newline = text.rfind("\n")
        self.column = self.column + len(text) if newline < 0 else len(text) - newline - 1

    def text(self) -> str:
        """All that was written so far."""
        return "".join(self._parts)

    def since(self, mark: int) -> str:
        """What was written after `mark` was taken."""
        return "".join(self._parts[mark:])

    @property
    def mark(self) -> int:
        """A point in what is written, for `since`."""
        return len(self._parts)

    def take(self) -> str:
        """What was written since the last `take`; the buffer is empty afterwards."""
        text = "".join(self._parts)
        self._parts.clear()
        self.size = 0
        return text


_STANDARD_OUTPUT: Final = symbol("*standard-output*")


def destination(stream: Any, name: str) -> TextOutput:
    """The buffer that a printing function's stream argument means: nil and t are `*standard-output*`.

    Where that is not bound to a stream, it is the session's output.
    """
    if isinstance(stream, TextOutput):
        return stream
    if stream is NIL or stream is T:
        session = active()
        bound = session.special(_STANDARD_OUTPUT).ref
        return bound[0] if bound and isinstance(bound[0], TextOutput) else session.output
    from sexpgpu.lang.printer import brief

    raise error("E-TYPE-001", f"{name} needs a stream, got {brief(stream)}")
