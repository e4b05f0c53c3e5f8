"""Blocks of a device: used again, counted, let go of when there is no room; arrays in them and their values."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.diag import Span, SxError
from sexpgpu.gpu.driver import NoMemory
from sexpgpu.gpu.faults import Site
from sexpgpu.gpu.memory import SMALL, DeviceArray, Pool, block_size
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.gpu.transfer import copy_array, upload, upload_all
from sexpgpu.tensortype import DTYPES, DType, TensorType

MIB = 1 << 20


def pool(total: int = 64 * MIB, limit: int | None = None) -> Pool:
    return Pool(SimDriver(total=total), limit)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 4097, 100_000, MIB - 1, MIB, MIB + 1, 700 * MIB])
def test_a_block_is_aligned_and_little_larger(nbytes: int) -> None:
    size = block_size(nbytes)
    assert size % 256 == 0
    assert nbytes <= size <= max(256, nbytes * 9 / 8 + 256)


def test_a_block_is_used_again() -> None:
    device = pool()
    first = device.block(1000)
    address, held = first.address, device.held
    del first
    assert device.live == 0
    again = device.block(1000)
    assert (again.address, device.held) == (address, held)


def test_the_peak_is_the_most_that_was_live() -> None:
    device = pool()
    blocks = [device.block(MIB) for _ in range(3)]
    del blocks
    keep = device.block(MIB)
    assert (device.live, device.peak, device.held) == (keep.size, 3 * MIB, 3 * MIB)


def test_blocks_that_wait_go_back_when_another_size_does_not_fit() -> None:
    device = pool(8 * MIB)
    del_me = [device.block(2 * MIB) for _ in range(3)]
    del del_me
    whole = device.block(6 * MIB)
    assert device.refused == [6 * MIB]
    assert (device.held, device.live) == (whole.size, whole.size)


@pytest.mark.parametrize(("total", "limit"), [(8 * MIB, None), (64 * MIB, 8 * MIB)])
def test_what_does_not_fit_at_all_is_said(total: int, limit: int | None) -> None:
    device = pool(total, limit)
    kept = device.block(4 * MIB)
    with pytest.raises(NoMemory) as refused:
        device.block(5 * MIB)
    assert refused.value.nbytes == 5 * MIB
    assert device.held == kept.size


def values(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) - 3
    if dtype == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    kinds = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}
    return numbers.astype(kinds[dtype])


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 4), (40, 60)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_back_as_they_went(dtype: DType, shape: tuple[int, ...]) -> None:
    device = pool()
    type = TensorType(shape, dtype)
    given = values(dtype, shape)
    back = upload(device, given, type).numpy()
    assert (back.dtype, back.shape) == (given.dtype, shape)
    assert np.array_equal(back, given)


def test_bf16_takes_two_bytes() -> None:
    device = pool()
    array = upload(device, values("bf16", (1024, 1024)), TensorType((1024, 1024), "bf16"))
    assert array.memory.pool.live == 2 * MIB


def test_arrays_that_are_not_contiguous_are_uploaded_in_order() -> None:
    device = pool()
    given = values("f32", (6, 4)).T
    assert np.array_equal(upload(device, given, TensorType((4, 6), "f32")).numpy(), given)


def test_small_arrays_travel_together() -> None:
    device = pool()
    arrays = [values(dtype, (2, 3)) for dtype in DTYPES]
    placed = upload_all(device, [(a, TensorType((2, 3), d)) for a, d in zip(arrays, DTYPES, strict=True)])
    assert len({array.memory for array in placed}) == 1
    assert all(array.address % 16 == 0 for array in placed)
    for array, given in zip(placed, arrays, strict=True):
        assert np.array_equal(array.numpy(), given)


def test_a_row_is_the_same_memory() -> None:
    device = pool()
    whole = upload(device, values("f32", (3, 5)), TensorType((3, 5), "f32"))
    copy_array(device, whole[2], upload(device, np.full(5, 9, np.float32), TensorType((5,), "f32")))
    assert whole[1].numpy().tolist() == [2, 3, 4, 5, 6]
    assert whole.numpy()[2].tolist() == [9] * 5


class Counting(SimDriver):
    """Counts the copies to the host."""

    copies = 0

    def copy_out(self, data: np.ndarray, address: int) -> None:
        self.copies += 1
        super().copy_out(data, address)


def test_numbers_are_read_together() -> None:
    driver = Counting()
    device = Pool(driver)
    numbers = [device.array(TensorType((), "f64")) for _ in range(9)]
    for i, number in enumerate(numbers):
        copy_array(device, number, upload(device, np.array(i / 2), TensorType((), "f64")))
    assert [float(number) for number in numbers] == [i / 2 for i in range(9)]
    assert driver.copies == 1
    copy_array(device, numbers[0], upload(device, np.array(7.0), TensorType((), "f64")))
    assert (float(numbers[0]), float(numbers[1])) == (7.0, 0.5)
    assert driver.copies == 2


def test_places_of_small_arrays_are_used_again() -> None:
    device = pool()
    for _ in range(3):
        arrays = [device.array(TensorType((2,), "f64")) for _ in range(5000)]
        assert len({array.address for array in arrays}) == 5000
        del arrays
    assert device.live <= 2 * 4096 * SMALL


def test_a_fault_of_a_kernel_is_told_once() -> None:
    device = pool()
    number = device.array(TensorType((), "f32"))
    device.driver.fill(number.address, 0, SMALL)
    here, there = (Site(graph, Span("run.sx", line, 1, line, 9)) for line, graph in enumerate(("train", "val"), 1))
    records = [device.faults.address(site) for site in (here, there, here)]
    assert records[0] == records[2] != records[1]
    device.driver.copy_in(records[1], np.array([1, -4, 10, 0], np.int32))
    device.writes += 1
    with pytest.raises(SxError) as raised:
        float(number)
    told = raised.value.diagnostic
    assert (told.code, told.expected, told.actual) == ("E-VALUE-101", "indices from 0 to 9", "index -4")
    assert (told.span, told.notes[0].text) == (there.span, "in graph val")
    assert float(number) == 0.0


def test_an_array_holds_on_to_its_memory() -> None:
    device = pool()
    part: DeviceArray = upload(device, values("f32", (4, 256)), TensorType((4, 256), "f32"))[1]
    other = device.block(4 * 256 * 4)
    assert other.address != part.memory.address
    assert part.numpy()[0] == 253
