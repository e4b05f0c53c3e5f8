"""Graphs for libraries: what is said of them, that it is right, and which of both the device runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import define, evolve, field

from sexpgpu.diag import error
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.driver import lowered_device
from sexpgpu.driver.compile import compiling
from sexpgpu.driver.lowered_device import lowering_for
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.driver import Execute
from sexpgpu.gpu.library import cudnn as frontend
from sexpgpu.gpu.library.choice import Libraries
from sexpgpu.gpu.library.cudnn import Cudnn, build_graph, open_cudnn
from sexpgpu.gpu.memory import from_stored, stored_dtype, to_stored
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.library import Library, LibraryTensor
from sexpgpu.plan.records import DevicePlans, Launches
from sexpgpu.sim import Checks
from sexpgpu.tensortype import DType, TensorType
from tests.gpu.devices import Simulated, compiled, type_of

GPT = Path(__file__).resolve().parents[2] / "bench" / "gpu" / "gpt.sx"
BATCH, HEADS, ROWS, LENGTH = 2, 3, 24, 16
WIDTH = HEADS * LENGTH
FORM: dict[str, Any] = {"scale": 1 / math.sqrt(LENGTH), "causal": True, "window": 0, "rounded": True}
PACKED = type_of((BATCH, ROWS, 3 * WIDTH), "bf16")
OUTER = type_of((BATCH, HEADS, ROWS, LENGTH), "bf16")
LINES = type_of((BATCH, HEADS, ROWS))


def heads(b: Builder, x: Val, part: int) -> Val:
    """One of q, k and v of a packed tensor, as a view."""
    cut = b("slice", x, start=(0, 0, part * WIDTH), stop=(BATCH, ROWS, (part + 1) * WIDTH), step=(1, 1, 1))
    return b("transpose", b("reshape", cut, shape=(BATCH, ROWS, HEADS, LENGTH)), perm=(0, 2, 1, 3))


def both_passes(b: Builder, values: list[Val]) -> Sequence[Val]:
    """y, lse, dq, dk and dv of packed q, k and v and the cotangent of y."""
    packed, g = values
    operands = [heads(b, packed, part) for part in range(3)]
    y, lse = b.several("attention", *operands, **FORM)
    zero = b.constant(0.0, LINES)
    return [y, lse, *b.several("attention_grad", g, zero, *operands, y, lse, **FORM)]


def plans() -> DevicePlans:
    return compiled([PACKED, OUTER], both_passes)


def libraries_of(plans: DevicePlans) -> list[Library]:
    how = [step.how for step in plans.plans["f"].steps]
    return [each.library for each in how if isinstance(each, Launches) and each.library is not None]


def one(
    shape: tuple[int, ...] = (1, 2, 16, 16), dtype: DType = "bf16", *, backward: bool = False, **changed: Any
) -> list[Library]:
    """What is said of an attention whose operands are the arguments of its graph."""
    form = {**FORM, "rounded": dtype == "bf16", **changed}
    outer, lines = type_of(shape, dtype), type_of(shape[:3])
    if not backward:
        return libraries_of(compiled([outer] * 3, lambda b, v: list(b.several("attention", *v, **form))))
    types = [outer, lines, outer, outer, outer, outer, lines]
    return libraries_of(compiled(types, lambda b, v: list(b.several("attention_grad", *v, **form))))


@define(eq=False)
class StandIn:
    """A library whose graphs NumPy computes in the simulator's memory, by nothing but their records."""

    driver: SimDriver
    calls: list[str] = field(factory=list)

    def open(self, library: Library) -> Execute:
        def execute(addresses: Sequence[int]) -> None:
            name = "attention_grad" if library.backward else "attention"
            self.calls.append(name)
            parts = {each.role: (each, at) for each, at in zip(library.tensors, addresses, strict=True)}
            if not library.backward:
                values = [self.read(*parts[role]) for role in ("q", "k", "v")]
                names: tuple[str, ...] = ("y", "lse")
            else:
                values = [self.read(*parts[role]) for role in ("g", "q", "k", "v", "y", "lse")]
                values.insert(1, np.zeros_like(values[-1]))
                names = ("dq", "dk", "dv")
            form = {"scale": library.scale, "causal": library.causal, "window": 0, "rounded": True}
            results = OPS[name].numpy(*values, **form)
            for role, result in zip(names, results, strict=True):
                self.write(*parts[role], result)

        return execute

    def read(self, tensor: LibraryTensor, address: int) -> Array:
        stored = self._whole(tensor, address)
        return from_stored(np.ascontiguousarray(self._shown(tensor, stored)), tensor.type)

    def write(self, tensor: LibraryTensor, address: int, value: Array) -> None:
        stored = self._whole(tensor, address)
        rounded = round_bf16(value) if tensor.type.dtype == "bf16" else value
        self._shown(tensor, stored)[...] = to_stored(rounded, tensor.type)
        self.driver.machine.write(address, stored)

    def _whole(self, tensor: LibraryTensor, address: int) -> Array:
        dtype = stored_dtype(tensor.type)
        reach = 1 + sum((n - 1) * step for n, step in zip(tensor.type.shape, tensor.strides, strict=True))
        return np.frombuffer(bytes(self.driver.machine.read(address, reach * dtype.itemsize)), dtype).copy()

    @staticmethod
    def _shown(tensor: LibraryTensor, stored: Array) -> Array:
        strides = tuple([step * stored.itemsize for step in tensor.strides])
        return np.lib.stride_tricks.as_strided(stored, tensor.type.shape, strides)


