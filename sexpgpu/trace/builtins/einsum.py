"""Einstein's summation over any number of tensors, traced to diagonals, sums, transposes and matrix products.

    (einsum "bqd,bkd->bqk" q k)  =>  matmul(q, transpose(k))

Operands are contracted from left to right. A label that neither the output nor a later operand has is summed as soon
as it can be: alone in its operand before the product, shared by both as the axis that a matrix product sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.trace.builtins.movement import reshape_to
from sexpgpu.trace.tensor import Tensor, broadcast_to, pointwise, tensors

library = Library("einsum")

Labels = tuple[str, ...]
"""Axes by name: a letter, or `.0`, `.1`, ... for what an ellipsis stands for, counted from the last."""


@frozen
class Term:
    """A tensor with a label for each axis."""

    tensor: Tensor
    labels: Labels

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.labels, self.tensor.type.shape, strict=True))


@library.builtin("einsum", "(specification &rest tensors)")
def einsum(specification: Any, *operands: Any) -> Tensor:
    """Products of the tensors at equal labels, summed over the labels that the output leaves out.

    `"ij,jk->ik"` is a matrix product, `"ii->i"` a diagonal, `"bhqd,bhkd->bhqk"` the scores of attention. Without `->`
    the output has the labels that occur once, in alphabetic order, behind what `...` stands for. Axes under `...`
    broadcast.

    Shapes: a letter a axis, the same size wherever a letter occurs.
    Dtypes: numbers, the same for all.
    Errors: E-VALUE-041 not a specification for these tensors; E-SHAPE-045 a label with two sizes; E-DTYPE-002.
    Source: NumPy `einsum`.
    """
    if not isinstance(specification, str):
        raise _bad(specification, "the specification must be a string")
    if not operands:
        raise _bad(specification, "there are no tensors")
    given = tensors("einsum", *operands)
    inputs, output = _parse(specification, [t.type.rank for t in given])
    sizes = _sizes(given, inputs)
    terms = [_diagonal(_unstretched(Term(t, labels), sizes)) for t, labels in zip(given, inputs, strict=True)]
    missing = [label for label in output if label not in sizes]
    if missing or len(set(output)) != len(output):
        raise _bad(specification, "each label of the output occurs there once and in some operand")
    result = terms[0]
    for i, term in enumerate(terms[1:], 1):
        later = {label for after in terms[i + 1 :] for label in after.labels}
        result = _product(result, term, later.union(output))
    result = _summed(result, output)
    # An axis under `...` that is 1 in every operand was dropped with nothing to bring it back.
    lost = [label for label in output if label not in result.labels]
    wide = Term(reshape_to(result.tensor, (1,) * len(lost) + result.tensor.type.shape), (*lost, *result.labels))
    return _ordered(wide, output)


def _bad(specification: Any, why: str) -> Exception:
    return error(
        "E-VALUE-041",
        f"`einsum`: {show(specification)} does not describe these tensors: {why}",
        expected='labels for each tensor, "ij,jk->ik"',
        actual=show(specification),
    )


def _parse(text: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the output."""
    left, arrow, right = text.replace(" ", "").partition("->")
    words = left.split(",")
    if len(words) != len(ranks):
        raise _bad(text, f"it names {len(words)} tensors, there are {len(ranks)}")
    inputs = [_labels(text, word, rank) for word, rank in zip(words, ranks, strict=True)]
    stretched = max((sum(label[0] == "." for label in labels) for labels in inputs), default=0)
    if arrow:
        return inputs, _labels(text, right, None, stretched)
    every = [label for labels in inputs for label in labels]
    once = sorted(label for label in set(every) if every.count(label) == 1 and label[0] != ".")
    return inputs, (*_ellipsis(stretched), *once)


def _ellipsis(count: int) -> Labels:
    return tuple(f".{i}" for i in reversed(range(count)))


def _labels(text: str, word: str, rank: int | None, stretched: int = 0) -> Labels:
    """The labels of one word; its ellipsis stands for what its letters leave of `rank`, or for `stretched` axes."""
    before, dots, behind = word.partition("...")
    if not all(c.isalpha() for c in before + behind):
        raise _bad(text, "a label is a letter")
    letters = len(before) + len(behind)
    if rank is not None:
        if letters > rank or (letters < rank and not dots):
            raise _bad(text, f"`{word}` has {letters} labels for {rank} axes")
        stretched = rank - letters
    return (*before, *(_ellipsis(stretched) if dots else ()), *behind)


