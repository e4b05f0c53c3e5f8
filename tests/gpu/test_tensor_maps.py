"""Tensor maps of kernels' arguments: encoded for the addresses of a call, by each driver; chips that have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import define, evolve, field

from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.driver.devices import chip_of
from sexpgpu.driver.devices import opened as opened_device
from sexpgpu.gpu.cubin import Assembler
from sexpgpu.gpu.driver import Run, Words
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.gpu.transfer import upload
from sexpgpu.passes.gpu import product
from sexpgpu.passes.gpu.product_tiling import Problem, Tiling
from sexpgpu.plan.records import DevicePlans, Launch, Launches
from sexpgpu.plan.store import load_kernels, save
from sexpgpu.plan.tensor_maps import WORDS, TensorMap
from sexpgpu.sim import Checks
from tests.gpu.cuda_api import Api
from tests.gpu.devices import Simulated, compiled, type_of
from tests.gpu.kernels import launches_of
from tests.gpu.test_cuda import opened
from tests.gpu.test_product_warpgroup import SMALL

HALF = type_of((64, 64), "bf16")
MAP = TensorMap(0, 16, (80, 40), (160,), (64, 32), 128)


@define(eq=False)
class Counting(SimDriver):
    """Writes down the addresses that maps are encoded for."""

    checks: Checks = field(factory=Checks.every)
    seen: list[int] = field(factory=list)

    def encode(self, map: TensorMap, address: int) -> Words:
        self.seen.append(address)
        return super().encode(map, address)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> DevicePlans:
    """(x y) y: the second product reads what the first has put in the arena."""

    def chosen(problem: Problem) -> Tiling:
        return evolve(SMALL, type=problem.register)

    def build(b: Builder, values: list[Val]) -> list[Val]:
        x, y = values
        return [b("matmul", b("matmul", x, y), y)]

    monkeypatch.setattr(product, "tiling_of", chosen)
    return compiled([HALF, HALF], build, "sm_90a")


def numbers(seed: int) -> np.ndarray:
    """Small integers, whose products are exact."""
    return np.random.default_rng(seed).integers(-1, 2, HALF.shape).astype(np.float32)


def test_maps_are_of_the_addresses_of_a_call(plans: DevicePlans) -> None:
    driver = Counting()
    device = Simulated(driver)
    program = device.program(plans)

    def call(x: DeviceArray, y: DeviceArray, target: DeviceArray) -> None:
        program([x, y], [target])
        first = x.numpy() @ y.numpy()
        assert np.array_equal(target.numpy(), np.float32(first @ y.numpy()))

    x, other, y = (upload(device.pool, numbers(seed), HALF) for seed in range(3))
    target = device.pool.array(HALF)
    call(x, y, target)
    assert sorted(driver.seen[1:]) == sorted([x.address, y.address, y.address])  # the arena's was known before
    driver.seen.clear()
    call(x, y, target)
    call(x, y, target)
    assert program.captured == 1
    assert driver.seen == []
    call(other, y, target)
    assert driver.seen == [other.address]
    call(x, y, target)  # as it was captured
    assert driver.seen == [other.address]


def launches(plans: DevicePlans) -> list[Launch]:
    return launches_of(plans.plans["f"])


def test_plans_that_are_kept_have_their_maps(plans: DevicePlans, tmp_path: Path) -> None:
    save(tmp_path, "key", plans)
    kept = load_kernels(tmp_path, "key")
    assert kept is not None
    assert launches(kept) == launches(plans)
    assert [len(launch.maps) for launch in launches(kept)] == [2, 2]
    assert all(isinstance(step.how, Launches) for step in kept.plans["f"].steps)


def test_what_cuda_is_asked_to_encode() -> None:
    api = Api()
    driver = opened(api)
    assert driver.encode(MAP, 4096).tolist() == list(range(4112, 4128))
    ((dtype, rank, address, *rest),) = api.encoded
    assert (dtype, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, 4112)
    assert rest[:4] == [[80, 40], [160], [64, 32], [1, 1]]
    assert rest[5] == "CU_TENSOR_MAP_SWIZZLE_128B"


def test_a_launch_shows_cuda_the_words_of_a_map() -> None:
    api = Api()
    driver = opened(api)
    words = np.array([8192, *driver.encode(MAP, 4096)], np.uint64)
    pointers = np.uint64(words.ctypes.data) + np.array([0, 8], np.uint64)
    driver.run(Run("kernel", (1, 1, 1), (160, 1, 1), 0, words, pointers, (WORDS,)))
    assert api.launched == [("kernel", (1, 1, 1), (160, 1, 1), 0, [8192, 4112])]


@pytest.mark.parametrize(
    ("capability", "chip"),
    [((8, 0), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90a"), ((10, 0), "sm_100"), ((12, 1), "sm_100")],
)
def test_the_chip_of_a_gpu(capability: tuple[int, int], chip: str) -> None:
    assert chip_of(capability) == chip


def test_a_chip_that_is_asked_for() -> None:
    assert [chip_of((9, 0), asked) for asked in ("sm_80", "sm_90", "sm_90a")] == ["sm_80", "sm_90", "sm_90a"]
    for capability, asked in (((9, 0), "sm_100"), ((10, 0), "sm_90a"), ((8, 6), "sm_90")):
        with pytest.raises(SxError) as raised:
            chip_of(capability, asked)
        assert raised.value.diagnostic.code == "E-DEV-001"


def test_a_simulated_gpu_runs_the_kernels_of_any_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_TARGET", "sm_90a")
    with opened_device("sim") as device:
        assert (device.chip, device.words) == ("sm_90a", "sim sm_90a, PTX interpreter")


def test_kernels_of_one_chip_are_assembled_for_it(plans: DevicePlans, tmp_path: Path) -> None:
    linker = pytest.importorskip("cuda.bindings.nvjitlink")
    try:
        linker.version()
    except RuntimeError:
        pytest.skip("nvJitLink is not installed")
    (module,) = plans.modules
    made = Assembler(tmp_path).cubin(module, (9, 0))
    assert made is not None
    assert made[:4] == b"\x7fELF"
    plain = evolve(module, text=module.text.replace("sm_90a", "sm_90"))
    assert Assembler().cubin(plain, (9, 0)) is None  # which has no such instructions
