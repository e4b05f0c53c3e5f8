"""Products by warpgroups, of tiles that bulk copies bring: kernels of sm_90a on the simulator, and planted faults."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.passes.gpu import product, task, warpgroup
from sexpgpu.passes.gpu.kernel import Index
from sexpgpu.passes.gpu.product_bulk import Bulk
from sexpgpu.passes.gpu.product_tiling import WARPGROUP, Problem, Tiling, tiling_of
from sexpgpu.passes.gpu.product_warpgroup import WarpgroupProducts
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.sim import Checks
from tests.gpu.agreement import agrees
from tests.gpu.kernels import Device
from tests.gpu.test_product import factors, multiplied

FUSED = ("sx-fuse=target=cuda", "sx-to-gpu=chip=sm_90a", "sx-to-nvvm=chip=sm_90a", "sx-to-ptx")
ALONE = FUSED[1:]
SMALL = next(t for t in WARPGROUP if (t.rows, t.columns) == (64, 64))
LAYOUTS = ["", "x", "y", "xy"]


def cut(monkeypatch: pytest.MonkeyPatch, tiling: Tiling = SMALL, parts: int = 1) -> None:
    """Cut every product whose factors bulk copies bring in this way, whatever it costs."""

    def chosen(problem: Problem) -> Tiling:
        return evolve(tiling, parts=parts, type=problem.register) if problem.bulk else tiling_of(problem)

    monkeypatch.setattr(product, "tiling_of", chosen)


def by_warpgroups(device: Device) -> bool:
    return any(launch.maps for launch in device.launches())


@pytest.mark.parametrize("tiling", WARPGROUP, ids=str)
@pytest.mark.parametrize("swapped", LAYOUTS)
def test_every_cut_of_ragged_factors(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, swapped: str) -> None:
    cut(monkeypatch, tiling)
    rows, columns, depth = tiling.rows + 8, tiling.columns + 24, 2 * tiling.depth + 40
    types = factors("bf16", rows, columns, depth, swapped)
    assert by_warpgroups(agrees(types, multiplied(swapped), passes=ALONE, checks=Checks.every()))


@pytest.mark.parametrize("race", range(3))
@pytest.mark.parametrize("swapped", LAYOUTS)
def test_the_ring_comes_round(monkeypatch: pytest.MonkeyPatch, swapped: str, race: int) -> None:
    """More steps than slots, in a random order of warps, with each order of the factors' axes."""
    cut(monkeypatch, evolve(SMALL, stages=2 + race % 2))
    types = factors("bf16", 64, 128, 7 * 64, swapped)
    assert by_warpgroups(agrees(types, multiplied(swapped), passes=ALONE, checks=Checks.every(race)))


@pytest.mark.parametrize("race", range(2))
def test_two_warpgroups_in_a_random_order(monkeypatch: pytest.MonkeyPatch, race: int) -> None:
    cut(monkeypatch, evolve(next(t for t in WARPGROUP if (t.rows, t.columns) == (128, 64)), stages=2))
    types = factors("bf16", 136, 72, 5 * 64, "x")
    assert by_warpgroups(agrees(types, multiplied("x"), passes=ALONE, checks=Checks.every(race)))


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(64, 64, 64), (8, 8, 8), (2, 8, 16), (65, 72, 200), (1, 8, 8), (200, 16, 1032)]
)
def test_sizes(monkeypatch: pytest.MonkeyPatch, rows: int, columns: int, depth: int) -> None:
    cut(monkeypatch)
    device = agrees(factors("bf16", rows, columns, depth, ""), multiplied(""), passes=ALONE, checks=Checks.every(1))
    assert by_warpgroups(device)


@pytest.mark.parametrize("swapped", LAYOUTS)
@pytest.mark.parametrize("batch", ["3, ", "2, 3, ", "2, 1, 2, "])
def test_batches(monkeypatch: pytest.MonkeyPatch, batch: str, swapped: str) -> None:
    cut(monkeypatch)
    types = factors("bf16", 72, 64, 88, swapped, batch)
    assert by_warpgroups(agrees(types, multiplied(swapped), passes=ALONE, checks=Checks.every(2)))


