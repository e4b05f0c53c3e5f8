"""Whether the arguments of a call, as far as they are known before it is made, fit the function's parameters."""

from __future__ import annotations

from attrs import evolve

from sexpgpu.diag import Diagnostic, Note, SxError
from sexpgpu.lang.analyze.grammar import fault
from sexpgpu.lang.builtin import Parameters, odd_keywords, unknown_keyword, wrong_count
from sexpgpu.lang.forms import Symbol, keyword
from sexpgpu.lang.ir import Const, Node
from sexpgpu.lang.place import Place


def mismatch(
    name: str, parameters: Parameters, args: list[Node], place: Place, notes: tuple[Note, ...] = ()
) -> SxError | None:
    """E-ARG-001 of a wrong count, E-ARG-002 and -003 of keywords that are written out; None when nothing is wrong."""
    count = len(args)
    if count < len(parameters.required) or (parameters.most is not None and count > parameters.most):
        return _told(wrong_count(name, parameters, count).diagnostic, place, notes)
    pairs = args[parameters.positional :]
    words = [node.value for node in pairs[::2] if isinstance(node, Const)]
    if parameters.keys is None or len(words) * 2 < len(pairs):
        return None
    anything = parameters.other_keys or keyword("allow-other-keys") in words
    plain = anything or all(isinstance(word, Symbol) and word.keyword for word in words)
    if parameters.rest is None and (len(pairs) % 2 or not plain):
        values = tuple(node.value if isinstance(node, Const) else None for node in pairs)
        return _told(odd_keywords(name, parameters, values).diagnostic, place, notes)
    if parameters.rest is not None or anything:
        return None
    for word, node in zip(words, pairs[::2], strict=True):
        if isinstance(word, Symbol) and word.name not in parameters.keys:
            return _told(unknown_keyword(name, word.name, parameters.keys).diagnostic, node.place, notes)
    return None


def _told(wrong: Diagnostic, place: Place, notes: tuple[Note, ...]) -> SxError:
    found = fault(place, wrong.code, wrong.message, wrong.help, notes, culprit=wrong.culprit)
    found.diagnostic = evolve(found.diagnostic, expected=wrong.expected)
    return found
