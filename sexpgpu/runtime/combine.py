"""What the ranks of a run found in a step, put together, so that every rank has the whole of it.

The sums of a tree are joined subtree by subtree, so that they are those of one device bit for bit. Other sums are added
up in the order of the ranks: two ranks of one microbatch each give what one device gives. Between machines all of a
step goes in one message to machine 0, which adds up in the same order on its host. Where gradients travel as bf16 their
sums do so as well, and machine 0 adds what rounding took from them to those of the next step (Tang et al.,
"DoubleSqueeze", ICML 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import define, field, frozen

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.experiment import Experiment, OutputRole
from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.fold import MeanFold, Part, SumFold, means, totals
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.message import Message, Purpose, Sent, pack, unpack
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.peers import Told
from sexpgpu.runtime.ranks import Team, rounds
from sexpgpu.tensortype import DType

Sums = Mapping[str, SumFold]
_ROLES: Mapping[Purpose, OutputRole] = {"total": "step_term", "gradient": "grad", "average": "buffer"}
"""The outputs of graphs that each kind of sum is of."""


@frozen
class Combined:
    """The step as a whole. Of gradients and buffers each rank of this process has its own, in order."""

    losses: list[Tensor]  # one a microbatch, in order
    collected: Collected
    gradients: list[dict[str, Tensor]]
    buffers: list[dict[str, Tensor]]


@define
class Combining:
    """Puts steps of one experiment together."""

    team: Team
    experiment: Experiment
    _dtypes: dict[tuple[OutputRole, str], DType] = field(init=False)
    _fresh: dict[str, Array] = field(factory=dict, init=False)  # the team's `lacking` of a step that is not kept yet

    def __attrs_post_init__(self) -> None:
        graphs = (self.experiment.train_graph, self.experiment.sums_graph)
        outputs = [output for name in graphs if name is not None for output in self.experiment.graphs[name].outputs]
        self._dtypes = {(output.role, output.name): output.type.dtype for output in outputs}

    def totals(self, folds: Sequence[Sums]) -> list[dict[str, Tensor]]:
        """The step's totals on every rank of this process, from one tree of each rank by name."""
        if self.team.peers is None:
            return self._local(folds, True, "step_term")
        sent = [part for rank, own in enumerate(folds) for part in self._parts(rank, own, "total")]
        sums = self._everywhere(Message(arrays=sent)).arrays
        totals = {each.name: each.array for each in sums}
        dtypes = {name: self._dtypes["step_term", name] for name in totals}
        return [arrays.place(totals, dtypes) for arrays in self.team.arrays]

    def step(self, gatherings: Sequence[Gathering]) -> Combined:
        """All that the microbatches of a step gave, from what each rank of this process gathered."""
        if self.team.peers is not None:
            return self._between_machines(gatherings)
        if len(gatherings) == 1:
            (alone,) = gatherings
            own, proposed = _means(alone.gradients), _means(alone.averaged)
            return Combined(alone.losses, alone.collected, [own], [alone.buffers(proposed)])
        tree = gatherings[0].tree
        gradients = self._local([_sums(g.gradients) for g in gatherings], tree, "grad")
        averages = self._local([_sums(g.averaged) for g in gatherings], True, "buffer")
        self._share_rows(gatherings)
        self._share_kept(gatherings)
        losses = [loss for each in gatherings for loss in each.losses]
        return _whole(gatherings, losses, Collected.joined([g.collected for g in gatherings]), gradients, averages)

    def commit(self) -> None:
        """The step was kept, and with it what rounding has taken from its gradients."""
        for transport in self.team.transports:
            transport.commit()
        self.team.lacking |= self._fresh

    def _local(self, folds: Sequence[Sums], tree: bool, role: OutputRole) -> list[dict[str, Tensor]]:
        """The sums over the microbatches of this process, on each of its ranks."""
        if len(folds) == 1:
            return [dict(zip(folds[0], totals(list(folds[0].values())), strict=True))]
        found: list[dict[str, Tensor]] = [{} for _ in folds]
        whole = []  # one array of every rank: the ranks add them up together
        for name in dict.fromkeys(name for each in folds for name in each):
            parts = [each[name].parts() if name in each else [] for each in folds]
            together = not tree and all(parts) and self._dtypes[role, name] != "bf16"
            sums = [each[0].sum for each in parts] if together else self._joined(parts, tree)
            for total, each in zip(found, sums, strict=True):
                total[name] = each
            if together:
                whole.append(sums)
        if whole:
            assert self.team.links is not None
            self.team.links.add(whole)
        return found

    def _joined(self, parts: Sequence[Sequence[Part]], tree: bool) -> list[Tensor]:
        """The sum on every rank, of parts that are on the ranks they are listed by."""
        assert self.team.links is not None
        folds = [SumFold(tree, arrays=arrays) for arrays in self.team.arrays]
        for rank, own in enumerate(parts):
            for part in own:
                for fold, copy in zip(folds, self.team.links.copies(part.sum, rank), strict=True):
                    fold.join(Part(part.first, part.leaves, copy))
        return [fold.total() for fold in folds]

    def _share_rows(self, gatherings: Sequence[Gathering]) -> None:
        """Give every rank the rows that another's microbatches changed."""
        assert self.team.links is not None
        changed = [(rank, path, row) for rank, each in enumerate(gatherings) for path, row in each.changed]
        for rank, path, row in changed:
            copies = self.team.links.copies(gatherings[rank].with_rows[path][row], rank)
            for other, copy in enumerate(copies):
                if other != rank:
                    gatherings[other].put_row(path, row, copy)

    def _share_kept(self, gatherings: Sequence[Gathering]) -> None:
        """Give every rank what the last microbatch made of buffers that are not averaged."""
        assert self.team.links is not None
        last = next(rank for rank in reversed(range(len(gatherings))) if gatherings[rank].losses)
        for path, value in list(gatherings[last].kept.items()):
            for each, copy in zip(gatherings, self.team.links.copies(value, last), strict=True):
                each.kept[path] = copy

    def _between_machines(self, gatherings: Sequence[Gathering]) -> Combined:
        sent = []
        for rank, each in enumerate(gatherings):
            host = self.team.arrays[rank].host
            sent += self._parts(rank, _sums(each.gradients), "gradient")
            sent += self._parts(rank, _sums(each.averaged), "average")
            sent += [Sent("row", path, row, 1, host(each.with_rows[path][row])) for path, row in each.changed]
            sent += [Sent("kept", path, each.first, 1, host(value)) for path, value in each.kept.items()]
        losses = [float(loss) for each in gatherings for loss in each.losses]
        collected = Collected.joined([each.collected for each in gatherings]).told()
        whole = self._everywhere(Message(losses, [collected], sent))
        sums: dict[Purpose, dict[str, Array]] = {"gradient": {}, "average": {}}
        for array in whole.arrays:
            if array.purpose in sums:
                sums[array.purpose][array.name] = array.values
            else:
                self._take(gatherings, array)
        dtypes = {name: self._dtypes["buffer", name] for name in sums["average"]}
        outputs = self.experiment.graphs[self.experiment.train_graph].outputs
        return _whole(
            gatherings,
            list(whole.losses),
            Collected.of(whole.collected, "train", outputs),
            [transport.placed(sums["gradient"]) for transport in self.team.transports],
            [arrays.place(sums["average"], dtypes) for arrays in self.team.arrays],
        )

    def _parts(self, rank: int, folds: Sums, purpose: Purpose) -> list[Sent]:
        """What one rank of this process has of each sum."""
        host = self.team.arrays[rank].host
        rounded: dict[str, Tensor] = {}  # each the sum of all that this rank has
        sent = []
        for name, fold in folds.items():
            for part in fold.parts():
                if self._rounded(purpose, name):
                    rounded[name] = part.sum
                else:
                    sent.append(Sent(purpose, name, part.first, part.leaves, host(part.sum)))
        if rounded:
            share = self.team.share(rank, self.experiment.run.microbatches)
            bits = self.team.transports[rank].rounded(rounded)
            sent += [Sent(purpose, name, share.start, len(share), array, True) for name, array in bits.items()]
        return sent

    def _everywhere(self, own: Message) -> Message:
        """What all machines together found, on every one of them."""
        assert self.team.peers is not None
        found: list[Message] = []

        def put_together(several: Sequence[Told]) -> Told:
            # What machine 0 found itself, and what it sends to all, is read where it lies.
            found.append(self._joined_messages([own, *map(unpack, several[1:])]))
            return pack(found[0])

        told = self.team.peers.exchange(pack(own), put_together)
        return found[0] if found else unpack(told)

    def _joined_messages(self, messages: Sequence[Message]) -> Message:
        """Machine 0 adds up what all sent. Of buffers that are not averaged the last microbatch's counts."""
        folds: dict[tuple[Purpose, str], SumFold] = {}
        others: dict[tuple[Purpose, str, int], Sent] = {}
        for each in [array for message in messages for array in message.arrays]:
            if each.purpose in _ROLES:
                key = (each.purpose, each.name)
                if key not in folds:
                    folds[key] = SumFold(self._in_tree(each.purpose), arrays=self._host_arrays(*key))
                folds[key].join(Part(each.first, each.leaves, each.values))
            else:
                others[each.purpose, each.name, each.first if each.purpose == "row" else 0] = each
        sums = [self._sum(purpose, name, fold.total()) for (purpose, name), fold in folds.items()]
        losses = [loss for message in messages for loss in message.losses]
        collected = [each for message in messages for each in message.collected]
        return Message(losses, collected, [*sums, *others.values()])

    def _sum(self, purpose: Purpose, name: str, total: Array) -> Sent:
        """A sum as it goes to all machines."""
        if not self._rounded(purpose, name):
            return Sent(purpose, name, 0, 1, total)
        whole = total + self.team.lacking[name] if name in self.team.lacking else total
        nearest = round_bf16(whole)
        self._fresh[name] = np.subtract(whole, nearest)
        return Sent(purpose, name, 0, 1, (nearest.view(np.uint32) >> np.uint32(16)).astype(np.uint16), True)

    def _rounded(self, purpose: Purpose, name: str) -> bool:
        """Whether it travels as bf16."""
        narrow = purpose == "gradient" and rounds(self.experiment.run, self.team.peers)
        return narrow and self._dtypes["grad", name] == "f32"

    def _in_tree(self, purpose: Purpose) -> bool:
        return purpose != "gradient" or self.experiment.run.deterministic

    def _host_arrays(self, purpose: Purpose, name: str) -> Arrays:
        return _RoundedSums() if self._dtypes[_ROLES[purpose], name] == "bf16" else HostArrays()

    def _take(self, gatherings: Sequence[Gathering], sent: Sent) -> None:
        """A buffer, or a row of one, as some microbatch of the step made it."""
        for gathering, arrays in zip(gatherings, self.team.arrays, strict=True):
            placed = arrays.place({"": sent.array}, {"": self._dtypes["buffer", sent.name]})[""]
            if sent.purpose == "row":
                gathering.put_row(sent.name, sent.first, placed)
            else:
                gathering.kept[sent.name] = placed


class _RoundedSums(HostArrays):
    """Sums of bf16 arrays, which round as those of a device do."""

    def plus(self, left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        return [round_bf16(sum) for sum in super().plus(left, right)]


def _whole(
    gatherings: Sequence[Gathering],
    losses: list[Tensor],
    collected: Collected,
    gradients: Sequence[Mapping[str, Tensor]],
    averages: Sequence[Mapping[str, Tensor]],
) -> Combined:
    """The step from its sums, of which each rank has its own."""
    means = [each.means(sums) for each, sums in zip(gatherings, gradients, strict=True)]
    buffers = [each.buffers(each.means(sums)) for each, sums in zip(gatherings, averages, strict=True)]
    return Combined(losses, collected, means, buffers)


def _means(folds: Mapping[str, MeanFold]) -> dict[str, Tensor]:
    return dict(zip(folds, means(list(folds.values())), strict=True))


def _sums(folds: Mapping[str, MeanFold]) -> Sums:
    return {path: fold.sum for path, fold in folds.items()}
