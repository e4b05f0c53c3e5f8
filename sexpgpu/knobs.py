"""Every environment variable that the program reads, in one table: its type, default and meaning.

A flag of the command line wins over the environment, the environment over the default. Nothing else in the
package looks at the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, Literal, TypeVar

from attrs import field, frozen

from sexpgpu.diag import error, nearest

T = TypeVar("T")
Source = Literal["flag", "environment", "default"]
PREFIX = "SEXPGPU_"
SIZE = "a size such as 8GiB, in B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, up to 1024TiB"
"""What `size` takes, in words."""
LARGEST = 1 << 50
"""Bytes that a size is at most: a float counts them exactly, and no machine has them."""
LONGEST = 24 * 60 * 60
"""Seconds that machines wait at most."""
MOST = 4096
"""Threads at most."""
_SHOWN = 60  # characters of a value that an error shows


@frozen
class Setting(Generic[T]):
    """A value and where it comes from."""

    value: T
    source: Source


@frozen
class Knob(Generic[T]):
    """One variable. `parse` raises ValueError on a text that it does not take; `takes` says what it takes."""

    name: str
    default: T
    parse: Callable[[str], T] = field(repr=False)
    takes: str
    help: str

    def read(self, flag: T | None = None) -> Setting[T]:
        """The value in force; `E-DEV-001` when the environment holds something else than `takes`."""
        if flag is not None:
            return Setting(flag, "flag")
        text = self.text()
        if text is None:
            return Setting(self.default, "default")
        try:
            return Setting(self.parse(text), "environment")
        except ValueError:
            raise error(
                "E-DEV-001",
                f"the environment variable {self.name} has a value that means nothing",
                expected=self.takes,
                actual=text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)",
            ) from None

    def get(self, flag: T | None = None) -> T:
        return self.read(flag).value

    def text(self) -> str | None:
        """What the environment says, whether it means anything or not; an empty text says nothing."""
        return os.environ.get(self.name) or None


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return parse


def _number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return parse


def size(text: str) -> int:
    """Bytes from `8GiB`, `512 MiB`, `2e9` or `64000`, as `SIZE` says; ValueError for anything else."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)\s*(?:([kKMGT])(i?)B|B?)", text.strip())
    if found is None or not 1 <= (count := float(found[1]) * _unit(found[2], found[3])) <= LARGEST:
        raise ValueError(text)
    return int(count)


def _unit(letter: str | None, binary: str | None) -> int:
    return 1 if letter is None else (1024 if binary else 1000) ** ("kMGT".index(letter.replace("K", "k")) + 1)


def _switch(text: str) -> bool:
    return _one_of("0", "1")(text) == "1"


