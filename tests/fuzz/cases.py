"""Texts to try the compiler on, each a pure function of its kind and number: bytes, tokens, calls, mutations."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.library import standard_libraries
from sexpgpu.trace.builtins import LIBRARIES

ROOT: Final = Path(__file__).resolve().parents[2]
_TOKEN: Final = re.compile(r';[^\n]*|"(?:[^"\\]|\\.)*"|#\\\S|[()\'`]|,@?|\s+|[^\s()"\';`,]+')

NUMBERS: Final = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "3",
        "7",
        "1000000",
        "-1000000",
        "100000000000000000000",
        "18446744073709551616",
        "1/2",
        "-7/3",
    ),
    *("1.5", "-0.0", "1e308", "1e-320", "1e999", "0.1", "1/0", "9" * 400, "1" + "0" * 5000, "#xff", "#36rzz", "#b2"),
)
ATOMS: Final = (
    *(
        "nil",
        "t",
        "x",
        "y",
        "f",
        "foo",
        "&rest",
        "&key",
        "&optional",
        "&body",
        ":key",
        ":axis",
        ":init",
        ":",
        "a:b",
        "|a b|",
    ),
    *(
        "#\\a",
        "#\\Space",
        "#\\nosuch",
        '"text"',
        '"~a ~5d~%"',
        '"~{~a~^,~}"',
        '"~',
        '""',
        "'()",
        "#'car",
        "#'+",
        "#(1 2)",
    ),
    *(
        "#.(+ 1 2)",
        "#1=(a)",
        "#1#",
        "#+foo",
        "#-foo",
        "#|c|#",
        "; c\n",
        "#:g",
        "...",
        ".",
        "'",
        "`",
        ",",
        ",@",
        "#'",
        "\\",
    ),
)
WORDS: Final = (
    *(
        "defknobs",
        "defvariant",
        "defsweep",
        "defloader",
        "defmodel",
        "defsub",
        "defparam",
        "defbuffer",
        "forward",
        "defrun",
    ),
    *(
        "defeval",
        "defoptimizer",
        "defstate",
        "optimizer-update",
        "require",
        "provide",
        "repeat",
        "zeros",
        "matmul",
        "sum",
    ),
    *(
        "linear",
        "layer-norm",
        "embedding",
        "adamw",
        "sgd",
        "normal",
        "field",
        "metric",
        "scan",
        "grad",
        "window",
        "chars",
    ),
    *(
        "dolist",
        "dotimes",
        "loop",
        "when",
        "unless",
        "incf",
        "push",
        "defstruct",
        "do",
        "prog",
        "with-output-to-string",
    ),
    *("for", "in", "collect", "while", "finally", "return", "from", "to", "below", "being", "across", "into", "sum"),
)
VALUES: Final = (
    *NUMBERS[:20],
    *(
        "nil",
        "t",
        "'a",
        ":k",
        '"abc"',
        '""',
        "#\\a",
        "'(1 2 3)",
        "'((a . 1) (b . 2))",
        "'(:a 1 :b 2)",
        "#(1 2 3)",
        "#'car",
    ),
    *("#'+", "#'<", "#'list", "#'identity", "(lambda (x) x)", "(lambda (&rest r) r)", "(list 3 1 2)", "(vector 1 2)"),
    *(
        "(make-hash-table)",
        "(make-array '(2 3) :initial-element 0)",
        "'list",
        "'string",
        "'integer",
        "'(or integer string)",
    ),
    *(
        '"~a"',
        '"~5,\'0d ~r ~e"',
        '"~{~a~}"',
        "(make-condition 'error)",
        "'(1 . 2)",
        "'(quote x)",
        "(values 1 2)",
        "(values)",
    ),
    *("(make-list 1000)", "(make-string 1000)", "(expt 7 500)", "(make-string-output-stream)", "*standard-output*"),
)
TENSORS: Final = (
    *(
        "x",
        "y",
        "i",
        "b",
        "(list x y)",
        "0",
        "-1",
        "1",
        "2",
        "0.5",
        "1e30",
        "nil",
        "'(0 1)",
        "'(2 3)",
        "'((0 1) (1 0))",
    ),
    *(":float", ":f32", ":i32", "-7", "1000000", "(lambda (a) a)", "(lambda (a b) (values a b))", "'name", "t", '"m"'),
)
RUNNABLE: Final = """(require "sexpgpu/optim")
(defloader train-loader (:batch 4 :order :sequential)
  (x (csv "data/micrograd_moons_xy.csv" "x0" "x1" "y" :dtype :f64 :count 100)))
