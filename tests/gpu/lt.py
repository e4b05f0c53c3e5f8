"""A stand-in for cublasLt: names and numbers of nvmath-python's bindings, products by NumPy as cuBLAS defines them.

    D = f(alpha op(A) op(B) + beta C + bias),    matrices by columns

Nothing here knows of rows: it reads and writes the simulator's memory by what the descriptors say.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.gpu.library.cublaslt import Bindings
from sexpgpu.gpu.sim import SimDriver

HANDLE, STREAM = 7, 11
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
"""As cuBLAS counts the ways to compute."""


@define(eq=False)
class StandInLt:
    """`real` is nvmath.bindings.cublasLt; `algorithms` are how many it claims to know."""

    real: Any
    types: Any
    driver: SimDriver
    algorithms: int = 2
    described: list[dict[str, int]] = field(factory=list)
    epilogues: list[str] = field(factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def bindings(self, cublas: Any) -> Bindings:
        return Bindings(self, cublas, self.types)

    def matmul_desc_create(self, compute_type: int, scale_type: int) -> int:
        return self._new(COMPUTE_TYPE=compute_type, SCALE_TYPE=scale_type)

    def matmul_preference_create(self) -> int:
        return self._new()

    def matrix_layout_create(self, type: int, rows: int, cols: int, ld: int) -> int:
        return self._new(TYPE=type, ROWS=rows, COLS=cols, LD=ld)

    def matmul_desc_set_attribute(self, desc: int, attr: int, buf: int, size: int) -> None:
        self._set(desc, self.real.MatmulDescAttribute(attr), buf, size)

    def matmul_preference_set_attribute(self, pref: int, attr: int, buf: int, size: int) -> None:
        self._set(pref, self.real.MatmulPreferenceAttribute(attr), buf, size)

    def matrix_layout_set_attribute(self, layout: int, attr: int, buf: int, size: int) -> None:
        self._set(layout, self.real.MatrixLayoutAttribute(attr), buf, size)

    def matmul_algo_get_heuristic(
        self, handle: int, operation: int, a: int, b: int, c: int, d: int, preference: int, requested: int,
        results: int, count: int,
    ) -> None:  # fmt: skip
        assert handle == HANDLE
        dtype = self.real.matmul_heuristic_result_dtype
        found = np.zeros(min(self.algorithms, requested), dtype)
        for number, each in enumerate(found):
            each["algo"]["data_"] = number + 1
            each["workspace_size"] = 1 << 10 << number
        ctypes.memmove(results, found.ctypes.data, found.nbytes)
        ctypes.memmove(count, np.array([len(found)], np.int32).ctypes.data, 4)

    def matmul(
        self, handle: int, operation: int, alpha: int, a: int, a_layout: int, b: int, b_layout: int, beta: int,
        c: int, c_layout: int, d: int, d_layout: int, algo: int, space: int, size: int, stream: int,
    ) -> None:  # fmt: skip
        assert (handle, stream) == (HANDLE, STREAM)
        assert size <= 32 << 20
        told = self.described[operation]
        assert told["COMPUTE_TYPE"] in (COMPUTE_32F, COMPUTE_32F_FAST_TF32)
        turned = [told[name] == 1 for name in ("TRANSA", "TRANSB")]
        first, second = self._read(a, a_layout), self._read(b, b_layout)
        if told["COMPUTE_TYPE"] == COMPUTE_32F_FAST_TF32:
            first, second = to_tf32(first), to_tf32(second)
        first, second = (x.swapaxes(-1, -2) if turn else x for x, turn in zip((first, second), turned, strict=True))
        total = _number(alpha) * np.matmul(first, second)
        if _number(beta):
            total = total + _number(beta) * self._read(c, c_layout)
        name = self.real.Epilogue(told["EPILOGUE"]).name
        self.epilogues.append(name)
        self._write(d, d_layout, self._epilogue(name, total.astype(np.float32), told, d_layout))

    def _epilogue(self, name: str, total: Array, told: dict[str, int], d_layout: int) -> Array:
        layout = self.described[d_layout]
        if name.endswith("BIAS"):
            line = {**layout, "COLS": 1, "BATCH_COUNT": 1}
            total = total + self._at(told["BIAS_POINTER"], line)
        aux = {**layout, "LD": told.get("EPILOGUE_AUX_LD", 0)}
        aux["STRIDED_BATCH_OFFSET"] = told.get("EPILOGUE_AUX_BATCH_STRIDE", 0)
        if "AUX" in name:
            self._put(told["EPILOGUE_AUX_POINTER"], aux, total)
        if name.startswith("DGELU"):
            at = self._at(told["EPILOGUE_AUX_POINTER"], aux)
            return np.asarray(OPS["gelu_grad"].numpy(total, at, approximate="tanh"))
        if name.startswith("GELU"):
            return np.asarray(OPS["gelu"].numpy(total, approximate="tanh"))
        return np.maximum(total, 0) if name.startswith("RELU") else total

    def _new(self, **fields: int) -> int:
        self.described.append(fields)
        return len(self.described) - 1

    def _set(self, number: int, attribute: Any, buf: int, size: int) -> None:
        self.described[number][attribute.name] = int.from_bytes(ctypes.string_at(buf, size), "little", signed=True)

    def _read(self, address: int, layout: int) -> Array:
        return self._at(address, self.described[layout])

    def _at(self, address: int, told: dict[str, int]) -> Array:
        """[batch, rows, columns] of matrices by columns."""
        stored = self._stored(address, told)
        wide = stored.astype(np.uint32) << 16 if stored.dtype == np.uint16 else stored.view(np.uint32)
        return self._seen(wide.view(np.float32), told).copy()

    def _write(self, address: int, layout: int, values: Array) -> None:
        self._put(address, self.described[layout], values)

    def _put(self, address: int, told: dict[str, int], values: Array) -> None:
        stored = self._stored(address, told)
        data = np.ascontiguousarray(values, np.float32)
        narrow = stored.dtype == np.uint16
        self._seen(stored, told)[...] = round_bf16(data).view(np.uint32) >> 16 if narrow else data
        self.driver.machine.write(address, stored)

    def _stored(self, address: int, told: dict[str, int]) -> Array:
        dtype = np.dtype(np.uint16 if told["TYPE"] == int(self.types.CUDA_R_16BF) else np.float32)
        last = (told["BATCH_COUNT"] - 1) * told.get("STRIDED_BATCH_OFFSET", 0)
        reach = last + (told["COLS"] - 1) * told["LD"] + told["ROWS"]
        return np.frombuffer(bytes(self.driver.machine.read(address, reach * dtype.itemsize)), dtype).copy()

    @staticmethod
    def _seen(stored: Array, told: dict[str, int]) -> Array:
        shape = told["BATCH_COUNT"], told["ROWS"], told["COLS"]
        steps = told.get("STRIDED_BATCH_OFFSET", 0), 1, told["LD"]
        strides = tuple([step * stored.itemsize for step in steps])
        return np.lib.stride_tricks.as_strided(stored, shape, strides)


def to_tf32(x: Array) -> Array:
    """To the nearest tf32, ties away from zero: 10 bits of mantissa."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _number(address: int) -> float:
    return ctypes.c_float.from_address(address).value
