"""Loops and derivatives inside graphs: a scan is what unrolling it gives, a gradient what its formula says."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.dialects.opdef import Array
from tests.trace.expressions import peak, run, traced_text


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


CELL = "(lambda (h x) (let ((n (tanh (+ (matmul h w) x)))) (values n (* n n))))"
UNROLLED = """
(lambda (h w xs)
  (let ((f {cell}) (ys '()))
    (dolist (turn {order})
      (multiple-value-bind (n y) (funcall f h (gather xs turn :axis {axis}))
        (setq h n) (push y ys)))
    (let ((stacked (stack {collected} {axis})))
      (values (+ (sum (* h h)) (sum (* stacked (arange-like stacked)))) stacked h))))
"""
SCANNED = """
(lambda (h w xs)
  (multiple-value-bind (h stacked) (scan {cell} h xs :axis {axis} :reverse {reverse})
    (values (+ (sum (* h h)) (sum (* stacked (arange-like stacked)))) stacked h)))
"""
ARANGE = "(flet ((arange-like (x) (reshape (cast (arange (size x)) :float) (shape x)))) "


def both(axis: int, reverse: bool) -> tuple[str, str]:
    cell = f"(lambda (h x) (funcall {CELL} h x))"
    order = "'(4 3 2 1 0)" if reverse else "'(0 1 2 3 4)"
    collected = "ys" if reverse else "(reverse ys)"
    unrolled = UNROLLED.format(cell=cell, order=order, axis=axis, collected=collected)
    scanned = SCANNED.format(cell=cell, axis=axis, reverse="t" if reverse else "nil")
    return f"{ARANGE}{unrolled})", f"{ARANGE}{scanned})"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_its_unrolling_in_values_and_gradients(axis: int, reverse: bool) -> None:
    arrays = normal(2, 3), normal(3, 3, seed=1), np.moveaxis(normal(5, 2, 3, seed=2), 0, axis).copy()
    unrolled, scanned = (run(text, *arrays, gradients=True) for text in both(axis, reverse))
    assert len(unrolled) == 6
    for a, b in zip(unrolled, scanned, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-14)


LISTS = """
(lambda (a b xs ks)
  (multiple-value-bind (state ys)
      (scan (lambda (state x)
              (destructuring-bind (p (q)) state
                (destructuring-bind (u k) x
                  (let ((p (+ p (* q u))))
                    (values (list p (list (+ q (cast k :float)))) (list p (sum u)))))))
            (list a (list b)) (list xs ks))
    (values (+ (sum (car state)) (sum (car (cadr state))) (sum (second ys))) (first ys))))
"""


def test_states_items_and_outs_may_be_lists() -> None:
    a, b, xs = normal(3), normal(3, seed=1), normal(4, 3, seed=2)
    ks = np.array([3, 1, 2, 5], np.int32)
    total, first, da, db, dxs = run(LISTS, a, b, xs, ks, gradients=True)
    p, q, rows = a, b, []
    for x, k in zip(xs, ks, strict=True):
        p = p + q * x
        q = q + k
        rows.append(p)
    np.testing.assert_allclose(first, rows)
    np.testing.assert_allclose(total, p.sum() + q.sum() + xs.sum())
    np.testing.assert_allclose(da, np.ones(3))
    np.testing.assert_allclose(db, xs.sum(0) + 1)
    np.testing.assert_allclose(dxs, 1 + np.array([b, b + 3, b + 4, b + 6]))


NESTED = """
(lambda (w xs)                                            ; xs [4 3 2]
  (values (sum (scan (lambda (s row)
                       (values (scan (lambda (s x) (values (+ (* w s) x) nil)) (sin s) row) nil))
                     (zeros '(2)) xs))))
"""


def test_scans_nest() -> None:
    w, xs = normal(2), normal(4, 3, 2, seed=1)
    value, dw, dxs = run(NESTED, w, xs, gradients=True)

    def reference(w: Array, xs: Array) -> float:
        s = np.zeros(2)
        for row in xs:
            s = np.sin(s)
            for x in row:
                s = w * s + x
        return float(s.sum())

    np.testing.assert_allclose(value, reference(w, xs))
    np.testing.assert_allclose(dw, differences(lambda v: reference(v, xs), w), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(dxs, differences(lambda v: reference(w, v), xs), rtol=1e-7, atol=1e-8)


def differences(f, x: Array) -> Array:  # type: ignore[no-untyped-def]
    """Central differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        near, far = x.copy(), x.copy()
        near[place] -= 1e-5
        far[place] += 1e-5
        found[place] = (f(far) - f(near)) / 2e-5
    return found


def test_a_scan_over_nothing_gives_its_first_state() -> None:
    final, ys, *gradients = run(
        """(lambda (h xs)
             (multiple-value-bind (h ys) (scan (lambda (h x) (values (+ h x) h)) h xs) (values (sum h) ys)))""",
        normal(3),
        np.zeros((0, 3)),
        gradients=True,
    )
    np.testing.assert_allclose(final, normal(3).sum())
    assert ys.shape == (0, 3)
    assert [g.shape for g in gradients] == [(3,), (0, 3)]
    np.testing.assert_allclose(gradients[0], 1)


def test_random_numbers_differ_from_turn_to_turn_and_again_in_nested_turns() -> None:
    (drawn,) = run(
        """(lambda (xs)
             (multiple-value-bind (s ys)
                 (scan (lambda (s row)
                         (multiple-value-bind (s ys)
                             (scan (lambda (s x) (values s (+ (* 0.0 x) (random-uniform '(3))))) s row)
                           (values s ys)))
                       (zeros '(1)) xs)
               ys))""",
        np.zeros((4, 5, 3)),
    )
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(lambda (x) (sum (grad (lambda (y) (sum (expt y 3))) x)))", lambda x: 3 * x**2),
        ("(lambda (x) (sum (grad (lambda (y) (sum (grad (lambda (z) (sum (expt z 4))) y))) x)))", lambda x: 12 * x**2),
        ("(lambda (x) (sum (grad (lambda (y) (sum (* y (stop-gradient y)))) x)))", lambda x: x),
        ("(lambda (x) (sum (grad (lambda (y) (sum (* x y))) x)))", lambda x: x),
        ("(lambda (x) (sum (car (grad (lambda (l) (sum (* (car l) (cadr l)))) (list x (sin x))))))", np.sin),
        (
            "(lambda (x) (sum (grad (lambda (y) (sum (* 2.0 (cumsum y :axis 0)))) x)))",
            lambda x: 2.0 * np.arange(5, 0, -1),
        ),
    ],
)
def test_gradients_inside_graphs(text: str, value) -> None:  # type: ignore[no-untyped-def]
    x = normal(5)
    np.testing.assert_allclose(run(text, x)[0], value(x).sum(), rtol=1e-12)


SECOND = """
(lambda (w xs)
  (let ((g (grad (lambda (w)
                   (multiple-value-bind (h ys) (scan (lambda (h x) (let ((h (tanh (+ (* w h) x)))) (values h h)))
                                                     (zeros '(2)) xs)
                     (+ (sum h) (sum (* ys ys)))))
                 w)))
    (sum (* g g))))
"""


def test_a_gradient_through_a_scan_is_differentiated_again() -> None:
    w, xs = normal(2), normal(4, 2, seed=1)
    value, dw, dxs = run(SECOND, w, xs, gradients=True)

    def inner(w: Array, xs: Array) -> float:
        h, total = np.zeros(2), 0.0
        for x in xs:
            h = np.tanh(w * h + x)
            total += float((h * h).sum())
        return total + float(h.sum())

    def reference(w: Array, xs: Array) -> float:
        return float((differences(lambda v: inner(v, xs), w) ** 2).sum())

    np.testing.assert_allclose(value, reference(w, xs), rtol=1e-6)
    np.testing.assert_allclose(dw, differences(lambda v: reference(v, xs), w), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dxs, differences(lambda v: reference(w, v), xs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_associative_scan_gives_inclusive_prefixes(size: int, axis: int) -> None:
    x = np.moveaxis(normal(size, 2, 3), 0, axis).copy()
    sums, products = run(
        f"(lambda (x) (list (associative-scan #'+ x :axis {axis}) (associative-scan #'* x :axis {axis})))", x
    )
    np.testing.assert_allclose(sums, np.cumsum(x, axis), rtol=1e-12)
    np.testing.assert_allclose(products, np.cumprod(x, axis), rtol=1e-12)


def test_an_associative_scan_of_pairs_is_a_linear_recurrence() -> None:
    a, b = normal(7, 2), normal(7, 2, seed=1)
    text = """(lambda (a b)
                (let ((h (cadr (associative-scan
                                 (lambda (p q)
                                   (destructuring-bind (a1 b1) p
                                     (destructuring-bind (a2 b2) q
                                       (list (* a1 a2) (+ (* a2 b1) b2)))))
                                 (list a b)))))
                  (values (sum (* h h)) h)))"""
    _, h, da, _ = run(text, a, b, gradients=True)

    def reference(a: Array) -> list[Array]:
        state, rows = np.zeros(2), []
        for p, q in zip(a, b, strict=True):
            state = p * state + q
            rows.append(state)
        return rows

    np.testing.assert_allclose(h, reference(a), rtol=1e-12)
    np.testing.assert_allclose(da, differences(lambda v: float((np.array(reference(v)) ** 2).sum()), a), atol=1e-7)


def test_unused_results_of_a_loop_are_not_computed() -> None:
    text = "(lambda (h xs) (sum (scan (lambda (h x) (values (+ h x) (exp x))) h xs)))"
    module = traced_text(text, normal(3), normal(4, 3))
    assert "sx.exp" not in module
    assert "train_body.kept" not in module  # the derivative of a sum needs no state


CHECKPOINTED = """
(lambda (w x)
  (let ((y x))
    (dotimes (layer 6)
      (setq y ({form} (tanh (matmul (sin (matmul y w)) (exp (* 0.1 w)))))))
    (sum (* y y))))
"""


def test_a_checkpoint_changes_no_value_and_keeps_less() -> None:
    w, x = 0.3 * normal(16, 16), normal(64, 16, seed=1)
    plain = run(CHECKPOINTED.format(form="identity"), w, x, gradients=True)
    again = run(CHECKPOINTED.format(form="checkpoint"), w, x, gradients=True)
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(b, a)
    most = peak(CHECKPOINTED.format(form="identity"), w, x), peak(CHECKPOINTED.format(form="checkpoint"), w, x)
    assert most[1] < 0.6 * most[0]
    module = traced_text(CHECKPOINTED.format(form="checkpoint"), w, x)
    assert module.count("sx.recompute") >= 6
    assert "sx.checkpoint" not in module
