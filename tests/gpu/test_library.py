"""The choice between a step's kernels and a library: measured, remembered, and left to the kernels where it fails."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sexpgpu.diag import error
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.driver import Execute, NoMemory
from sexpgpu.gpu.library import cublaslt, cudnn
from sexpgpu.gpu.library.choice import Libraries, Source
from sexpgpu.gpu.library.opened import open_libraries
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.plan.library import AttentionGraph, ProductGraph
from sexpgpu.plan.records import DevicePlans, Launches
from sexpgpu.sim import Checks
from tests.gpu.devices import compiled, type_of
from tests.gpu.libraries import StandIn, everything, libraries_of, ran

TYPES = [type_of((192, 160), "bf16"), type_of((160, 224), "bf16")]


def product(b: Builder, values: list[Val]) -> Sequence[Val]:
    return [b("matmul", *values)]


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)


@pytest.fixture
def plans(small_products_too: None) -> DevicePlans:
    return compiled(TYPES, product)


def operands() -> list[Array]:
    rng = np.random.default_rng(8)
    return [round_bf16(rng.standard_normal(type.shape, np.float32)) for type in TYPES]


def measured(plans: DevicePlans, file: Path) -> tuple[Array, StandIn]:
    """The result on a device with a library that is measured."""
    driver = SimDriver(Checks())
    stand_in = StandIn(driver)
    (found,) = ran(plans, operands(), everything(Source("stand-in 1", stand_in.ways), Choices(file)), driver)
    return found, stand_in


def test_the_faster_is_remembered(plans: DevicePlans, tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    measured(plans, file)
    ((key, times),) = json.loads(file.read_text("utf-8")).items()
    assert times.keys() == {"library", "kernels"}
    for library, calls in ((1.0, 1), (3.0, 0)):
        file.write_text(json.dumps({key: {"library": library, "kernels": 2.0}}), "utf-8")
        _, stand_in = measured(plans, file)
        assert stand_in.calls == ["product"] * calls


def test_what_was_measured_is_told_once(plans: DevicePlans, tmp_path: Path) -> None:
    driver = SimDriver(Checks())
    libraries = everything(Source("stand-in 1", StandIn(driver).ways), Choices(tmp_path / "choices.json"))
    ran(plans, operands(), libraries, driver)
    (way,) = libraries.chosen.values()
    taken = int(way == "library")
    assert libraries.news() == [f"stand-in 1 computes {taken} of 1 kinds of steps that were measured"]
    assert libraries.news() == []


def test_a_way_that_was_not_there_is_measured(plans: DevicePlans, tmp_path: Path) -> None:
    """As with the algorithms of a library that were others when the file was written."""
    file = tmp_path / "choices.json"
    measured(plans, file)
    ((key, _),) = json.loads(file.read_text("utf-8")).items()
    file.write_text(json.dumps({key: {"another": 1.0, "kernels": 2.0}}), "utf-8")
    measured(plans, file)
    assert json.loads(file.read_text("utf-8"))[key].keys() == {"library", "kernels"}


def test_without_memory_to_measure_kernels_run(plans: DevicePlans) -> None:
    driver = SimDriver()
    libraries = everything(Source("stand-in 1", StandIn(driver).ways), Choices())
    driver.total = 0
    (how,) = [step.how for step in plans.plans["f"].steps if isinstance(step.how, Launches)]
    assert libraries.choose(driver, how, [64] * 3, lambda places: ()) is None
    assert libraries.chosen == {}


def failing(addresses: Sequence[int]) -> None:
    raise error("E-DEV-005", "the GPU failed at a product of cublasLt's", actual="no engine")


def test_a_way_that_fails_when_it_is_measured_leaves_the_others(plans: DevicePlans) -> None:
    driver = SimDriver(Checks())
    stand_in = StandIn(driver)

    def ways(library: Any) -> Mapping[str, Execute]:
        return {"failing": failing, **stand_in.ways(library)}

    libraries = everything(Source("stand-in 1", ways), Choices())
    (by_library,) = ran(plans, operands(), libraries, driver)
    assert stand_in.calls, "the way that works is measured"
    assert list(libraries.refused.values()) == ["no engine"]
    (by_kernels,) = ran(plans, operands(), None, SimDriver(Checks()))
    np.testing.assert_allclose(by_library, by_kernels, rtol=2**-7)


def test_a_library_that_only_fails_leaves_the_kernels(plans: DevicePlans) -> None:
    libraries = everything(Source("failing", lambda library: {"failing": failing}), Choices())
    (found,) = ran(plans, operands(), libraries, SimDriver(Checks()))
    (wanted,) = ran(plans, operands(), None, SimDriver(Checks()))
    np.testing.assert_array_equal(found, wanted)
    assert set(libraries.chosen.values()) == {"kernels"}


def test_why_a_library_refuses_is_kept(plans: DevicePlans) -> None:
    libraries = everything(Source("stand-in 1", lambda library: "no algorithm"), Choices())
    (found,) = ran(plans, operands(), libraries, SimDriver(Checks()))
    (wanted,) = ran(plans, operands(), None, SimDriver(Checks()))
    np.testing.assert_array_equal(found, wanted)
    assert libraries.refused == {libraries_of(plans)[0]: "no algorithm"}
    wanted_line = (
        "stand-in 1 does not compute a product of bf16[1, 192, 160] and bf16[1, 160, 224]: no algorithm; own kernels"
    )
    assert libraries.news() == [wanted_line]
    assert libraries.news() == [], "told once"


def test_work_spaces_are_shared_and_bounded() -> None:
    given: list[int] = []

    def allocate(nbytes: int) -> int:
        given.append(nbytes)
        return 4096 * len(given)

    workspace = Workspace(allocate, 1000)
    first = workspace.at_least(600)
    assert workspace.at_least(500) == first, "one graph runs at a time"
    with pytest.raises(NoMemory):
        workspace.at_least(601)
    assert given == [600]


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(cudnn, "import_module", lacking)
    monkeypatch.setattr(cublaslt, "import_module", lacking)
    libraries: Libraries = open_libraries(0, lambda size: 0, 0, Choices())
    assert libraries.sources[AttentionGraph] == "cuDNN is not installed"
    assert libraries.sources[ProductGraph] == "nvmath-python is not installed"


def test_what_does_not_open_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise RuntimeError("libcudnn.so.9: cannot open\nmore")

    workspace = Workspace(lambda size: 0, 0)
    monkeypatch.setattr(cudnn, "import_module", lambda name: SimpleNamespace(backend_version=fails))
    assert cudnn.open_cudnn(0, workspace) == "cuDNN does not open: libcudnn.so.9: cannot open"
    monkeypatch.setattr(cudnn, "import_module", lambda name: SimpleNamespace(backend_version=lambda: 91002))
    assert cudnn.open_cudnn(0, workspace) == "cuDNN 9.10.2 is older than 9.13.0"
    monkeypatch.setattr(cublaslt, "import_module", lambda name: SimpleNamespace(get_version=fails, CudaDataType=None))
    assert cublaslt.open_cublaslt(0, workspace) == "cublasLt does not open: libcudnn.so.9: cannot open"