def ran(plans: DevicePlans, file: Path | None = None, *, libraries: bool = True) -> tuple[list[Array], StandIn]:
    """The graph's results on a device with or without libraries."""
    driver = SimDriver(Checks())
    stand_in = StandIn(driver)
    if libraries:
        driver.libraries = Libraries("stand-in 1", stand_in.open, Choices(file))
    rng = np.random.default_rng(8)
    arrays = [round_bf16(rng.standard_normal(type.shape, np.float32)) for type in (PACKED, OUTER)]
    return [x.numpy() for x in Simulated(driver).program(plans)(arrays)], stand_in


def test_a_library_that_follows_the_record_gives_what_the_kernels_give(tmp_path: Path) -> None:
    made = plans()
    assert [each.backward for each in libraries_of(made)] == [False, True]
    wanted, _ = ran(made, libraries=False)
    found, stand_in = ran(made, tmp_path / "choices.json")
    assert stand_in.calls.count("attention") > 1, "measured, then run"
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2**-5, atol=2**-5 * np.abs(want).max())


def test_the_faster_is_remembered(tmp_path: Path) -> None:
    made, file = plans(), tmp_path / "choices.json"
    ran(made, file)
    kept = json.loads(file.read_text("utf-8"))
    assert len(kept) == 2
    assert all(each["library"] > 0 and each["kernels"] > 0 for each in kept.values())
    for library, calls in ((1.0, 1), (3.0, 0)):
        file.write_text(json.dumps({key: {"library": library, "kernels": 2.0} for key in kept}), "utf-8")
        _, stand_in = ran(made, file)
        assert stand_in.calls == ["attention", "attention_grad"] * calls
    file.write_text("{damaged", "utf-8")
    ran(made, file)
    assert json.loads(file.read_text("utf-8")).keys() == kept.keys()


def test_without_memory_to_measure_kernels_run() -> None:
    driver = SimDriver()
    stand_in = StandIn(driver)
    libraries = Libraries("stand-in 1", stand_in.open)
    driver.total = 0
    how = next(step.how for step in plans().plans["f"].steps if isinstance(step.how, Launches) and step.how.library)
    assert libraries.choose(driver, how, [64] * 6, lambda places: ()) is None
    assert libraries.chosen == {}


