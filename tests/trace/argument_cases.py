"""Calls of everything that the library defines, each argument written out, and wrong values to put in their places.

A row is a call that is in order and what makes use of what it gives. `varied` puts each wrong value in the place of
each argument. What the library takes is no longer a matter of opinion then: test_arguments.py has it as a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import read_text

WRONG: Final = {
    "negative": "-1",
    "zero": "0",
    "float": "1.5",
    "nan": "(- infinity infinity)",
    "huge": "1000000000000",
    "nil": "nil",
    "keyword": ":nonsense",
    "text": '"text"',
    "tensor": "v",
    "optimizer": "(adam)",
}

USES: Final = {
    "": "{}",
    "count": "(record-count {})",
    "init": "(funcall {} '(2 3))",
    "schedule": "(funcall {} (sum x))",
    "optimizer": "(%updated {})",
    "of x": "(%applied {} x)",
    "of i": "(%applied {} i)",
    "of s": "(%applied {} s)",
    "of b": "(%applied {} b)",
    "of image": "(%applied {} image)",
}
"""What is done with the value of a call: a layer is called, an initializer asked, an update traced."""

VALUES: Final = """
(def x (ones '(4 3))) (def i (constant '(0 1 1 0))) (def s (ones '(1 2 6))) (def image (ones '(1 2 6 6)))
(def q (ones '(1 2 4 6))) (def b (ones '(2 4 6))) (def v (ones '(7)))
"""

_PLAIN: Final = """
(zeros '(2 3) :dtype :f32)
(ones '(2 3) :dtype :f32)
(full '(2 3) 1.0 :dtype :f32)
(arange 0 5 1)
(eye 3 :dtype :f32)
(constant '(1 2) :dtype :f32)
(random-uniform '(2 3) :low 0.0 :high 1.0 :dtype :f32)
(random-normal '(2 3) :dtype :f32)
(random-integer '(2 3) 5)
(dropout x 0.5)
(random-shift image 1)
(random-crop image '(2 2))
(random-flip image)
(gelu x :approximate :tanh)
(where (> x 0) x 1.0)
(clip x 0.0 1.0)
(lerp x x 0.5)
(cast x :f32)
(isfinite x)
(reshape x '(3 4))
(transpose x '(1 0))
(broadcast-to x '(2 4 3))
(squeeze s 0)
(unsqueeze x 0)
(slice x 0 0 2 1)
(concat (list x x) 0)
(stack (list x x) 0)
(split x 2 0)
(pad x '((1 1) (0 0)) :value 0.0)
(flip x 0)
(repeat-axis x 2 0)
(tile x '(1 3))
(dim x 0)
(sum x :axis 0 :keepdims t)
(var x :axis 0 :keepdims t :ddof 1)
(argmax x :axis 0 :keepdims t)
(softmax x :axis 0)
(logsumexp x :axis 0 :keepdims t)
(cumsum x :axis 0 :reverse t)
(matmul x (transpose x))
(einsum "ij,kj->ik" x x)
(conv s (ones '(4 2 3)) :stride 1 :padding 1 :dilation 1 :groups 1)
(pool-max s 2 :stride 1 :padding 1)
(pool-avg s 2 :stride 1 :padding 1)
(gather x i :axis 0)
(embed x i)
(take-along-axis x (constant '((0) (1) (0) (0))) 1)
(scatter-add x i x :axis 0)
(index-update x i x :axis 0)
(top-k x 2)
(one-hot i 3 :dtype :f32)
(causal-mask 3)
(tril x 0)
(scan (lambda (s v) (values (+ s v) s)) (sum x :axis 0) x :axis 0 :reverse t)
(grad (lambda (v) (sum v)) x)
(associative-scan #'+ x :axis -2)
(counter 'seen 3)
(step-mean (sum x) 2.0)
(group "*" :lr 0.1)
(optimizer-groups (sgd) (group "*" :lr 0.1))
(repeat 3 1)
(fan '(2 3))
(next-token x :temperature 1.0 :top-k 2 :top-p 0.5)
(cross-entropy x i :label-smoothing 0.1 :z-loss 0.1 :ignore-index 5 :weights '(1 1 1))
(mse x x)
(huber x x :delta 1.0)
(bce x x)
(kl x x)
(accuracy x i)
(perplexity (sum x))
(bits-per-byte (sum x) 2.0)
(attend q q q :causal t :scale 1.0 :window 2 :mask (causal-mask 4) :bias (ones '(4 4)) :dropout 0.1)
(rotary b :base 100.0 :offset 0)
(alibi-slopes 4)
(alibi-bias 2 3 4)
(linear-recurrence x x :axis 0)
(parameters (linear 2 3) "*")
(part (gelu-mlp 2 3) 'up)
(frozen (linear 2 3))
(index-file "order.npy" :wrap t)
(chars "a.txt" :shape '(5) :dtype :i32 :count 10 :vocab 12 :from 1 :to 3)
(lines "a.txt" :pad 5 :bos t :count 10)
(npy "a.npy")
(npz "a.npz" "k")
(idx "a.idx")
(csv "a.csv" "a" :shape '(1 1) :dtype :f32 :count 10 :from 1 :to 3 :skip 1)
(parquet "a.parquet" "a" :dtype :f32 :count 10)
(jsonl "a.jsonl" "a" :shape '(1) :dtype :f32 :count 10 :from 1 :to 3)
(bytes "a.txt")
(tokens "a.bin" :dtype :u16)
(bpe "a.txt" "tokenizer.json")
"""

_OTHERS: Final = """
count (window numbers 3 :stride 1 :from 1 :to 8)
count (records numbers :from 1 :to 3)
count (take numbers 2 :from 1 :to 3)
count (scale numbers 2.0 :dtype :f32 :from 1 :to 3)
count (normalize numbers :minmax :fit numbers :dtype :f32 :from 1 :to 3)
count (concat-sources numbers numbers)
init (constant-init 1.0)
init (normal 0.1)
init (uniform 0.0 1.0)
init (init-by #'ones)
init (fan-in-uniform 3)
init (truncated-normal 0.1)
init (orthogonal 1.0)
schedule (constant-schedule 1.0 :warmup 2)
schedule (linear-schedule 1.0 :warmup 2 :steps 10 :final 0.1)
schedule (cosine-schedule 1.0 :warmup 2 :steps 10 :final 0.1)
schedule (step-schedule 1.0 :warmup 2 :steps 10 :every 3 :factor 0.1)
schedule (step-schedule 1.0 :at '(3 4))
schedule (wsd-schedule 1.0 :warmup 2 :steps 10 :decay 0.2 :final 0.1 :shape :linear)
schedule (one-cycle-schedule 1.0 :warmup 2 :steps 10 :start 0.1 :final 0.01 :shape :linear)
schedule (inverse-sqrt-schedule 1.0 :warmup 2)
optimizer (sgd :lr 0.1 :momentum 0.9 :dampening 0.0 :nesterov t :weight-decay 0.1)
optimizer (lion :lr 0.1 :beta1 0.9 :beta2 0.9 :weight-decay 0.1)
optimizer (muon :lr 0.1 :momentum 0.9 :nesterov t :rounds 3 :scale :original :weight-decay 0.1)
optimizer (adam :lr 0.1 :beta1 0.9 :beta2 0.9 :eps 1e-8 :weight-decay 0.1)
optimizer (adamw :lr 0.1 :beta1 0.9 :beta2 0.9 :eps 1e-8 :weight-decay 0.1)
optimizer (rmsprop :lr 0.1 :alpha 0.9 :eps 1e-8 :momentum 0.1 :centered t :weight-decay 0.1)
optimizer (adagrad :lr 0.1 :lr-decay 0.1 :initial 0.1 :eps 1e-8 :weight-decay 0.1)
optimizer (adadelta :lr 0.1 :rho 0.9 :eps 1e-8 :weight-decay 0.1)
optimizer (adafactor :lr 0.1 :decay 0.8 :clip 1.0 :beta1 0.9 :eps1 1e-30 :eps2 1e-3 :weight-decay 0.1)
optimizer (lamb :lr 0.1 :beta1 0.9 :beta2 0.9 :eps 1e-8 :weight-decay 0.1)
optimizer (schedule-free-adamw :lr 0.1 :beta1 0.9 :beta2 0.9 :eps 1e-8 :weight-decay 0.1)
optimizer (ema 0.9 (sgd) :every 2)
of x (linear 3 2 :bias t :init 0.1)
of x (gelu-mlp 3 4 :bias t :init 0.1 :residual-init 0.1 :approximate :tanh)
of x (relu-mlp 3 4 :init 0.1 :residual-init 0.1)
of x (swiglu-mlp 3 4 :init 0.1 :residual-init 0.1)
of x (layer-norm 3 :eps 1e-5 :init (ones-init))
of x (rms-norm 3 :eps 1e-5 :gain t :init (ones-init))
of x (group-norm 1 3 :eps 1e-5 :init (ones-init))
of x (batch-norm 3 :eps 1e-5 :momentum 0.1 :init (ones-init))
of x (moe 3 4 :experts 4 :top-k 2 :init 0.1 :residual-init 0.1)
of i (embedding 4 3 :init 0.1)
of b (attention 6 2 :kv-heads 1 :head-dim 4 :dropout 0.1 :rope t :alibi t :window 2 :init 0.1 :residual-init 0.1)
of b (transformer-block 6 3 :hidden 8 :norm :rms :mlp :relu :dropout 0.1 :kv-heads 1 :window 2 :residual-init 0.1)
of b (rnn 6 4 :activation #'relu :init 0.1)
of b (lstm 6 4 :init 0.1)
of b (gru 6 4 :init 0.1)
of b (min-gru 6 4 :init 0.1)
of b (ssm 6 4 :init 0.1)
of s (conv1d 2 4 :kernel 3 :stride 1 :padding 1 :dilation 1 :groups 2 :init 0.1)
of image (conv2d 2 4 :kernel 3 :stride 1 :padding 1 :dilation 1 :groups 2 :init 0.1)
"""


@frozen
class Row:
    """A call in order, what makes use of it, and its form."""

    call: str
    use: str

    @property
    def name(self) -> str:
        return self.call[1:].partition(" ")[0]

    def form(self) -> str:
        return self.use.replace("{}", self.call)


@frozen
class Varied:
    """A call with one argument wrong: `argument` is its name or key, `value` the text in its place, `kind` its name."""

    argument: str
    kind: str
    value: str
    call: str


def rows() -> list[Row]:
    plain = [Row(call, USES[""]) for call in _PLAIN.strip().splitlines()]
    for line in _OTHERS.strip().splitlines():
        use, _, call = line.partition(" (")
        plain.append(Row(f"({call}", USES[use]))
    return plain


def varied(row: Row, parameters: tuple[str, ...]) -> Iterator[Varied]:
    """The call with each argument in turn replaced; `parameters` are the names of the positional ones, `&rest` last."""
    (read,) = read_text(Source("call", row.call), lambda _: None)
    cells = []
    cell = read.datum
    while isinstance(cell, SourceCons):
        cells.append(cell)
        cell = cell.cdr
    key = ""
    for index, cell in enumerate(cells[1:]):
        if isinstance(cell.car, Symbol) and cell.car.keyword and not key:
            key = cell.car.name
            continue
        name, key = key or parameters[min(index, len(parameters) - 1)], ""
        for kind, text in WRONG.items():
            yield Varied(name, kind, text, row.call[: cell.car_start] + text + row.call[cell.car_end :])


def positional(lambda_list: str) -> tuple[str, ...]:
    """The names of the positional parameters of a lambda list as it is printed, that of `&rest` among them."""
    (read,) = read_text(Source("list", lambda_list), lambda _: None)
    names: list[str] = []
    for item in read.datum if isinstance(read.datum, Cons) else ():
        if isinstance(item, Symbol) and item.name == "&key":
            break
        first = item.car if isinstance(item, Cons) else item
        if not first.name.startswith("&"):
            names.append(first.name)
    return tuple(names)
