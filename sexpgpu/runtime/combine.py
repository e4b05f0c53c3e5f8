"""What the ranks of a run found in a step, put together, so that every rank has the whole of it.

The sums of a tree are joined subtree by subtree, so that they are those of one device bit for bit. Other sums are added
up in the order of the ranks, those of a process first: two ranks of one microbatch each give what one device gives.
Between processes all of a step goes in one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.experiment import Experiment, OutputRole
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.fold import MeanFold, Part, SumFold
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.message import Kind, Message, Narrowed, Sent, pack, unpack
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.ranks import Team
from sexpgpu.tensortype import DType

Sums = Mapping[str, SumFold]
_ROLES: Mapping[Kind, OutputRole] = {
    "sum": "step_term",
    "grad": "grad",
    "average": "buffer",
    "row": "buffer",
    "kept": "buffer",
}
"""What outputs each kind of array is made from."""


@frozen
class Combined:
    """The step as a whole. Of gradients and buffers each rank of this process has its own, in order."""

    losses: list[Tensor]  # one a microbatch, in order
    collected: Collected
    gradients: list[dict[str, Tensor]]
    buffers: list[dict[str, Tensor]]


@define
class Combining:
    """Puts steps of one experiment together. Between processes `errors` keeps what narrowed gradients lost."""

    team: Team
    experiment: Experiment
    narrowed: Narrowed = field(init=False)
    _dtypes: dict[tuple[OutputRole, str], DType] = field(init=False)

    def __attrs_post_init__(self) -> None:
        peers = self.team.peers
        self.narrowed = Narrowed(peers is not None and peers.gradients == "bf16")
        graphs = (self.experiment.train_graph, self.experiment.sums_graph)
        outputs = [output for name in graphs if name is not None for output in self.experiment.graphs[name].outputs]
        self._dtypes = {(output.role, output.name): output.type.dtype for output in outputs}

    def totals(self, folds: Sequence[Sums]) -> list[dict[str, Tensor]]:
        """The step's totals on every rank of this process, from one tree of each rank by name."""
        if self.team.peers is None:
            return self._local(folds, True, "sum")
        sent = self._parts(folds, True, "sum")
        received = [unpack(each) for each in self.team.peers.exchange(pack(Message(arrays=tuple(sent))))]
        return self._summed(received, "sum", True)

    def step(self, gatherings: Sequence[Gathering]) -> Combined:
        """All that the microbatches of a step gave, from what each rank of this process gathered."""
        if len(gatherings) == 1 and self.team.peers is None:
            (alone,) = gatherings
            means = {path: fold.mean() for path, fold in alone.gradients.items()}
            proposed = {path: fold.mean() for path, fold in alone.averaged.items()}
            return Combined(alone.losses, alone.collected, [means], [alone.buffers(proposed)])
        tree = gatherings[0].tree
        if self.team.peers is not None:
            return self._between_processes(gatherings, tree)
        gradients = self._local([_sums(g.gradients) for g in gatherings], tree, "grad")
        averages = self._local([_sums(g.averaged) for g in gatherings], True, "average")
        self._share_rows(gatherings)
        self._share_kept(gatherings)
        losses = [loss for each in gatherings for loss in each.losses]
        return self._whole(gatherings, losses, Collected.joined([g.collected for g in gatherings]), gradients, averages)

    def _whole(
        self,
        gatherings: Sequence[Gathering],
        losses: list[Tensor],
        collected: Collected,
        gradients: Sequence[dict[str, Tensor]],
        averages: Sequence[dict[str, Tensor]],
    ) -> Combined:
        means = [each.means(sums) for each, sums in zip(gatherings, gradients, strict=True)]
        buffers = [each.buffers(each.means(sums)) for each, sums in zip(gatherings, averages, strict=True)]
        return Combined(losses, collected, means, buffers)

    def _local(self, folds: Sequence[Sums], tree: bool, kind: Kind) -> list[dict[str, Tensor]]:
        """The sums over the microbatches of this process, on each of its ranks."""
        if len(folds) == 1:
            return [{name: fold.total() for name, fold in folds[0].items()}]
        found: list[dict[str, Tensor]] = [{} for _ in folds]
        whole = []  # one array of every rank: the ranks add them up together
        for name in dict.fromkeys(name for each in folds for name in each):
            parts = [each[name].parts() if name in each else [] for each in folds]
            together = not tree and all(parts) and self._dtypes[_ROLES[kind], name] != "bf16"
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

    def _between_processes(self, gatherings: Sequence[Gathering], tree: bool) -> Combined:
        team = self.team
        assert team.peers is not None
        host = team.calls[0].arrays.host
        gradients = self._parts([_sums(g.gradients) for g in gatherings], tree, "grad")
        sent = [self.narrowed.narrow(each) for each in gradients]
        sent += self._parts([_sums(g.averaged) for g in gatherings], True, "average")
        for each in gatherings:
            sent += [Sent("row", path, row, 1, host(each.with_rows[path][row])) for path, row in each.changed]
            sent += [Sent("kept", path, each.first, 1, host(value)) for path, value in each.kept.items()]
        losses = [float(loss) for each in gatherings for loss in each.losses]
        told = Collected.joined([g.collected for g in gatherings]).told()
        received = [unpack(each) for each in team.peers.exchange(pack(Message(losses, told, tuple(sent))))]
        sums, averages = self._summed(received, "grad", tree), self._summed(received, "average", True)
        for arrived in received:
            for array in arrived.arrays:
                if array.kind in ("row", "kept"):
                    self._take(gatherings, array)
        outputs = self.experiment.graphs[self.experiment.train_graph].outputs
        collected = Collected.of([message.collected for message in received], "train", outputs)
        everyone = [loss for message in received for loss in message.losses]
        return self._whole(gatherings, everyone, collected, sums, averages)

    def _take(self, gatherings: Sequence[Gathering], sent: Sent) -> None:
        """A buffer, or a row of one, that some rank's microbatch made; the last one counts."""
        for gathering, arrays in zip(gatherings, self.team.arrays, strict=True):
            placed = arrays.place({"": sent.array}, {"": self._dtypes["buffer", sent.name]})[""]
            if sent.kind == "row":
                gathering.put_row(sent.name, sent.first, placed)
            else:
                gathering.kept[sent.name] = placed

    def _parts(self, folds: Sequence[Sums], tree: bool, kind: Kind) -> list[Sent]:
        """What this process has of each sum: subtrees of a tree, else one sum of all its ranks."""
        team = self.team
        sent = []
        if tree:
            for arrays, own in zip(team.arrays, folds, strict=True):
                for name, fold in own.items():
                    sent += [Sent(kind, name, p.first, p.leaves, arrays.host(p.sum)) for p in fold.parts()]
            return sent
        total = self._local(folds, tree, kind)[0]
        first = team.share(0, self.experiment.run.microbatches).start
        return [Sent(kind, name, first, 1, team.arrays[0].host(value)) for name, value in total.items()]

    def _summed(self, received: Sequence[Message], kind: Kind, tree: bool) -> list[dict[str, Tensor]]:
        """The sums of all processes' parts, on every rank of this one."""
        folds: dict[str, SumFold] = {}
        for message in received:
            for each in message.arrays:
                if each.kind == kind:
                    folds.setdefault(each.name, SumFold(tree)).join(Part(each.first, each.leaves, each.array))
        dtypes = {name: self._dtypes[_ROLES[kind], name] for name in folds}
        sums = {name: fold.total() for name, fold in folds.items()}
        sums |= {name: round_bf16(total) for name, total in sums.items() if dtypes[name] == "bf16"}
        return [arrays.place(sums, dtypes) for arrays in self.team.arrays]


def _sums(folds: Mapping[str, MeanFold]) -> Sums:
    return {path: fold.sum for path, fold in folds.items()}