DEVICE = Knob(
    "SEXPGPU_DEVICE",
    "cpu",
    _one_of("cpu", "sim", "cuda"),
    "cpu, sim or cuda",
    "the device that runs the graphs: this machine, a simulated GPU, or GPUs",
)
DEVICES: Knob[str | None] = Knob(
    "SEXPGPU_DEVICES", None, str, "numbers of GPUs, 0,1", "the GPUs of a run, all by default"
)
NODES: Knob[str | None] = Knob("SEXPGPU_NODES", None, str, "a count from 1", "the machines of a run")
NODE_RANK: Knob[str | None] = Knob("SEXPGPU_NODE_RANK", None, str, "a number from 0", "which of the machines this is")
RENDEZVOUS: Knob[str | None] = Knob(
    "SEXPGPU_RENDEZVOUS", None, str, "host:port", "where machine 0 waits for the others"
)
NODE_GRADIENTS: Knob[str | None] = Knob(
    "SEXPGPU_NODE_GRADIENTS", None, str, "bf16 or f32", "how gradients travel between machines"
)
NODE_WAIT: Knob[int] = Knob(
    "SEXPGPU_NODE_WAIT",
    300,
    _number(1, LONGEST),
    f"seconds from 1 to {LONGEST}",
    "how long machines wait for each other before a run begins",
)
CPU = Knob(
    "SEXPGPU_CPU",
    "interp",
    _one_of("interp", "reference"),
    "interp or reference",
    "how the CPU runs graphs: by their plan, or operation by operation from the module",
)
CACHE: Knob[Path | None] = Knob(
    "SEXPGPU_CACHE",
    None,
    Path,
    "a folder, or off",
    "keeps plans of graphs and code of the library there, not in the user's cache folder",
)
CHECK = Knob(
    "SEXPGPU_CHECK",
    False,
    _switch,
    "0 or 1",
    "checks every step: on cpu by the reference beside the plan, on sim with all that it looks for",
)
DUMP: Knob[Path | None] = Knob("SEXPGPU_DUMP", None, Path, "a folder", "writes the module after each stage there")
EXPLAIN: Knob[str | None] = Knob(
    "SEXPGPU_EXPLAIN", None, _one_of("kernels"), "kernels", "lists every launch of each graph in the lowering report"
)
MEMORY: Knob[int | None] = Knob(
    "SEXPGPU_MEMORY", None, size, SIZE, "what a run may hold at once, whatever its file says"
)
TARGET: Knob[str | None] = Knob(
    "SEXPGPU_TARGET",
    None,
    _one_of("sm_80", "sm_90", "sm_90a", "sm_100"),
    "sm_80, sm_90, sm_90a or sm_100",
    "the chip whose kernels a GPU runs, its own by default",
)
TF32 = Knob("SEXPGPU_TF32", False, _switch, "0 or 1", "lets a GPU round factors of f32 products to tf32")
VERIFY = Knob("SEXPGPU_VERIFY", False, _switch, "0 or 1", "verifies the module after every pass")
THREADS: Knob[int | None] = Knob(
    "SEXPGPU_THREADS", None, _number(1, MOST), f"a count from 1 to {MOST}", "threads of the linear algebra library"
)
NO_COLOR = Knob("NO_COLOR", False, lambda text: True, "anything", "no colours on a terminal")

KNOBS: tuple[Knob[str] | Knob[str | None] | Knob[int] | Knob[int | None] | Knob[bool] | Knob[Path | None], ...] = (
    DEVICE,
    DEVICES,
    NODES,
    NODE_RANK,
    RENDEZVOUS,
    NODE_GRADIENTS,
    NODE_WAIT,
    CPU,
    CACHE,
    CHECK,
    DUMP,
    EXPLAIN,
    MEMORY,
    TARGET,
    TF32,
    VERIFY,
    THREADS,
    NO_COLOR,
)


def cache_folder() -> Path | None:
    """Where results of compiling may be kept: SEXPGPU_CACHE, else the user's cache folder; None for `off`."""
    asked = CACHE.get()
    if asked is not None:
        return None if str(asked) == "off" else asked
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "sexpgpu"
    except RuntimeError:  # nobody's home is known
        return None


def limit_threads(count: int | None = None) -> None:
    """Hand SEXPGPU_THREADS, or `count`, to the linear algebra library, which reads it when NumPy is imported."""
    threads = THREADS.get(count)
    if threads is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = str(threads)


def connect_nccl_early() -> None:
    """Tell NCCL, which reads it when its library is loaded, to take all its memory with the communicators."""
    os.environ.setdefault("NCCL_RUNTIME_CONNECT", "0")


def says_of_devices() -> bool:
    """Whether anything is said of several GPUs or machines."""
    said = (DEVICES, NODES, NODE_RANK, RENDEZVOUS, NODE_GRADIENTS, NODE_WAIT)
    return any(knob.text() is not None for knob in said)


def require_sound() -> None:
    """`E-DEV-001` for a variable with a value that means nothing, whether or not this command would look at it."""
    for knob in KNOBS:
        knob.read()


def unknown(environment: Iterable[str] | None = None) -> list[tuple[str, str | None]]:
    """Variables with our prefix that nothing reads, each with the name that was meant, where one is near."""
    names = [knob.name for knob in KNOBS]
    found = sorted(environment if environment is not None else os.environ)
    strange = [name for name in found if name.startswith(PREFIX) and name not in names]
    return [(name, nearest(name, names)) for name in strange]
