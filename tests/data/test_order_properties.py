"""Every order at any size: a batch is a function of its number, and a pass reads what it promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.data.order import Listed, Order, Random, Sequential, Shuffle, Streams, order_key

KEY = order_key(3, "train-loader")
counts, batches, microbatches = st.integers(1, 60), st.integers(1, 9), st.integers(1, 4)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    count, batch, parts = draw(counts), draw(batches), draw(microbatches)
    kind = draw(st.sampled_from(["sequential", "shuffle", "random", "streams", "listed"]))
    match kind:
        case "sequential":
            return Sequential(count, batch)
        case "shuffle":
            return Shuffle(count, batch, KEY)
        case "random":
            return Random(count, batch, KEY)
        case "streams":
            return Streams(count + batch * parts, batch, parts)
        case _:
            table = np.array([[i % count, -1] for i in range(5)], np.int64)
            return Listed(table, -(-count // batch))


@given(orders(), st.lists(st.integers(0, 10_000), max_size=6))
def test_a_batch_is_a_function_of_its_number(order: Order, asked: list[int]) -> None:
    """So a run resumed at any step reads what the run that never stopped reads."""
    alone = {q: order.indices(q).tolist() for q in asked}
    for q in range(12):
        order.indices(q)
    for q in asked:
        assert order.indices(q).tolist() == alone[q]
        assert order.rows(q) == len(alone[q])


@given(counts, batches, st.integers(0, 4))
def test_a_pass_reads_each_record_once(count: int, batch: int, epoch: int) -> None:
    for order in (Sequential(count, batch), Shuffle(count, batch, KEY)):
        first = epoch * order.epoch_batches
        read = [order.indices(q) for q in range(first, first + order.epoch_batches)]
        assert sorted(np.concatenate(read)) == list(range(count))
        assert all(len(rows) == batch for rows in read[:-1])
        assert len(read[-1]) == (count - 1) % batch + 1


@given(counts, batches, microbatches, st.integers(0, 4))
def test_streams_read_their_records_once_a_pass(count: int, batch: int, parts: int, epoch: int) -> None:
    count += batch * parts
    order = Streams(count, batch, parts)
    first = epoch * order.epoch_batches
    read = np.concatenate([order.indices(q) for q in range(first, first + order.epoch_batches)])
    assert sorted(read) == list(range(count - count % (batch * parts)))


@given(counts, batches, microbatches, st.integers(0, 200))
def test_a_stream_goes_on_from_step_to_step(count: int, batch: int, parts: int, step: int) -> None:
    order = Streams(count + batch * parts, batch, parts)
    whole = order.length * batch * parts
    for microbatch in range(parts):
        now, then = (order.indices((step + i) * parts + microbatch) for i in (0, 1))
        assert (then == (now + 1) % whole).all()


@given(counts, batches, microbatches, st.integers(0, 50))
def test_streams_are_the_same_on_every_split(count: int, batch: int, parts: int, step: int) -> None:
    """A step of one microbatch of 8 rows reads what one of 8 microbatches of a row reads."""
    count += batch * parts
    whole = Streams(count, batch * parts).indices(step)
    split = [Streams(count, batch, parts).indices(step * parts + m) for m in range(parts)]
    assert np.concatenate(split).tolist() == whole.tolist()
