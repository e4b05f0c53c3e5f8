"""What functions of Common Lisp mean where an argument is a tensor: the documentation of `tensor.GENERIC`.

An entry is how a call looks, and what the documentation string of a function of our own would say.
"""

from __future__ import annotations

from attrs import frozen

_PAIRED = "E-SHAPE-001 shapes that do not broadcast; E-DTYPE-002 several dtypes; E-DTYPE-008 a fraction among integers"
_FLOAT = "E-DTYPE-001 what is no float"


@frozen
class Meaning:
    """A call and its documentation."""

    call: str
    doc: str


def _meaning(call: str, doc: str, dtypes: str, errors: str, source: str, shapes: str = "any -> the same") -> Meaning:
    lines = (f"Shapes: {shapes}.", f"Dtypes: {dtypes}.", f"Errors: {errors}.", f"Source: {source}.")
    return Meaning(call, doc + "\n\n" + "\n".join(lines))


def _paired(call: str, doc: str, source: str, dtypes: str = "numbers, the same for all", more: str = "") -> Meaning:
    return _meaning(call, doc, dtypes, _PAIRED + more, source, "all broadcast to one shape")


def _each(call: str, doc: str, source: str, dtypes: str = "floats", errors: str = _FLOAT) -> Meaning:
    return _meaning(call, doc, dtypes, errors, source)


_STEP = "the derivative is 0"

MEANINGS: dict[str, Meaning] = {
    "+": _paired("(+ &rest xs)", "The sum of tensors and numbers, from the left.", "NumPy `add`"),
    "-": _paired("(- x &rest xs)", "x less the others; of one tensor, its negative.", "NumPy `subtract`"),
    "*": _paired("(* &rest xs)", "The product of tensors and numbers, from the left.", "NumPy `multiply`"),
    "/": _paired("(/ x &rest xs)", "x by the others; of one tensor, its reciprocal.", "NumPy `divide`",
                 "floats, the same for all", "; E-DTYPE-005 integers"),
    "1+": _paired("(1+ x)", "x + 1.", "NumPy `add`"),
    "1-": _paired("(1- x)", "x - 1.", "NumPy `subtract`"),
    "max": _paired("(max x &rest xs)", "The greatest at each place, NaN if one is; equals share the derivative.",
                   "NumPy `maximum`"),
    "min": _paired("(min x &rest xs)", "The least at each place, NaN if one is; equals share the derivative.",
                   "NumPy `minimum`"),
    "mod": _paired("(mod x y)", "x - y floor(x / y): the sign of y.", "NumPy `mod`"),
    "expt": _paired("(expt x y)", "x to the power y; 0, 1, 2 and 3 by multiplication.", "NumPy `power`",
                    "floats, the same for both; powers 0 to 3 of numbers"),
    "log": _paired("(log x &optional base)", "The natural logarithm, or that to a base.", "NumPy `log`", "floats",
                   "; E-VALUE-012 no such base"),
    "=": _paired("(= x &rest xs)", "bool: whether each is equal to the next.", "NumPy `equal`",
                 "any, the same for all -> bool"),
    "/=": _paired("(/= x &rest xs)", "bool: whether no two are equal.", "NumPy `not_equal`",
                  "any, the same for all -> bool"),
    "<": _paired("(< x &rest xs)", "bool: whether each is less than the next.", "NumPy `less`",
                 "any, the same for all -> bool"),
    "<=": _paired("(<= x &rest xs)", "bool: whether none is greater than the next.", "NumPy `less_equal`",
                  "any, the same for all -> bool"),
    ">": _paired("(> x &rest xs)", "bool: whether each is greater than the next.", "NumPy `greater`",
                 "any, the same for all -> bool"),
    ">=": _paired("(>= x &rest xs)", "bool: whether none is less than the next.", "NumPy `greater_equal`",
                  "any, the same for all -> bool"),
    "exp": _each("(exp x)", "e to the power x.", "NumPy `exp`"),
    "sqrt": _each("(sqrt x)", "The square root.", "NumPy `sqrt`"),
    "sin": _each("(sin x)", "The sine of radians.", "NumPy `sin`"),
    "cos": _each("(cos x)", "The cosine of radians.", "NumPy `cos`"),
    "tanh": _each("(tanh x)", "The hyperbolic tangent.", "NumPy `tanh`"),
    "abs": _each("(abs x)", "The absolute value; its derivative at 0 is 0.", "NumPy `abs`", "numbers", "E-DTYPE-001"),
    "signum": _each("(signum x)", f"-1, 0 or 1; {_STEP}.", "NumPy `sign`", "numbers", "E-DTYPE-001"),
    "floor": _each("(floor x &optional y)", f"The greatest whole number below x, or x / y, one value; {_STEP}.",
              "NumPy `floor`"),
    "ceiling": _each("(ceiling x &optional y)", f"The least whole number above x, or x / y, one value; {_STEP}.",
              "NumPy `ceil`"),
    "round": _each("(round x &optional y)",
              f"The whole number nearest to x, or to x / y, halves to even, one value; {_STEP}.",
              "NumPy `rint`"),
    "reverse": _each("(reverse x)", "x backwards along its first axis.", "NumPy `flip`", "any", "E-SHAPE-002 a scalar"),
    "length": _each("(length x)", "The size of the first axis, an ordinary integer.", "Python's `len`", "any",
                    "E-SHAPE-002 a scalar"),
    "sort": _each("(sort x &key axis)", "Ascending along `:axis` (the last); equal elements keep their order.",
                  "NumPy `sort`, stable; NaN is last", "numbers", "E-DTYPE-001; E-SHAPE-002"),
    "stable-sort": _each("(stable-sort x &key axis)", "`sort`, which is stable already.", "NumPy `sort`", "numbers",
                         "E-DTYPE-001; E-SHAPE-002"),
}  # fmt: skip
