"""cublasLt through the bindings of nvmath-python: the algorithms that it knows for a product, each a way to compute it.

f32 is multiplied as f32 unless the record allows tf32, and sums of bf16 are made and added in f32, never in the type of
the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from attrs import define, frozen

from sexpgpu.diag import error
from sexpgpu.gpu.driver import Execute, NoMemory
from sexpgpu.gpu.library.choice import Ways
from sexpgpu.gpu.library.cublaslt_layout import Described, Matrix, described
from sexpgpu.gpu.library.cudnn import first_line
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.plan.library import ProductGraph

NOT_INSTALLED = "nvmath-python is not installed"
WORKSPACE = 32 << 20
"""Bytes that an algorithm may work in: what the documentation of cuBLAS advises for compute capability 9.0."""
ALGORITHMS = 8
"""The most that are measured."""
_TYPES = {"bf16": "CUDA_R_16BF", "f32": "CUDA_R_32F"}


@frozen(eq=False)
class Bindings:
    """The modules of nvmath-python that say what cublasLt can be asked."""

    lt: Any
    cublas: Any
    types: Any


@define(eq=False)
class CublasLt:
    """cublasLt on the current context: `version`, a handle, the stream of the driver, and memory to work in."""

    bindings: Bindings
    handle: int
    version: str
    stream: int
    workspace: Workspace

    def ways(self, graph: ProductGraph) -> Ways | str:
        """The algorithms that compute a product, the likely fastest first, or why there are none."""
        try:
            call = _Call.of(self.bindings, described(graph))
            call.place_epilogue(graph, [self.workspace.at_least(0)] * len(graph.tensors))
            found = list(self._algorithms(call))
            space = self.workspace.at_least(max((int(each["workspace_size"]) for each in found), default=0))
        except NoMemory as fault:
            return f"no memory for a workspace of {fault.nbytes} bytes"
        except RuntimeError as fault:
            return first_line(fault)
        if not found:
            return "no algorithm computes it"
        return {each["algo"].tobytes().hex(): self._execute(graph, call, each, space) for each in found}

    def _algorithms(self, call: _Call) -> Iterator[Any]:
        lt = self.bindings.lt
        results = np.zeros(ALGORITHMS, lt.matmul_heuristic_result_dtype)
        count = np.zeros(1, np.int32)
        matrices = (call.a, call.b, call.c, call.d)
        try:
            lt.matmul_algo_get_heuristic(
                self.handle, call.operation, *matrices, call.preference, ALGORITHMS, results.ctypes.data,
                count.ctypes.data,
            )  # fmt: skip
        except lt.cuBLASLtError as fault:
            if "NOT_SUPPORTED" in str(fault):
                return
            raise
        yield from (each for each in results[: int(count[0])] if each["state"] == 0)

    def _execute(self, graph: ProductGraph, call: _Call, found: Any, space: int) -> Execute:
        algorithm = np.array(found["algo"])
        size = int(found["workspace_size"])
        places = {each.role: number for number, each in enumerate(graph.tensors)}

        def execute(addresses: Sequence[int]) -> None:
            call.place_epilogue(graph, addresses)
            a, b, d = (addresses[places[role]] for role in ("b", "a", "d"))
            c = addresses[places["c"]] if "c" in places else d
            try:
                self.bindings.lt.matmul(
                    self.handle, call.operation, call.alpha.ctypes.data, a, call.a, b, call.b, call.beta.ctypes.data,
                    c, call.c, d, call.d, algorithm.ctypes.data, space, size, self.stream,
                )  # fmt: skip
            except RuntimeError as fault:
                raise error(
                    "E-DEV-005", "the GPU failed at a product of cublasLt's", actual=first_line(fault)
                ) from None

        return execute


@define(eq=False)
class _Call:
    """The descriptors of a product, which live as long as the process, and its factors on the host."""

    lt: Any
    operation: int
    preference: int
    a: int
    b: int
    c: int
    d: int
    alpha: Any
    beta: Any

    @classmethod
    def of(cls, bindings: Bindings, told: Described) -> _Call:
        lt, types = bindings.lt, bindings.types
        real = int(types.CUDA_R_32F)
        kinds_of_sums = bindings.cublas.ComputeType
        sums = kinds_of_sums.COMPUTE_32F_FAST_TF32 if told.tf32 else kinds_of_sums.COMPUTE_32F
        operation = lt.matmul_desc_create(int(sums), real)
        preference = lt.matmul_preference_create()
        matrices = [_layout(bindings, each) for each in (told.a, told.b, told.c, told.d)]
        scales = [np.array([each], np.float32) for each in (told.scale, float(told.adds))]
        call = cls(lt, operation, preference, *matrices, *scales)
        kinds = lt.MatmulDescAttribute
        choices = bindings.cublas.Operation
        for kind, turned in zip((kinds.TRANSA, kinds.TRANSB), told.transposed, strict=True):
            call.tell(kind, int(choices.T if turned else choices.N))
        call.tell(kinds.EPILOGUE, int(lt.Epilogue[told.epilogue]))
        if told.aux is not None:
            call.tell(kinds.EPILOGUE_AUX_LD, told.aux.pitch)
            call.tell(kinds.EPILOGUE_AUX_BATCH_STRIDE, told.aux.step)
        wanted = lt.MatmulPreferenceAttribute
        call.prefer(wanted.MAX_WORKSPACE_BYTES, WORKSPACE)
        call.prefer(wanted.REDUCTION_SCHEME_MASK, int(lt.ReductionScheme.COMPUTE_TYPE))
        for name, matrix in zip("ABCD", (told.a, told.b, told.c, told.d), strict=True):
            call.prefer(wanted[f"MIN_ALIGNMENT_{name}_BYTES"], matrix.alignment)
        return call

    def place_epilogue(self, graph: ProductGraph, addresses: Sequence[int]) -> None:
        """Say where the bias and the auxiliary matrix lie, which stands in the descriptor."""
        kinds = self.lt.MatmulDescAttribute
        for tensor, address in zip(graph.tensors, addresses, strict=True):
            if tensor.role in ("bias", "aux"):
                self.tell(kinds.BIAS_POINTER if tensor.role == "bias" else kinds.EPILOGUE_AUX_POINTER, address)

    def tell(self, attribute: Any, value: int) -> None:
        data = np.array([value], self.lt.get_matmul_desc_attribute_dtype(attribute))
        self.lt.matmul_desc_set_attribute(self.operation, int(attribute), data.ctypes.data, data.nbytes)

    def prefer(self, attribute: Any, value: int) -> None:
        data = np.array([value], self.lt.get_matmul_preference_attribute_dtype(attribute))
        self.lt.matmul_preference_set_attribute(self.preference, int(attribute), data.ctypes.data, data.nbytes)


def _layout(bindings: Bindings, matrix: Matrix) -> int:
    lt = bindings.lt
    dtype = int(getattr(bindings.types, _TYPES[matrix.dtype]))
    made = lt.matrix_layout_create(dtype, matrix.rows, matrix.columns, matrix.pitch)
    kinds = lt.MatrixLayoutAttribute
    for attribute, value in ((kinds.BATCH_COUNT, matrix.batch), (kinds.STRIDED_BATCH_OFFSET, matrix.step)):
        data = np.array([value], lt.get_matrix_layout_attribute_dtype(attribute))
        lt.matrix_layout_set_attribute(made, int(attribute), data.ctypes.data, data.nbytes)
    return int(made)


def bindings() -> Bindings:
    """The bindings of nvmath-python; ImportError where it is not installed."""
    lt, cublas = (import_module(f"nvmath.bindings.{name}") for name in ("cublasLt", "cublas"))
    return Bindings(lt, cublas, import_module("nvmath").CudaDataType)


def open_cublaslt(stream: int, workspace: Workspace) -> CublasLt | str:
    """cublasLt on the current context and a stream of it, or why it cannot be had."""
    try:
        found = bindings()
    except ImportError:
        return NOT_INSTALLED
    try:
        version = shown_version(int(found.lt.get_version()))
        return CublasLt(found, int(found.lt.create()), version, stream, workspace)
    except (RuntimeError, OSError) as fault:
        return f"cublasLt does not open: {first_line(fault)}"


def shown_version(version: int) -> str:
    """`13.1.0` of 130100, as `cublasLtGetVersion` counts from 12 on."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
