"""The cost model of products: what it chooses, and that it says what it is written to say."""

from __future__ import annotations

import pytest
from attrs import evolve

from sexpgpu.passes.gpu.product_tiling import (
    HELD,
    MULTIPROCESSORS,
    RATES,
    SHARED,
    TENSOR_RATES,
    TILINGS,
    WARPGROUP,
    WARPGROUP_SHARED,
    Problem,
    Tiling,
    clocks,
    tiling_of,
)
from sexpgpu.tensortype import DType

GPT = [
    (1024, 2304, 768),
    (1024, 768, 768),
    (1024, 3072, 768),
    (1024, 768, 3072),
    (1024, 50304, 768),
    (1024, 768, 50304),
    (50304, 768, 1024),
    (768, 2304, 1024),
    (768, 768, 1024),
]


def bound(problem: Problem) -> float:
    """Clocks of the arithmetic alone, spread over all multiprocessors."""
    instruction = "wgmma" if problem.bulk else "mma.m16n8k16"
    rate = TENSOR_RATES[instruction] if problem.dtype == "bf16" else RATES[problem.register]
    return problem.size * problem.depth / rate / MULTIPROCESSORS


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_large_products_take_large_tiles(dtype: DType) -> None:
    problem = Problem(1, 4096, 4096, 4096, dtype)
    tiling = tiling_of(problem)
    assert tiling.instruction == ("mma.m16n8k16" if dtype == "bf16" else "fma")
    assert tiling.parts == 1
    assert bound(problem) < clocks(problem, tiling) < 1.2 * bound(problem)
    if dtype != "f64":  # whose arithmetic is so slow that any tile keeps up with it
        assert (tiling.rows, tiling.columns) == (128, 128)


@pytest.mark.parametrize("shape", GPT, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_sizes_of_a_gpt_fill_the_device(shape: tuple[int, int, int], dtype: DType) -> None:
    problem = Problem(1, *shape, dtype)
    tiling = tiling_of(problem)
    assert tiling.blocks(problem) >= MULTIPROCESSORS // 2
    if dtype == "f32":
        assert clocks(problem, tiling) < 1.9 * bound(problem)


def test_long_sums_of_few_results_are_made_in_parts() -> None:
    problem = Problem(1, 64, 128, 9216, "f32")
    tiling = tiling_of(problem)
    assert tiling.parts > 4
    assert clocks(problem, tiling) < clocks(problem, evolve(tiling, parts=1)) / 3


def test_parts_cost_more_where_the_device_is_full() -> None:
    problem = Problem(1, 4096, 4096, 1024, "bf16")
    tiling = tiling_of(problem)
    assert tiling.parts == 1
    assert clocks(problem, evolve(tiling, parts=2)) > clocks(problem, tiling)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 10, 128), (10, 128, 64), (200, 100, 64), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64"])
def test_small_products_take_small_tiles(rows: int, columns: int, depth: int, dtype: DType) -> None:
    tiling = tiling_of(Problem(1, rows, columns, depth, dtype))
    assert tiling.rows * tiling.columns <= 32 * 64
    assert tiling.parts == 1


