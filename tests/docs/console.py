"""Running the commands of a page in a shell, and comparing what they print with what the page shows.

A shown line `...` stands for any lines, none included; `[..]` within a line for any text. A command that the page
shows to fail is followed by `$ echo $?`; any other must succeed.
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.docs.blocks import ROOT, Block, Command, commands_of

ANY_LINES = "..."
ANY_TEXT = "[..]"
SECONDS = 60  # for one block


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether `printed` is what `shown` describes; blanks at the ends of lines do not count."""
    parts = []
    for line in shown:
        if line.strip() == ANY_LINES:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.rstrip().split(ANY_TEXT)) + r"\n")
    text = "".join(f"{line.rstrip()}\n" for line in printed)
    return re.fullmatch("".join(parts), text) is not None


def prepare(folder: Path) -> None:
    """Lay out what a page's commands find: the examples, their data and the Makefile."""
    (folder / "examples").mkdir(parents=True)
    for example in (ROOT / "examples").glob("*.sx"):
        (folder / "examples" / example.name).write_bytes(example.read_bytes())
    (folder / "examples" / "data").symlink_to(ROOT / "examples" / "data")
    (folder / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())


def environment(tools: Path) -> dict[str, str]:
    """The environment of a page's shell: `sexpgpu` is this checkout's, and no variable of ours is set."""
    tools.mkdir()
    for name, program in (("sexpgpu", "main"), ("sexpgpu-opt", "opt"), ("sexpgpu-sim", "sim")):
        script = tools / name
        script.write_text(
            f"#!{sys.executable}\nfrom sexpgpu.__main__ import {program}\n\n{program}()\n", encoding="utf-8"
        )
        script.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEXPGPU_", "MAKE"))}
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def run_block(block: Block, folder: Path, variables: Mapping[str, str]) -> list[tuple[Command, list[str], int]]:
    """Each command of a block with the lines it printed on either stream, and its exit code."""
    commands = commands_of(block)
    mark = secrets.token_hex(8)
    script = "".join(f"{c.text}\n__code=$?\nprintf '{mark} %d\\n' $__code\n(exit $__code)\n" for c in commands)
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env=dict(variables),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    pieces = re.split(rf"{mark} (\d+)\n", done.stdout)
    printed, codes = pieces[::2], pieces[1::2]
    return [(c, p.splitlines(), int(code)) for c, p, code in zip(commands, printed, codes, strict=False)]


def faults_of(block: Block, results: Sequence[tuple[Command, list[str], int]]) -> list[str]:
    """What a page shows otherwise than it happened, in words."""
    faults = []
    for place, (command, printed, code) in enumerate(results):
        where = f"{block.page.name}:{command.line}: $ {command.text}"
        shows_code = place + 1 < len(results) and results[place + 1][0].text == "echo $?"
        if code != 0 and not shows_code:
            faults.append(f"{where}\nexit code {code}, and no `echo $?` after it")
        if not matches(command.output, printed):
            lines = difflib.unified_diff(command.output, printed, "shown", "printed", lineterm="", n=1)
            faults.append("\n".join([where, *lines]))
    missing = len(commands_of(block)) - len(results)
    return faults + ([f"{block}: {missing} commands did not run"] if missing else [])


def rewritten(block: Block, results: Sequence[tuple[Command, list[str], int]]) -> str:
    """The text of a block with what the commands printed, where that is not what it shows.

    A line that varies stays as the page has it, where its place is the same.
    """
    lines = []
    for command, printed, _ in results:
        first, *more = command.text.splitlines()
        lines += [f"$ {first}", *(f"> {line}" for line in more)]
        if matches(command.output, printed):
            lines += command.output
        else:
            varying = [line for line in command.output if ANY_TEXT in line]
            lines += [next((v for v in varying if matches([v], [line])), line.rstrip()) for line in printed]
    return "".join(f"{line}\n" for line in lines)
