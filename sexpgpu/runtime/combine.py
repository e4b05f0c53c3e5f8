"""What the ranks of a run found in a step, put together, so that every rank has the whole of it.

The sums of a tree are joined subtree by subtree, so that they are those of one device bit for bit. Other sums are added
up in the order of the ranks: two ranks of one microbatch each give what one device gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from sexpgpu.experiment import Experiment, OutputRole
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.fold import MeanFold, Part, SumFold
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.ranks import Team
from sexpgpu.tensortype import DType

Sums = Mapping[str, SumFold]


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

    def __attrs_post_init__(self) -> None:
        graphs = (self.experiment.train_graph, self.experiment.sums_graph)
        outputs = [output for name in graphs if name is not None for output in self.experiment.graphs[name].outputs]
        self._dtypes = {(output.role, output.name): output.type.dtype for output in outputs}

    def totals(self, folds: Sequence[Sums]) -> list[dict[str, Tensor]]:
        """The step's totals on every rank of this process, from one tree of each rank by name."""
        return self._local(folds, True, "step_term")

    def step(self, gatherings: Sequence[Gathering]) -> Combined:
        """All that the microbatches of a step gave, from what each rank of this process gathered."""
        if len(gatherings) == 1:
            (alone,) = gatherings
            own = {path: fold.mean() for path, fold in alone.gradients.items()}
            proposed = {path: fold.mean() for path, fold in alone.averaged.items()}
            return Combined(alone.losses, alone.collected, [own], [alone.buffers(proposed)])
        tree = gatherings[0].tree
        gradients = self._local([_sums(g.gradients) for g in gatherings], tree, "grad")
        averages = self._local([_sums(g.averaged) for g in gatherings], True, "buffer")
        self._share_rows(gatherings)
        self._share_kept(gatherings)
        losses = [loss for each in gatherings for loss in each.losses]
        collected = Collected.joined([g.collected for g in gatherings])
        means = [each.means(sums) for each, sums in zip(gatherings, gradients, strict=True)]
        buffers = [each.buffers(each.means(sums)) for each, sums in zip(gatherings, averages, strict=True)]
        return Combined(losses, collected, means, buffers)

    def _local(self, folds: Sequence[Sums], tree: bool, role: OutputRole) -> list[dict[str, Tensor]]:
        """The sums over the microbatches of this process, on each of its ranks."""
        if len(folds) == 1:
            return [{name: fold.total() for name, fold in folds[0].items()}]
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


def _sums(folds: Mapping[str, MeanFold]) -> Sums:
    return {path: fold.sum for path, fold in folds.items()}
