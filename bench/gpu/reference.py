"""What PyTorch takes for the same work, asked of a process of its own: the Python that has it may be another one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from bench.gpu.cases import Setting

SHARE = 0.55
"""Of the seconds of a case, what PyTorch gets."""
PROGRAM = Path(__file__).resolve().parent / "with_torch.py"


@frozen
class Theirs:
    """Seconds for each piece of work, None where there are none; then `lacking` says why."""

    seconds: tuple[float | None, ...]
    lacking: str = ""


def asked(setting: Setting, work: Sequence[Mapping[str, Any]]) -> Theirs:
    """The seconds of pieces of work, as `with_torch.py` knows them. Without a GPU nothing is asked.

    What is not known when its share of the time is over is left out.
    """
    none = (None,) * len(work)
    if setting.device != "cuda":
        return Theirs(none, "PyTorch is timed on a GPU only")
    try:
        out, said = _answers(setting, json.dumps(list(work)))
    except OSError as fault:
        return Theirs(none, f"{setting.torch}: {fault.strerror}")
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    lacking = next((each["lacking"] for each in found if "lacking" in each), "")
    seconds = {each["place"]: each["seconds"] for each in found if "seconds" in each}
    if not lacking and len(seconds) < len(work):
        lacking = said
    return Theirs(tuple([seconds.get(place) for place in range(len(work))]), lacking)


def _answers(setting: Setting, question: str) -> tuple[str, str]:
    """What the program printed in its time, and why that may not be all."""
    command = [setting.torch, str(PROGRAM)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        out, errors = child.communicate(question, timeout=SHARE * setting.seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        out, _ = child.communicate()
        return out, f"PyTorch took more than {SHARE * setting.seconds:.0f} s"
    lines = errors.strip().splitlines()
    return out, lines[-1] if lines else f"PyTorch ended with exit code {child.returncode}"