def _sizes(given: Sequence[Tensor], inputs: Sequence[Labels]) -> dict[str, int]:
    """The size of each label; axes under an ellipsis stretch from 1."""
    sizes: dict[str, int] = {}
    for tensor, labels in zip(given, inputs, strict=True):
        for label, size in zip(labels, tensor.type.shape, strict=True):
            known = sizes.setdefault(label, size)
            if label[0] == "." and known == 1:
                sizes[label] = size
            elif known != size and not (label[0] == "." and size == 1):
                raise error(
                    "E-SHAPE-045",
                    f"`einsum`: the label {label} has two sizes, {known} and {size}",
                    expected="one size for a label wherever it occurs",
                    actual=" and ".join(str(t.type) for t in given),
                    notes=[note for t in given for note in t.provenance()],
                )
    return sizes


def _unstretched(term: Term, sizes: dict[str, int]) -> Term:
    """Without the axes of size 1 under an ellipsis: they repeat wherever the label is."""
    kept = [label for label in term.labels if label[0] != "." or term.sizes[label] == sizes[label] != 1]
    if len(kept) == len(term.labels):
        return term
    return Term(reshape_to(term.tensor, tuple(term.sizes[label] for label in kept)), tuple(kept))


def _diagonal(term: Term) -> Term:
    """A label that occurs twice: the elements where both axes agree, every (n + 1)-th of the two axes as one."""
    for label in term.labels:
        if term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            rest = [i for i in range(len(term.labels)) if i not in (first, second)]
            moved = _transposed(term.tensor, [first, second, *rest])
            size, shape = moved.type.shape[0], moved.type.shape[2:]
            flat = reshape_to(moved, (size * size, *shape))
            line = flat.graph.emit(
                "slice",
                flat,
                start=(0,) * (len(shape) + 1),
                stop=flat.type.shape,
                step=(size + 1, *(1,) * len(shape)),
            )
            return _diagonal(Term(line, (label, *(term.labels[i] for i in rest))))
    return term


def _summed(term: Term, kept: Iterable[str]) -> Term:
    """With the labels that nothing else needs summed."""
    wanted = set(kept)
    axes = tuple(i for i, label in enumerate(term.labels) if label not in wanted)
    if not axes:
        return term
    total = term.tensor.graph.emit("sum", term.tensor, axes=axes, keepdims=False)
    return Term(total, tuple(label for label in term.labels if label in wanted))


def _transposed(x: Tensor, perm: Sequence[int]) -> Tensor:
    return x if list(perm) == list(range(len(perm))) else x.graph.emit("transpose", x, perm=tuple(perm))


def _ordered(term: Term, labels: Sequence[str]) -> Tensor:
    return _transposed(term.tensor, [term.labels.index(label) for label in labels])


def _product(a: Term, b: Term, kept: set[str]) -> Term:
    """One product of two tensors, with the shared labels that nothing else needs summed."""
    a = _summed(a, kept.union(b.labels))
    b = _summed(b, kept.union(a.labels))
    batch = [label for label in a.labels if label in b.labels and label in kept]
    folded = [label for label in a.labels if label in b.labels and label not in kept]
    left = [label for label in a.labels if label not in b.labels]
    right = [label for label in b.labels if label not in a.labels]
    sizes = a.sizes | b.sizes
    labels = (*batch, *left, *right)
    shape = tuple(sizes[label] for label in labels)
    n, m, k, r = (math.prod(sizes[label] for label in group) for group in (batch, left, folded, right))
    x, y = _ordered(a, batch + left + folded), _ordered(b, batch + folded + right)
    if folded:
        lead = (n,) if batch else ()
        product = x.graph.emit("matmul", reshape_to(x, (*lead, m, k)), reshape_to(y, (*lead, k, r)))
        return Term(reshape_to(product, shape), labels)
    spread = reshape_to(x, x.type.shape + (1,) * len(right))
    across = reshape_to(y, (*shape[: len(batch)], *(1,) * len(left), *shape[len(batch) + len(left) :]))
    return Term(pointwise("mul", "einsum", broadcast_to(spread, shape), broadcast_to(across, shape)), labels)
