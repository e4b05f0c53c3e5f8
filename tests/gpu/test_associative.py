"""Associative scans on the simulator against the operations that the CPU runs: values and gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array
from sexpgpu.passes.gpu.kernel import WARP
from sexpgpu.plan.records import Launch
from sexpgpu.sim import Checks
from tests.gpu.agreement import same
from tests.gpu.kernels import ALONE, FUSED, Device
from tests.trace.expressions import run, traced_text

SUMS = "(associative-scan #'+ a :axis {axis})"
PRODUCTS = "(associative-scan #'* a :axis {axis})"
MOST = "(associative-scan #'max a :axis {axis})"
LINEAR = """
(cadr (associative-scan (lambda (p q) (destructuring-bind ((a1 b1) (a2 b2)) (list p q)
                                        (list (* a1 a2) (+ (* a2 b1) b2))))
                        (list a b) :axis {axis}))"""
LOGS = """
(cadr (associative-scan (lambda (p q) (destructuring-bind ((a1 b1) (a2 b2)) (list p q)
                                        (let ((c (+ a2 b1)) (m (max (+ a2 b1) b2)))
                                          (list (+ a1 a2) (+ m (log (+ (exp (- c m)) (exp (- b2 m)))))))))
                        (list a b) :axis {axis}))"""
TWO = """
(let ((both (associative-scan (lambda (p q) (destructuring-bind ((a1 b1) (a2 b2)) (list p q)
                                              (list (* a1 a2) (+ (* a2 b1) b2))))
                              (list a b) :axis {axis})))
  (+ (car both) (* 2.0 (cadr both))))"""
FORMS = {"sums": SUMS, "products": PRODUCTS, "most": MOST, "linear": LINEAR, "logs": LOGS, "two": TWO}


def text_of(form: str, axis: int, arguments: str = "a b") -> str:
    """A function that gives a scalar, for gradients, and the prefixes."""
    return f"(lambda ({arguments}) (let ((h {form.format(axis=axis)})) (values (sum (* h h)) h)))"


def drawn(shape: Sequence[int], dtype: str = "float32", count: int = 2) -> list[Array]:
    """Numbers of both signs near 1, so that long products neither vanish nor explode."""
    rng = np.random.default_rng(7)
    found = [rng.uniform(0.8, 1.1, shape) * rng.choice([-1, 1], shape) for _ in range(count)]
    return [np.asarray(array, dtype) for array in found]


def agrees(
    text: str, arrays: Sequence[Array], checks: Checks | None = None, bound: float = 0.0, skip: str = ""
) -> Device:
    """Compare values and gradients with those of the CPU, and give the device; `bound`: relative to the largest."""
    with np.errstate(all="ignore"):
        wanted = run(text, *arrays, gradients=True)
    with open_context() as context:
        traced = traced_text(text, *arrays, pipeline="shared:cuda", skip=frozenset([skip]))
        module = context.parse_module(traced, "traced.mlir")
        device = Device.of(
            context, module, FUSED if skip != "fuse" else ALONE, checks or Checks(uninitialised=True, traffic=True)
        )
        found = device(arrays)
    for got, want, slot in zip(found, wanted, device.plan.results, strict=True):
        if bound:
            assert np.abs(got - want).max() <= bound * np.abs(want).max()
        else:
            same(got, np.asarray(want), device.plan.slots[slot].type)
    return device


def scans(device: Device) -> list[Launch]:
    """The kernels of scans and their derivatives, in the bodies of loops too."""
    return [launch for launch in device.launches() if launch.kernel.startswith("scan")]


@pytest.mark.parametrize("turns", [1, 2, 3, 31, 33, 257, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_prefixes_and_gradients_of_any_length(form: str, turns: int) -> None:
    device = agrees(text_of(FORMS[form], 1), drawn((2, turns, 3)))
    if turns > 1:
        forward, backward = scans(device)
        threads = forward.block[0], backward.block[0]
        assert all(n > WARP for n in threads) == (turns >= 33), "stretches of turns run side by side"


@pytest.mark.parametrize("shape", [(37,), (2, 3, 12), (40, 50), (12, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_axis(dtype: str, shape: Sequence[int]) -> None:
    for axis in range(len(shape)):
        assert len(scans(agrees(text_of(LINEAR, axis), drawn(shape, dtype)))) == 2


def test_more_elements_than_the_gpu_has_threads_are_a_thread_each() -> None:
    (forward, backward) = scans(agrees(text_of(PRODUCTS, 0, "a"), drawn((9, 70000), count=1)))
    assert forward.block == backward.block == (256, 1, 1)


@pytest.mark.parametrize("form", ["linear", "logs", "two"])
def test_threads_that_share_an_element_race_with_nobody(form: str) -> None:
    agrees(text_of(FORMS[form], 1), drawn((3, 70, 11)), Checks.every(race=3))


def test_bf16_is_rounded_at_every_step() -> None:
    scan = LINEAR.replace("(list a b) :axis", "(list (cast a :bf16) (cast b :bf16)) :axis")
    device = agrees(text_of(f"(cast {scan} :f32)", 1), drawn((3, 40, 5)), bound=2**-4)
    assert len(scans(device)) == 2


def test_a_part_of_the_function_may_have_a_precision_of_its_own() -> None:
    scan = LINEAR.replace("(+ (* a2 b1) b2)", "(with-numerics (:dtype :bf16) (+ (* a2 b1) b2))")
    traced = traced_text(text_of(scan, 0), *drawn((12, 3)), pipeline="shared:cuda", skip=frozenset(["precision"]))
    assert traced.count('sx.numerics = "bf16"') >= 2


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_exact(dtype: str) -> None:
    arrays = [np.arange(120, dtype=dtype).reshape(30, 4) - 50, drawn((3,), count=1)[0]]
    text = f"(lambda (a w) (values (sum w) {MOST.format(axis=0)} {SUMS.format(axis=0)}))"
    assert len(scans(agrees(text, arrays))) == 2


def test_views_are_read_where_they_lie() -> None:
    scan = LINEAR.replace("(list a b) :axis", "(list (flip a 1) (transpose (flip (transpose b) 0))) :axis")
    assert len(scans(agrees(text_of(f"(flip (transpose {scan}) 0)", 1), drawn((20, 33))))) == 2


def test_every_result_of_several_is_given() -> None:
    scan = LINEAR.replace("(cadr ", "(progn ").format(axis=0)
    text = f"""(lambda (a b) (destructuring-bind (x y) {scan} (values (sum (* x y)) x y)))"""
    assert len(scans(agrees(text, drawn((50, 6))))) == 2


OTHERS = {
    "a product of matrices": ("(associative-scan #'matmul a)", (9, 2, 2)),
    "a sum of a line": ("(associative-scan (lambda (x y) (+ y (* 0.1 (sum x :axis 1 :keepdims t)))) a)", (9, 2)),
    "a sum of places": ("(associative-scan (lambda (x y) (+ y (* 0.0 (sum x :axis 0 :keepdims t)))) a)", (9, 2)),
    "another tensor": ("(let ((c (sum a))) (associative-scan (lambda (x y) (+ x (+ y (* 0.0 c)))) a))", (9, 2)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_not_by_elements_stays_operations(what: str) -> None:
    form, shape = OTHERS[what]
    assert not scans(agrees(f"(lambda (a) (let ((h {form})) (values (sum (* h h)) h)))", drawn(shape, count=1)))


AROUND = {
    "checkpoint": "(checkpoint (sin {}))",
    "grad": "(grad (lambda (a) (sum (sin {}))) a)",
    "scan": "(cadr (multiple-value-list (scan (lambda (s a) (values (* s (sum a)) {})) (sum b) (stack (list a b)))))",
    "associative-scan": "(associative-scan (lambda (a b) (+ a b)) {})",
}


@pytest.mark.parametrize("form", ["products", "linear"])
@pytest.mark.parametrize("around", AROUND)
def test_a_scan_within_other_forms(around: str, form: str) -> None:
    device = agrees(text_of(AROUND[around].format(FORMS[form]), 0), drawn((12, 3)))
    assert bool(scans(device)) == (around != "grad"), "a derivative inside the graph looks into the operations"


@pytest.mark.parametrize("skipped", ["prefixes", "simplify", "fuse"])
def test_without_a_pass_values_are_the_same(skipped: str) -> None:
    agrees(text_of(LINEAR, 0), drawn((12, 3)), skip=skipped)