(defmodel net () (defparam w (2 3) :init (normal 0.1)) (forward (x) (+ (sum w) x)))
(def model (net))
(defun prepare (batch) (values (cast (field batch 'x) :float) (field batch 'x)))
(defun probe (x) (let* ((i (cast (floor x) :i32)) (b (> x 0)) (y (transpose x))) (list i b y) {call}))
(defun objective (x target) (probe x) (sum x))
(def optimizer (sgd :lr 0.1))
(defrun :steps 2)
"""


def _bytes(draw: random.Random) -> bytes:
    size = draw.choice((0, 1, 7, 60, 400, 3000))
    if draw.random() < 0.5:
        return draw.randbytes(size)
    alphabet = "()'`,;#|\\\"@. \n\t:ab1+-é\u00a0\u202e\0\x7f"
    return "".join(draw.choices(alphabet, k=size)).encode()


def _atom(draw: random.Random) -> str:
    pick = draw.random()
    if pick < 0.3:
        return draw.choice(ATOMS)
    if pick < 0.5:
        return draw.choice(NUMBERS)
    return draw.choice(_names() if pick < 0.8 else WORDS)


def _soup(draw: random.Random) -> bytes:
    """Tokens, mostly of balanced lists."""
    tokens: list[str] = []
    depth = 0
    for _ in range(draw.choice((3, 10, 40, 200))):
        pick = draw.random()
        if pick < 0.3:
            tokens += ["(", draw.choice((*_names(), *_special_names(), *WORDS))]
            depth += 1
        elif pick < 0.5 and depth > 0:
            tokens.append(")")
            depth -= 1
        else:
            tokens.append(_atom(draw))
    tokens += [")"] * (depth if draw.random() < 0.9 else draw.randrange(depth + 2))
    return " ".join(tokens).encode()


def _call(
    draw: random.Random, values: tuple[str, ...], signatures: list[tuple[str, int, int, tuple[str, ...]]], depth: int
) -> str:
    name, least, more, keys = draw.choice(signatures)
    count = max(0, least + draw.choice((0, 0, 0, more, 1, -1)))
    args = []
    for _ in range(count):
        nested = depth > 0 and draw.random() < 0.35
        args.append(_call(draw, values, signatures, depth - 1) if nested else draw.choice(values))
    for key in draw.sample(keys, min(len(keys), draw.choice((0, 0, 1, 2)))):
        args += [f":{key}", draw.choice(values)]
    return f"({' '.join([name, *args])})" if name[0] != "(" else f"(funcall #'{' '.join([name, *args])})"


def _calls(draw: random.Random) -> bytes:
    """Calls of library functions, nested; some in a body that loops or handles errors."""
    call = _call(draw, VALUES, _signatures(), 3)
    shape = draw.choice(
        (
            "{}",
            "{}",
            "{}",
            "(print {})",
            "(loop repeat 50 do {})",
            "(ignore-errors {})",
            "(loop {})",
            "(let ((x {})) (list x x))",
        )
    )
    return shape.format(call).encode()


def _traced(draw: random.Random) -> bytes:
    """A call of tensor operations where a graph is traced."""
    return RUNNABLE.replace("{call}", _call(draw, TENSORS, _tensor_signatures(), 3)).encode()


def _mutation(draw: random.Random) -> bytes:
    """An example, or a form of the oracle, with some tokens or subtrees changed."""
    text = (
        draw.choice(_examples()) if draw.random() < 0.5 else "\n".join(draw.choices(_forms(), k=draw.choice((1, 1, 3))))
    )
    tokens = _TOKEN.findall(text)
    for _ in range(draw.choice((1, 1, 2, 4, 10))):
        if not tokens:
            break
        _mutate(draw, tokens)
    return "".join(tokens).encode()


def _mutate(draw: random.Random, tokens: list[str]) -> None:
    at = draw.randrange(len(tokens))
    way = draw.choice(("delete", "double", "swap", "number", "rename", "name", "value", "subtree", "copy"))
    if way == "delete":
        del tokens[at]
    elif way == "double":
        tokens.insert(at, tokens[at])
    elif way == "swap":
        other = draw.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif way == "number":
        numbers = [i for i, token in enumerate(tokens) if token[0].isdigit()]
        if numbers:
            tokens[draw.choice(numbers)] = draw.choice(NUMBERS)
    elif way == "rename":
        tokens[at] = tokens[draw.randrange(len(tokens))]
    elif way == "name":
        tokens[at] = draw.choice(_names())
    elif way == "value":
        tokens[at] = draw.choice(VALUES)
    else:
        _move_subtree(draw, tokens, keep=way == "copy")


def _move_subtree(draw: random.Random, tokens: list[str], keep: bool) -> None:
    opens = [i for i, token in enumerate(tokens) if token == "("]
    if not opens:
        return
    start = end = draw.choice(opens)
    depth = 0
    while end < len(tokens):
        depth += {"(": 1, ")": -1}.get(tokens[end], 0)
        end += 1
        if depth == 0:
            break
    subtree = tokens[start:end]
    if not keep:
        del tokens[start:end]
    at = draw.randrange(len(tokens) + 1)
    tokens[at:at] = [" ", *subtree]


@cache
def _signatures() -> list[tuple[str, int, int, tuple[str, ...]]]:
    return [_signature(builtin) for library in standard_libraries() for builtin in library]


@cache
def _tensor_signatures() -> list[tuple[str, int, int, tuple[str, ...]]]:
    return [_signature(b) for library in LIBRARIES for b in library if not b.name.startswith("%")]


def _signature(builtin: object) -> tuple[str, int, int, tuple[str, ...]]:
    name, parameters = builtin.name, builtin.parameters  # type: ignore[attr-defined]
    return name, len(parameters.required), len(parameters.optional) or 2 * bool(parameters.rest), parameters.keys or ()


@cache
def _names() -> tuple[str, ...]:
    every = [*_signatures(), *_tensor_signatures()]
    return tuple(name for name, *_ in every if name[0] not in "(%")


@cache
def _special_names() -> tuple[str, ...]:
    return tuple(symbol.name for symbol in SPECIALS)


@cache
def _examples() -> tuple[str, ...]:
    paths = sorted((ROOT / "examples").glob("*.sx"))
    return (*(path.read_text("utf-8") for path in paths), RUNNABLE.replace("{call}", "(sum x)"))


@cache
def _forms() -> tuple[str, ...]:
    lines = (ROOT / "tests" / "oracle" / "corpus.jsonl").read_text("utf-8").splitlines()
    return tuple(json.loads(line)["form"] for line in lines)


KINDS: Final[dict[str, Callable[[random.Random], bytes]]] = {
    "bytes": _bytes,
    "soup": _soup,
    "calls": _calls,
    "traced": _traced,
    "mutation": _mutation,
}


def case(kind: str, number: int) -> bytes:
    """The text of a case: always the same for a kind and a number."""
    return KINDS[kind](random.Random(f"{kind} {number}"))
