"""Random operations: pure functions of seed, stream, site and counters, the same on every split of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.philox import key_of, philox4x32
from tests.golden.tracing import Case, Outcome, Place, outcomes

Array = NDArray[Any]
SEED = 7
IMAGES = np.arange(1, 8 * 2 * 4 * 3 + 1, dtype=np.float64).reshape(8, 2, 4, 3)

# Forms over a batch x [n, 2, 4, 3]; each draws for its records.
FORMS = {
    "uniform": "(random-uniform (shape x))",
    "uniform-within": "(random-uniform (list (dim x 0) 5) :low -2 :high 3)",
    "uniform-f32": "(random-uniform (list (dim x 0)) :dtype :f32)",
    "normal": "(random-normal (shape x))",
    "integer": "(random-integer (list (dim x 0) 6) 5)",
    "dropout": "(dropout x 0.4)",
    "shift": "(random-shift x 2)",
    "shift-line": "(random-shift x '(1))",
    "crop": "(random-crop x '(2 2))",
    "flip": "(random-flip x)",
    "two": "(list (random-flip x) (random-uniform (list (dim x 0))))",
}
each_form = pytest.mark.parametrize("name", FORMS)


def all_drawn(forms: Mapping[str, str], x: Array = IMAGES, **place: Any) -> dict[str, Outcome]:
    cases = [Case(name, form, {"x": x}) for name, form in forms.items()]
    found = outcomes(cases, place=Place(training=True, seed=SEED, **place))
    return {name: outcome for name, outcome in found.items() if isinstance(outcome, Outcome)}


def drawn(form: str, x: Array = IMAGES, **place: Any) -> Outcome:
    return all_drawn({"": form}, x, **place)[""]


def words(site: str, count: int, *, stream: str = "train", step: int = 0, first: int = 0) -> NDArray[np.uint32]:
    """The four words of each element, by the rule that the language states: u32[count, 4]."""
    low, high = key_of(SEED, stream, site)
    counters = np.zeros((count, 4), np.uint32)
    counters[:, 0] = np.arange(first, first + count)
    counters[:, 2] = step
    return philox4x32(low, high, counters)


def uniform(site: str, count: int, **counted: int) -> Array:
    """53 bits of two words."""
    found = words(site, count, **counted).astype(np.uint64)  # type: ignore[arg-type]
    return ((found[:, 1] << np.uint64(32) | found[:, 0]) >> np.uint64(11)) * 2.0**-53


@pytest.fixture(scope="module")
def whole() -> dict[str, Outcome]:
    """Every form over the batch in step 3."""
    return all_drawn(FORMS, counters={"step": 3})


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Outcome]]:
    """The same, each record in a microbatch of its own."""
    records = enumerate(np.split(IMAGES, 8))
    return [all_drawn(FORMS, record, counters={"step": 3, "microbatch": i}) for i, record in records]


@pytest.fixture(scope="module")
def later() -> list[dict[str, Outcome]]:
    """The same in step 3 once more, and in step 4."""
    return [all_drawn(FORMS, counters={"step": step}) for step in (3, 4)]


@each_form
def test_one_microbatch_of_eight_is_eight_of_one(
    name: str, whole: dict[str, Outcome], alone: list[dict[str, Outcome]]
) -> None:
    for place, together in enumerate(whole[name].values):
        one_by_one = [outcomes[name].values[place][0] for outcomes in alone]
        np.testing.assert_array_equal(np.stack(one_by_one), together)


@each_form
def test_steps_differ_and_repeat(name: str, whole: dict[str, Outcome], later: list[dict[str, Outcome]]) -> None:
    for first, again, other in zip(whole[name].values, *(found[name].values for found in later), strict=True):
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


def test_an_evaluation_draws_the_same_each_time() -> None:
    first, later = (drawn("(random-uniform '(5))", stream="eval", counters={"step": step}) for step in (1, 9))
    np.testing.assert_array_equal(first.values[0], later.values[0])
    np.testing.assert_array_equal(first.values[0], uniform("#1", 5, stream="eval"))  # type: ignore[arg-type]


def test_uniforms_are_bits_of_the_counter() -> None:
    found = drawn(
        "(list (random-uniform '(2 3)) (random-uniform '(4) :dtype :f32))", counters={"step": 5, "microbatch": 2}
    )
    np.testing.assert_array_equal(found.values[0].reshape(-1), uniform("#1", 6, step=5, first=12))
    bits = words("#2", 4, step=5, first=8)[:, 0] >> np.uint32(8)
    np.testing.assert_array_equal(found.values[1], bits.astype(np.float32) * np.float32(2.0**-24))


def test_bounds_scale_a_uniform() -> None:
    (found,) = drawn("(random-uniform '(4) :low -2 :high 3)").values
    np.testing.assert_allclose(found, uniform("#1", 4) * 5 - 2, rtol=1e-14)


def test_normals_are_box_and_muller_of_two_uniforms() -> None:
    (found,) = drawn("(random-normal '(1000))").values
    u, v = uniform("#1", 1000), uniform("#2", 1000)
    np.testing.assert_allclose(found, np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v), rtol=1e-12)
    assert abs(found.mean()) < 0.1
    assert abs(found.std() - 1) < 0.07


def test_integers_are_equally_likely() -> None:
    (found,) = drawn("(random-integer '(6000) 6)").values
    np.testing.assert_array_equal(found, np.floor(uniform("#1", 6000) * 6))
    assert found.dtype == np.int32
    counts = np.bincount(found, minlength=6)
    assert counts.size == 6
    assert np.abs(counts - 1000).max() < 120


def test_dropout_zeroes_and_scales_and_so_does_its_gradient() -> None:
    x = np.linspace(1, 2, 4000)
    found = drawn("(dropout x 0.25)", x)
    kept = (words("#1", 4000)[:, 0] >> np.uint32(8)) * 2.0**-24 >= 0.25
    np.testing.assert_allclose(found.values[0], np.where(kept, x / 0.75, 0), rtol=1e-14)
    assert abs(kept.mean() - 0.75) < 0.03
    gradient = found.gradients["x"]
    assert ((gradient != 0) == kept).all()


def test_dropout_is_for_training_and_for_some_probability() -> None:
    case = [Case("random", "(list (dropout x 0.9) (dropout (* x 2) 0))", {"x": IMAGES})]
    outside = outcomes(case, place=Place(training=False))["random"]
    assert isinstance(outside, Outcome)
    np.testing.assert_array_equal(outside.values[0], IMAGES)
    np.testing.assert_array_equal(drawn("(dropout x 0)").values[0], IMAGES)


def shifted(image: Array, down: int, right: int) -> Array:
    """[c, h, w] moved, zeros coming in."""
    height, width = image.shape[1:]
    wide = np.pad(image, ((0, 0), (height, height), (width, width)))
    return np.asarray(wide[:, height - down : 2 * height - down, width - right : 2 * width - right])


def test_shifts_move_each_record_on_its_own() -> None:
    batch = np.tile(IMAGES[:1], (200, 1, 1, 1))
    (found,) = drawn("(random-shift x 1)", batch).values
    moves = {(d, r): shifted(batch[0], d, r) for d in (-1, 0, 1) for r in (-1, 0, 1)}
    seen = [next(move for move, wanted in moves.items() if np.array_equal(image, wanted)) for image in found]
    assert set(seen) == moves.keys()
    line = drawn("(random-shift x '(1))", batch).values[0]
    assert all(any(np.array_equal(image, moves[0, r]) for r in (-1, 0, 1)) for image in line)


def test_crops_are_pieces_from_everywhere() -> None:
    batch = np.tile(IMAGES[:1], (200, 1, 1, 1))
    (found,) = drawn("(random-crop x '(3 2))", batch).values
    assert found.shape == (200, 2, 3, 2)
    pieces = {(i, j): batch[0][:, i : i + 3, j : j + 2] for i in range(2) for j in range(2)}
    seen = [next(place for place, wanted in pieces.items() if np.array_equal(image, wanted)) for image in found]
    assert set(seen) == pieces.keys()


def test_flips_turn_about_half_of_the_records() -> None:
    batch = np.tile(IMAGES[:1], (200, 1, 1, 1))
    (found,) = drawn("(random-flip x)", batch).values
    turned = [np.array_equal(image, batch[0][..., ::-1]) for image in found]
    assert all(flipped or np.array_equal(image, batch[0]) for flipped, image in zip(turned, found, strict=True))
    assert 70 < sum(turned) < 130


def test_a_shift_takes_its_gradient_back() -> None:
    found = drawn("(random-shift x 1)")
    moved = found.values[0]
    weights = np.cos(np.arange(moved.size) * 0.7 + 0.3).reshape(moved.shape)
    places = {value: place for place, value in np.ndenumerate(IMAGES)}
    wanted = np.zeros(IMAGES.shape)
    for place, value in np.ndenumerate(moved):
        if value:
            wanted[places[value]] += weights[place]
    np.testing.assert_allclose(found.gradients["x"], wanted, rtol=1e-14)
