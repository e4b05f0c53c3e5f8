"""Machine code of every kernel, made by nvJitLink without a GPU: registers, shared and local memory, spills.

    python -m bench.gpu.assemble                       every example in every variant, and the random programs
    python -m bench.gpu.assemble gpt2 --programs 0     one example
    python -m bench.gpu.assemble --chip sm_90 --json out.json

Needs `sexpgpu[cuda]`. Ends with 1 where nvJitLink refuses a module or a kernel spills registers.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from sexpgpu.dialects.context import Context, open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.pipeline import Passes, run_named, steps_of
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.plan.records import DevicePlans, GraphPlan, Launches
from tests.gpu.corpus import COUNT, Member

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ("sm_80", "sm_90", "sm_90a", "sm_100")
WORST = 12
"""How many kernels of the most registers are named."""
PIPELINE = "shared+cuda"
LOWERED = next(step.number for step in steps_of(PIPELINE) if step.name == "to-gpu") - 1
"""The last stage that is the same for every chip."""

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)
_USED = re.compile(r"Used (\d+) registers")
_STATIC = re.compile(r"(\d+) bytes smem")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@frozen
class Kernel:
    """A kernel as machine code; bytes of memory, and of spills as the assembler counts them.

    `shared` is static and dynamic together, `local` the stack frame with those of the functions that it calls, `block`
    the threads of one.
    """

    source: str
    chip: str
    name: str
    registers: int
    shared: int
    local: int
    spilled: int
    block: int

    @property
    def family(self) -> str:
        return re.sub(r"_\d.*", "", self.name)

    @property
    def named(self) -> str:
        return f"{self.source} {self.name} ({self.chip}, {self.block} threads)"


@frozen
class Refused:
    """A module that the assembler does not take, and what it says."""

    source: str
    chip: str
    why: str


class RefusedError(Exception):
    """The assembler does not take a text."""


class Assembling:
    """nvJitLink, and what it has made of modules; a text that comes again is assembled once.

    Raises what importing and loading the library raise where it is not installed.
    """

    def __init__(self) -> None:
        self.linker: Any = import_module("cuda.bindings.nvjitlink")
        self.linker.version()
        self.seen: set[str] = set()
        self.kernels: list[Kernel] = []
        self.refused: list[Refused] = []

    def add(self, source: str, chip: str, plans: DevicePlans) -> None:
        """Assemble the modules of an experiment or a program."""
        launches = {launch.kernel: launch for plan in plans.plans.values() for launch in _launches(plan)}
        for module in plans.modules:
            digest = sha256(module.text.encode()).hexdigest()
            if digest in self.seen:
                continue
            self.seen.add(digest)
            try:
                log = self._log(module.text.encode(), chip)
            except RefusedError as fault:
                self.refused.append(Refused(source, chip, str(fault)))
                continue
            for name, lines in _ENTRY.findall(log):
                launch = launches[name]
                frames = [[int(n) for n in frame] for frame in _FRAME.findall(lines)]
                static = _STATIC.search(lines)
                used = _USED.search(lines)
                assert used is not None, lines
                self.kernels.append(
                    Kernel(
                        source,
                        chip,
                        name,
                        int(used[1]),
                        launch.shared + (int(static[1]) if static else 0),
                        sum(stack for stack, _, _ in frames),
                        sum(stores + loads for _, stores, loads in frames),
                        launch.block[0],
                    )
                )

    def _log(self, text: bytes, chip: str) -> str:
        """What the assembler says of each kernel. Raises RefusedError where it does not take it."""
        linker = self.linker
        handle = linker.create(2, [f"-arch={chip}", "-verbose"])
        try:
            linker.add_data(handle, linker.InputType.PTX, text, len(text), "kernels")
            linker.complete(handle)
            log = bytearray(linker.get_info_log_size(handle))
            linker.get_info_log(handle, log)
        except linker.nvJitLinkError as fault:
            said = bytearray(linker.get_error_log_size(handle))
            linker.get_error_log(handle, said)
            raise RefusedError(said.rstrip(b"\0").decode() or str(fault)) from fault
        finally:
            linker.destroy(handle)
        return log.rstrip(b"\0").decode()


def _launches(plan: GraphPlan) -> Iterator[Any]:
    for step in plan.steps:
        if isinstance(step.how, Launches):
            yield from step.how.kernels
        for body in step.bodies:
            yield from _launches(body)


def lowered(module: Any, context: Context, chips: Sequence[str]) -> Iterator[tuple[str, DevicePlans]]:
    """The plans of a traced module for each chip."""
    run_named(module, context, PIPELINE, Passes(until=LOWERED, part=None))
    for chip in chips:
        copy = context.clone(module)
        run_named(copy, context, f"{PIPELINE}:{chip}", Passes(part=None), LOWERED)
        yield chip, device_plans_of(copy)


def assemble_examples(to: Assembling, names: Sequence[str], chips: Sequence[str]) -> None:
    """Every example as it is written and in every variant that it declares; `smoke` is for tests, which run it."""
    for path in sorted((ROOT / "examples").glob("*.sx")):
        if names and path.stem not in names:
            continue
        declared = re.findall(r"^\(defvariant ([\w-]+)", path.read_text("utf-8"), re.MULTILINE)
        for variant in (None, *[name for name in declared if name != "smoke"]):
            source = f"{path.stem}:{variant}" if variant else path.stem
            with open_context() as context:
                selection = Selection(variant)
                done = run_deep(lambda: compile_in(context, path, selection, pipeline=None))  # noqa: B023
                if done.diagnostics.errors:
                    raise AssertionError(f"{source}: {done.diagnostics.errors}")
                for chip, plans in lowered(done.module, context, chips):
                    to.add(source, chip, plans)
            print(f"{source}: {len(to.kernels)} kernels", file=sys.stderr, flush=True)


def assemble_programs(to: Assembling, count: int, chips: Sequence[str]) -> None:
    for number in range(count):
        with open_context() as context:
            for chip, plans in lowered(Member.of(number).module(context), context, chips):
                to.add(f"program {number}", chip, plans)


def table(kernels: Sequence[Kernel]) -> Iterator[str]:
    """One line a family and chip."""
    yield (
        f"{'family':<12}{'chip':<8}{'kernels':>8}{'registers':>11}{'most':>6}{'shared':>9}{'local':>7}"
        f"{'spilling':>10}{'bytes':>8}"
    )
    keys = sorted({(k.family, k.chip) for k in kernels}, key=lambda key: (key[0], CHIPS.index(key[1])))
    for family, chip in keys:
        of = [k for k in kernels if (k.family, k.chip) == (family, chip)]
        registers = [k.registers for k in of]
        yield (
            f"{family:<12}{chip:<8}{len(of):>8}{statistics.median(registers):>11.0f}{max(registers):>6}"
            f"{max(k.shared for k in of):>9}{max(k.local for k in of):>7}"
            f"{sum(k.spilled > 0 for k in of):>10}{sum(k.spilled for k in of):>8}"
        )


def worst(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The kernels that spill, then those with local memory, then those of the most registers."""
    found = sorted(kernels, key=lambda k: (k.spilled, k.local, k.registers), reverse=True)
    wrong = [k for k in found if k.spilled or k.local]
    for k in (*wrong, *[k for k in found if k not in wrong][:WORST]):
        yield f"{k.registers:>4} registers{k.local:>6} local{k.spilled:>6} spilled{k.shared:>8} shared  {k.named}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", help="examples by name; all without any")
    parser.add_argument("--programs", type=int, default=COUNT, help="how many random programs")
    parser.add_argument("--chip", action="append", choices=CHIPS, help="one of the chips; all without any")
    parser.add_argument("--json", type=Path, help="where every kernel is written to")
    asked = parser.parse_args()
    chips = asked.chip or CHIPS
    to = Assembling()
    try:
        assemble_examples(to, asked.examples, chips)
        assemble_programs(to, asked.programs, chips)
    except KeyboardInterrupt:
        print("stopped: what follows is not all", file=sys.stderr)
    for line in (*table(to.kernels), "", *worst(to.kernels)):
        print(line)
    for refused in to.refused:
        print(f"refused: {refused.source} for {refused.chip}: {refused.why}")
    if asked.json is not None:
        document = {"kernels": [asdict(k) for k in to.kernels], "refused": [asdict(r) for r in to.refused]}
        asked.json.write_text(json.dumps(document, indent=1), "utf-8")
    return 1 if to.refused or any(k.spilled for k in to.kernels) else 0


if __name__ == "__main__":
    sys.exit(main())