def test_a_library_that_fails_when_it_is_measured_leaves_the_kernels() -> None:
    def fail(addresses: Sequence[int]) -> None:
        raise error("E-DEV-005", "the GPU failed at a graph of cuDNN's", actual="no engine")

    driver = SimDriver()
    driver.libraries = Libraries("failing", lambda library: fail)
    made = plans()
    rng = np.random.default_rng(8)
    arrays = [round_bf16(rng.standard_normal(type.shape, np.float32)) for type in (PACKED, OUTER)]
    found = [x.numpy() for x in Simulated(driver).program(made)(arrays)]
    for got, want in zip(found, ran(made, libraries=False)[0], strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_suits() -> None:
    (forward,) = one()
    assert [each.role for each in forward.tensors] == ["q", "k", "v", "y", "lse"]
    assert forward.tensors[3].strides == (16 * 2 * 16, 16, 2 * 16, 1), "rows before heads, as what comes next reads it"
    assert one(dtype="f32") == []
    assert one((1, 2, 16, 12)) == []
    assert one((1, 2, 16, 136)) == []
    assert one(window=4) == []
    assert one(backward=True) == [], "the cotangent of lse is an argument"


def test_cudnn_takes_the_graphs() -> None:
    cudnn = pytest.importorskip("cudnn")
    for library in libraries_of(plans()):
        built = build_graph(cudnn, library, sm_version=90, sm_count=132)
        built.graph.validate()
        built.graph.build_operation_graph()
        assert len(built.numbers) == len(library.tensors)


def test_cudnn_refuses_what_does_not_suit() -> None:
    """Else the test above would say nothing."""
    cudnn = pytest.importorskip("cudnn")
    (library,) = one()
    odd = [evolve(each, type=TensorType((1, 2, 16, 15), "bf16")) for each in library.tensors[:-1]]
    graph = build_graph(cudnn, evolve(library, tensors=(*odd, library.tensors[-1])), sm_version=90, sm_count=132).graph
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="multiple of 8"):
        graph.validate()


def test_what_is_lacking_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(frontend, "import_module", lacking)
    assert open_cudnn(0, lambda size: 0) == "cuDNN is not installed"

    def no_backend() -> int:
        raise RuntimeError("libcudnn.so.9: cannot open\nmore")

    monkeypatch.setattr(frontend, "import_module", lambda name: SimpleNamespace(backend_version=no_backend))
    assert open_cudnn(0, lambda size: 0) == "cuDNN does not open: libcudnn.so.9: cannot open"
    monkeypatch.setattr(frontend, "import_module", lambda name: SimpleNamespace(backend_version=lambda: 91002))
    assert open_cudnn(0, lambda size: 0) == "cuDNN 9.10.2 is older than 9.13.0"


def test_a_graph_that_cudnn_refuses_leaves_the_kernels() -> None:
    class Refused(Exception):
        pass

    def refuse(**properties: Any) -> Any:
        raise Refused("no engine")

    types = SimpleNamespace(BFLOAT16=0, FLOAT=1)
    module = SimpleNamespace(pygraph=refuse, data_type=types, cudnnGraphNotSupportedError=Refused)
    (library,) = one()
    opened = Cudnn(module, None, "9", lambda size: 0)
    assert opened.executable(library) is None
    assert opened.refused == {library: "no engine"}


def test_the_report_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def notes() -> dict[str, str]:
        with compiling(GPT, Selection("toy"), pipeline="shared") as done:
            return dict(lowering_for(done, "cuda", "sm_90").notes)

    for found, wanted in (
        (None, "own kernels: cuDNN is not installed"),
        (object(), "2 calls by cuDNN or own kernels, as a GPU measures them"),
    ):
        monkeypatch.setattr(lowered_device, "find_spec", lambda name, found=found: found)
        assert notes()["attention"] == wanted
