"""The fenced blocks of a documentation page, and what the words behind a fence's language mean.

console            prompts (`$ `, `> ` continues) and the output they print; run in order, one folder a page
lisp               a whole experiment; `sexpgpu check` must find nothing in it
lisp file=NAME     the same, written to NAME for the commands of the page
lisp file=N broken an experiment with a fault that a command of the page shows
lisp file=N forms  forms that are no experiment, for a command of the page
lisp values        forms, each with its value in a comment behind it; a page's are evaluated in one session
lisp fragment      top-level forms; they compile in the place of those of the same name in the last `file=` above
                   them on the page, or else in the smallest experiment of the page `run-file.md`
diff, mlir, ptx file=N  a patch, a module or kernels for the commands of the page, which name N
sh                 commands that only install; held to be targets of the Makefile or extras of the project
text               a picture
"""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@frozen
class Block:
    """One fenced block: `line` is that of its first line of text, `marks` the words behind the language."""

    page: Path
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def file(self) -> str | None:
        """The NAME of `file=NAME`."""
        return next((mark.removeprefix("file=") for mark in self.marks if mark.startswith("file=")), None)


@frozen
class Command:
    """One prompt of a console block and the lines printed under it."""

    line: int
    text: str
    output: tuple[str, ...]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page from top to bottom."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start(3)) + 1, found[1], tuple(found[2].split()), found[3])
        for found in _FENCE.finditer(text)
    ]


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block; ValueError when it does not start with a prompt."""
    commands: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            commands.append((number, [line[2:]], []))
        elif not commands:
            raise ValueError(f"{block}: a console block starts with a prompt")
        elif line.startswith("> ") and not commands[-1][2]:
            commands[-1][1].append(line[2:])
        else:
            commands[-1][2].append(line)
    return [Command(number, "\n".join(text), tuple(output)) for number, text, output in commands]