@pytest.mark.parametrize("depth", [1, 31, 100, 5000])
def test_every_part_has_a_step(depth: int) -> None:
    problem = Problem(1, 16, 16, depth, "f32")
    tiling = tiling_of(problem)
    whole = -(-depth // tiling.depth)
    assert (tiling.parts - 1) * tiling.steps(problem) < whole <= tiling.parts * tiling.steps(problem)
    assert 2 <= tiling.stages <= tiling.steps(problem) + 1


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_tiles_fit_a_multiprocessor(tiling: Tiling) -> None:
    assert tiling.threads % 32 == 0
    assert tiling.threads <= 1024
    assert tiling.resident * (tiling.shared + 1024) <= SHARED
    assert tiling.resident * tiling.threads * tiling.registers <= 65536


def test_shared_memory_holds_the_stages_or_the_sums() -> None:
    tensor = next(t for t in TILINGS if t.instruction != "fma" and t.rows == t.columns == 128)
    assert tensor.stages * sum(tensor.slots) * 2 == 4 * (128 + 128) * 32 * 2
    assert tensor.shared == 128 * 136 * 4  # which is more than the stages take
    small = next(t for t in TILINGS if t.instruction == "fma" and t.rows == t.columns == 32)
    assert small.shared == small.stages * sum(small.slots) * 4


@pytest.mark.parametrize("scattered", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_few_scattered_elements_are_held_at_once(dtype: DType, scattered: tuple[bool, bool]) -> None:
    problem = Problem(1, 64, 12544, 288, dtype, scattered)
    tiling = tiling_of(problem)
    for lines, one_by_one in zip((tiling.rows, tiling.columns), scattered, strict=True):
        assert not one_by_one or lines * tiling.depth <= HELD * tiling.threads
    assert clocks(problem, tiling) > clocks(evolve(problem, scattered=(False, False)), tiling)


def test_short_sums_that_share_no_factors_are_made_by_single_threads() -> None:
    depthwise = Problem(64, 1, 200704, 9, "f32", (False, True))
    assert tiling_of(depthwise).instruction == "dot"
    assert str(tiling_of(depthwise)) == "dot, 256 threads"
    assert tiling_of(Problem(1, 64, 200704, 288, "f32", (False, True))).instruction == "fma"


def test_elements_that_pass_through_registers_take_room() -> None:
    """A weight that is cast on its way: the sums and the elements that a thread holds fit beside each other."""
    given = Problem(1, 32000, 1024, 384, "bf16")
    cast = evolve(given, passed=(0, 1))
    tiling = tiling_of(cast)
    assert tiling_of(given).passing == 0
    assert tiling.passing == tiling.columns * tiling.depth // tiling.threads
    assert tiling.registers == evolve(tiling, passing=0).registers + tiling.passing
    assert tiling.resident * tiling.threads * tiling.registers <= 65536


@pytest.mark.parametrize("tiling", WARPGROUP, ids=str)
def test_tiles_of_warpgroups_fit_a_multiprocessor(tiling: Tiling) -> None:
    assert tiling.threads == tiling.workers + 32 == 2 * tiling.rows + 32
    assert tiling.resident * (tiling.shared + 1024) <= WARPGROUP_SHARED
    assert tiling.resident * tiling.threads * tiling.registers <= 65536
    assert tiling.ring % 16 == 0  # where barriers begin
    assert tiling.slot_bytes % 1024 == 0  # where the swizzle begins anew


def test_warpgroups_make_large_products_of_factors_that_bulk_copies_bring() -> None:
    problem = Problem(1, 4096, 4096, 4096, "bf16", bulk=True)
    tiling = tiling_of(problem)
    assert (tiling.instruction, tiling.rows, tiling.columns) == ("wgmma", 128, 256)
    assert bound(problem) < clocks(problem, tiling) < clocks(problem, tiling_of(evolve(problem, bulk=False)))
    for dtype in ("f32", "f64", "i32"):
        assert tiling_of(evolve(problem, dtype=dtype)).instruction == "fma"


@pytest.mark.parametrize("shape", [(1, 300, 40), (64, 10, 100), (16, 16, 4096)], ids=str)
def test_products_too_small_for_warpgroups(shape: tuple[int, int, int]) -> None:
    assert tiling_of(Problem(1, *shape, "bf16", bulk=True)).instruction != "wgmma"


@pytest.mark.parametrize("shape", GPT, ids=str)
def test_products_of_a_gpt_are_no_slower_by_warpgroups(shape: tuple[int, int, int]) -> None:
    problem = Problem(1, *shape, "bf16", bulk=True)
    by_warps = evolve(problem, bulk=False)
    assert clocks(problem, tiling_of(problem)) <= clocks(by_warps, tiling_of(by_warps))
