"""Commands of a device that wait for each other: in order, launched as one where they come again."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from sexpgpu.gpu import stream as streams
from sexpgpu.gpu.cuda import open_cuda
from sexpgpu.gpu.memory import DeviceArray, Pool
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.gpu.transfer import copy_array, upload
from sexpgpu.tensortype import TensorType
from tests.gpu.cuda_machine import Gpus

TYPE = TensorType((40,), "f32")


@pytest.fixture(params=["sim", "cuda"])
def pool(request: pytest.FixtureRequest) -> Pool:
    return Pool(SimDriver() if request.param == "sim" else open_cuda(0, Gpus(count=1)))


def step(pool: Pool, target: DeviceArray, *numbers: float) -> list[DeviceArray]:
    """Each number is uploaded and copied; the last lies in `target`."""
    made = []
    for number in numbers:
        copy = pool.array(TYPE)
        copy_array(pool, copy, upload(pool, np.full(40, number, np.float32), TYPE))
        made.append(copy)
    copy_array(pool, target, made[-1])
    return made


def test_what_waits_comes_before_what_the_host_reads(pool: Pool) -> None:
    target = pool.array(TYPE)
    with pool.stream.together():
        made = step(pool, target, 1, 2)
        assert [array.numpy()[7] for array in (*made, target)] == [1, 2, 2]
        step(pool, target, 3)
    assert target.numpy()[39] == 3


def test_steps_that_come_again_are_one_launch_with_what_each_uploads(pool: Pool) -> None:
    target = pool.array(TYPE)
    replayed = []
    for turn in range(5):
        with pool.stream.together():
            made = step(pool, target, turn, turn + 0.5)
            pool.stream.fill(made[0].address, 0, 16)
            assert [array.numpy()[3:5].tolist() for array in made] == [[0, turn], [turn + 0.5] * 2]
            replayed.append(pool.stream.captures.replayed)
            assert target.numpy()[0] == turn + 0.5
        del made
    assert replayed == [0, 1, 2, 3, 4]


def test_a_replay_that_nobody_waited_for_keeps_what_it_uploads(pool: Pool) -> None:
    """The next replay of the same commands brings other numbers only when the first has read its own."""
    target = pool.array(TYPE)
    for turn in range(4):
        with pool.stream.together():
            step(pool, target, turn)
        assert pool.stream.captures.replayed == max(0, turn)
    assert target.numpy()[0] == 3


def test_data_may_change_once_it_was_given(pool: Pool) -> None:
    with pool.stream.together():
        data = np.ones(40, np.float32)
        array = upload(pool, data, TYPE)
        data[:] = 5
        assert array.numpy().tolist() == [1] * 40


@pytest.mark.parametrize("limit", ["_LAUNCHES", "_BYTES"])
def test_not_more_than_a_bound_waits(limit: str, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, limit, {"_LAUNCHES": 4, "_BYTES": 330}[limit])
    target = pool.array(TYPE)
    waiting = []
    with pool.stream.together():
        for turn in range(6):
            step(pool, target, turn)
            waiting.append(len(pool.stream._waiting))
        assert target.numpy()[0] == 5
    assert 0 < max(waiting) <= 8


def test_a_large_upload_does_not_wait(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BYTES", 100)
    target = pool.array(TYPE)
    with pool.stream.together():
        copy_array(pool, target, upload(pool, np.full(40, 2, np.float32), TYPE))
        upload(pool, np.full(40, 3, np.float32), TYPE)
        assert pool.stream._waiting == []
    assert target.numpy()[0] == 2


def test_what_waits_when_a_step_fails_is_not_run(pool: Pool) -> None:
    target = upload(pool, np.zeros(40, np.float32), TYPE)
    with suppress(KeyError), pool.stream.together():
        step(pool, target, 7)
        raise KeyError
    assert target.numpy()[0] == 0
    with pool.stream.together():
        step(pool, target, 8)
    assert target.numpy()[0] == 8
