"""Orders: every operation after what it reads, and never a higher peak than the order as written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.dialects.ops import OPS
from sexpgpu.plan.allocation import cpu_bytes, homes_of, sharing
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.order import better_order, live_peak
from sexpgpu.plan.records import Own
from sexpgpu.tensortype import TensorType

SMALL, LARGE = TensorType((4,), "f32"), TensorType((4096,), "f32")


@st.composite
def dataflows(draw: st.DrawFn) -> Dataflow:
    """Operations on earlier values, some of them read twice or more, so that sizes rise and fall."""
    types = [LARGE, SMALL]
    nodes = []
    for number in range(draw(st.integers(1, 25))):
        sources = tuple(draw(st.lists(st.integers(0, len(types) - 1), min_size=1, max_size=4)))
        large = draw(st.booleans())
        nodes.append(Node("exp", OPS["exp"], {}, sources, (number + 2,)))
        types.append(LARGE if large else SMALL)
    results = tuple(draw(st.sets(st.integers(2, len(types) - 1), min_size=1, max_size=3)))
    return Dataflow(tuple(types), 2, tuple(nodes), results)


def weights(flow: Dataflow) -> list[int]:
    """The bytes of what has no memory of the caller's: what a result is written over in place has some too."""
    homes = homes_of(flow, sharing(flow))
    return [cpu_bytes(type) if isinstance(home, Own) else 0 for type, home in zip(flow.types, homes, strict=True)]


@given(dataflows())
def test_operands_come_first_and_the_peak_never_rises(flow: Dataflow) -> None:
    order = better_order(flow, {})
    assert sorted(order) == list(range(len(flow.nodes)))
    made = {0, 1}
    for number in order:
        assert set(flow.nodes[number].ins) <= made
        made.update(flow.nodes[number].outs)
    roots = list(range(len(flow.types)))
    written = list(range(len(flow.nodes)))
    assert live_peak(flow, weights(flow), roots, order) <= live_peak(flow, weights(flow), roots, written)


@given(dataflows(), st.data())
def test_what_is_held_back_stays_behind(flow: Dataflow, data: st.DataObject) -> None:
    late = data.draw(st.integers(0, len(flow.nodes) - 1))
    early = data.draw(st.integers(0, late))
    behind = {late: early} if early < late else {}
    order = better_order(flow, behind)
    assert all(order.index(before) < order.index(number) for number, before in behind.items())


def test_what_reads_one_value_three_times_is_not_lost() -> None:
    """It frees the value once the other reader has run, and costs less from then on."""
    ins = [(0,), (2,), (2, 2, 2), (4,)]
    types = (LARGE, SMALL, LARGE, SMALL, LARGE, SMALL)
    nodes = tuple(Node("exp", OPS["exp"], {}, given, (number + 2,)) for number, given in enumerate(ins))
    assert sorted(better_order(Dataflow(types, 2, nodes, (3, 5)), {})) == [0, 1, 2, 3]