def test_heads_and_a_factor_that_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes of a batch that lie inside of the rows, and one along which nothing moves."""
    cut(monkeypatch)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        heads = b("transpose", x, perm=(0, 2, 1, 3))
        return [b("matmul", heads, b("broadcast", w, shape=(2, 3, 32, 40)))]

    device = agrees(["bf16[2, 70, 3, 32]", "bf16[32, 40]"], build, passes=ALONE, checks=Checks.every(3))
    first, second = device.launches()[0].maps
    assert first.strides == tuple(sorted(first.strides))
    assert len(second.shape) == 2


def test_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        part = b("slice", x, start=(3, 16), stop=(93, 96), step=(1, 1))
        return [b("matmul", part, b("slice", w, start=(0, 8), stop=(80, 80), step=(1, 1)))]

    device = agrees(["bf16[100, 104]", "bf16[80, 96]"], build, passes=ALONE, checks=Checks.every(4))
    assert [map.offset for map in device.launches()[0].maps] == [2 * (3 * 104 + 16), 16]


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_the_sum(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    cut(monkeypatch, parts=parts)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias = values
        y = b("matmul", x, w)
        return [b("add", y, b("broadcast", bias, shape=y.type.shape))]

    types = ["bf16[72, 520]", "bf16[520, 40]", "bf16[40]"]
    device = agrees(types, build, passes=FUSED, checks=Checks.every(5))
    assert len(device.launches()) == 2
    assert by_warpgroups(device)


def test_bias_activation_and_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias, residual = values
        y = b("reshape", b("matmul", x, w), shape=(2, 35, 48))
        z = b("add", y, b("broadcast", bias, shape=(2, 35, 48)))
        return [b("add", residual, b("gelu", z, approximate="none"))]

    types = ["bf16[70, 40]", "bf16[40, 48]", "bf16[48]", "bf16[2, 35, 48]"]
    device = agrees(types, build, passes=FUSED, checks=Checks.every(6))
    assert len(device.launches()) == 1
    assert by_warpgroups(device)


def test_results_of_two_shapes_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, mask = values
        y = b("matmul", x, w)
        z = b("reshape", y, shape=(6, 4, 8))
        return [y, b("where", mask, z, b("neg", z)), b("cast", y, dtype="f32")]

    types = ["bf16[6, 16]", "bf16[16, 32]", "bool[6, 4, 8]"]
    assert by_warpgroups(agrees(types, build, passes=FUSED, checks=Checks.every(7)))


def test_indices_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)
    monkeypatch.setattr(task, "_LARGE", 100)
    types = factors("bf16", 72, 72, 136, "x", "2, ")
    assert by_warpgroups(agrees(types, multiplied("x"), passes=ALONE, checks=Checks.every(8)))


@pytest.mark.parametrize(
    ("types", "swapped"),
    [
        (["bf16[64, 60]", "bf16[60, 64]"], ""),  # rows of x begin at multiples of 8 bytes
        (["bf16[64, 64]", "bf16[64, 60]"], ""),
        (["f32[64, 64]", "f32[64, 64]"], ""),
    ],
)
def test_factors_that_bulk_copies_cannot_bring(monkeypatch: pytest.MonkeyPatch, types: list[str], swapped: str) -> None:
    cut(monkeypatch)
    assert not by_warpgroups(agrees(types, multiplied(swapped), passes=ALONE))


def test_a_function_of_a_factor_is_computed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        return [b("matmul", b("neg", x), w)]

    assert not by_warpgroups(agrees(["bf16[64, 64]", "bf16[64, 64]"], build, passes=FUSED))


def test_other_chips_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch)
    passes = tuple(each.replace("sm_90a", "sm_90") for each in ALONE)
    assert not by_warpgroups(agrees(["bf16[64, 64]", "bf16[64, 64]"], multiplied(""), passes=passes))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([t for t in WARPGROUP if t.rows * t.columns <= 64 * 128]),
    st.integers(2, 4),
    st.integers(1, 3),
    st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 50)),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["", "2, "]),
    st.integers(0, 99),
)
def test_any_product(
    tiling: Tiling, stages: int, parts: int, sizes: tuple[int, int, int], swapped: str, batch: str, race: int
) -> None:
    rows, columns, depth = (8 * n for n in sizes)
    steps = -(-depth // tiling.depth)
    while (parts - 1) * -(-steps // parts) >= steps:
        parts -= 1  # each has a step to do
    with pytest.MonkeyPatch.context() as patched:
        cut(patched, evolve(tiling, stages=stages), parts)
        types = factors("bf16", rows, columns, depth, swapped, batch)
        device = agrees(types, multiplied(swapped), passes=ALONE, checks=Checks.every(race))
    assert by_warpgroups(device)
    gc.collect()  # each device reserves addresses


# Planted faults


def products() -> Device:
    """Seven steps through a ring, with factors that lie in both ways."""
    types = factors("bf16", 64, 72, 7 * 64, "")
    return agrees(types, multiplied(""), passes=ALONE, checks=Checks.every(race=0))


def told(run: Callable[[], object]) -> str:
    """What the simulator reports, or that the values are others."""
    try:
        run()
    except SxError as fault:
        return fault.diagnostic.code
    except AssertionError:
        return "values"
    return ""


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    from sexpgpu.sim import mbarrier

    monkeypatch.setattr(mbarrier, "FRUITLESS", 500)
    cut(monkeypatch, evolve(SMALL, stages=2))
    return monkeypatch


def test_nothing_is_planted(ring: pytest.MonkeyPatch) -> None:
    assert told(products) == ""


def test_parities_that_never_change(ring: pytest.MonkeyPatch) -> None:
    def following(self: WarpgroupProducts, slot: Any, parity: Any) -> tuple[Any, Any]:
        return rightly(self, slot, parity)[0], parity

    rightly = WarpgroupProducts._following
    ring.setattr(WarpgroupProducts, "_following", following)
    assert told(products) == "E-SIM-033"


@pytest.mark.parametrize(("which", "code"), [("full", "E-SIM-023"), ("empty", "E-SIM-033")])
def test_nobody_waits(ring: pytest.MonkeyPatch, which: str, code: str) -> None:
    """Consumers that do not wait for tiles; a producer that does not wait for slots."""

    def wait(self: warpgroup.Barriers, number: Index, parity: Any) -> None:
        at = self.base.value.owner.attributes["rawConstantIndices"]
        full = str(at) == f"array<i32: {begin}>"
        if full != (which == "full"):
            rightly(self, number, parity)

    begin = evolve(SMALL, stages=2).ring
    rightly = warpgroup.Barriers.wait
    ring.setattr(warpgroup.Barriers, "wait", wait)
    assert told(products) == code


def test_slots_given_back_while_products_read_them(ring: pytest.MonkeyPatch) -> None:
    def wait(self: warpgroup.Warpgroup, pending: int) -> None:
        rightly(self, 2 if pending else 0)

    rightly = warpgroup.Warpgroup.wait
    ring.setattr(warpgroup.Warpgroup, "wait", wait)
    assert told(products) == "E-SIM-024"


@pytest.mark.parametrize("nbytes", [8192, 32768])
def test_bytes_that_are_not_those_that_come(ring: pytest.MonkeyPatch, nbytes: int) -> None:
    rightly = warpgroup.Barriers.expect
    ring.setattr(warpgroup.Barriers, "expect", lambda self, number, _: rightly(self, number, nbytes))
    assert told(products) == "E-SIM-034"


@pytest.mark.parametrize("name", ["GROUP", "SWIZZLE"])
def test_tiles_that_lie_otherwise(ring: pytest.MonkeyPatch, name: str) -> None:
    """Descriptors with another stride between groups of rows; copies with no swizzle."""
    if name == "GROUP":
        ring.setattr(warpgroup, "GROUP", 512)
    else:
        rightly = Bulk.map
        ring.setattr(Bulk, "map", lambda self, lines, depth: evolve(rightly(self, lines, depth), swizzle=0))
    assert told(products) == "values"


def test_a_corner_that_is_another(ring: pytest.MonkeyPatch) -> None:
    rightly = Bulk.corner
    ring.setattr(Bulk, "corner", lambda self, k, batch, line, place: rightly(self, k, batch, line, k.add(place, 8)))
    assert told(products) == "values"


def test_a_map_of_another_shape(ring: pytest.MonkeyPatch) -> None:
    """Rows behind the last are zeros: a map that does not end there reads what lies behind the tensor."""

    def map(self: Bulk, lines: int, depth: int) -> TensorMap:
        found = rightly(self, lines, depth)
        return evolve(found, shape=(found.shape[0], found.shape[1] + 64))

    rightly = Bulk.map
    ring.setattr(Bulk, "map", map)
    assert told(lambda: agrees(["bf16[64, 64]", "bf16[64, 64]"], multiplied(""), passes=ALONE)) == ""
    types = ["bf16[70, 64]", "bf16[64, 64]"]
    assert told(lambda: agrees(types, multiplied(""), passes=ALONE, checks=Checks.every())) == "E-SIM-020"
