"""Mending: the edit of the user's text that makes an error go away, where one is found and proven.

An error of a tensor function carries no fix: the function does not know the form that called it. Here the failed
call is found again in the text of the file and in the frames of the traceback, and the usual ways out (another axis,
a transposed operand, a cast, another size in a declaration) are tried on the function itself. The first that it takes
becomes the fix. All of this happens after an error; a file without errors pays nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from attrs import evolve

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.lang.session import Session
from sexpgpu.trace.mending import bodies, forms, keys, sizes
from sexpgpu.trace.mending.calls import GUESSES
from sexpgpu.trace.mending.named import NAMING, naming
from sexpgpu.trace.mending.scene import Proposal, Scene, scene_of
from sexpgpu.trace.tensor import Tensor

Source = Callable[[Scene], Iterator[Proposal]]


ATTEMPTS = 200
"""Guesses that are tried for one mistake, of each source: what is far from what is written is not what was meant."""


_ELEMENT = re.compile(r"\belement (\d+)")


def guesses(scene: Scene) -> Iterator[Proposal]:
    """The changes of the call's arguments that its function takes."""
    if scene.call is None:
        return
    for source in GUESSES.get(scene.diagnostic.code, ()):
        for guess in islice(source(scene.call), ATTEMPTS):
            value = scene.attempt(guess.changes)
            if value is not None and guess.fits(value):
                yield Proposal(guess.help, scene.edits(guess.changes))


SOURCES: dict[str, tuple[Source, ...]] = dict.fromkeys(GUESSES, (guesses,)) | {
    "E-NAME-001": (forms.instances,),
    "E-SHAPE-001": (sizes.declared_sizes, guesses),
    "E-SHAPE-013": (guesses, sizes.declared_sizes),
    "E-SHAPE-047": (sizes.declared_sizes,),
    "E-VALUE-005": (sizes.divisors,),
    "E-SHAPE-020": (bodies.averaged, bodies.scalar_function, guesses),
    "E-RUN-026": (bodies.labelled,),
    "E-PARAM-011": (bodies.returned,),
    "E-FLOW-001": (forms.choices, forms.elements),
    "E-FLOW-003": (forms.definitions,),
    "E-FLOW-005": (forms.guarded,),
    "E-TYPE-001": (forms.elements, keys.misspelt),
    "E-TYPE-011": (guesses, keys.misspelt),
    "E-PARAM-001": (forms.initialized,),
    "E-PARAM-006": (forms.folded,),
    "E-PARAM-008": (forms.initializers,),
    "E-OPT-005": (forms.state_shapes,),
}
"""By the code of the error, where proposals come from, in order."""
BETTER = ("E-NAME-001",)
"""Errors of the language that have a fix, where what is said here goes before it."""


def quoting(scene: Scene, diagnostic: Diagnostic) -> Diagnostic:
    """The elements of a `(list ...)` by what is written for them, where that is short."""
    given = scene.form.inner(1) if scene.call is not None and len(scene.form) > 1 else None
    if given is None or given.head != "list":
        return diagnostic

    def quoted(words: re.Match[str]) -> str:
        index = int(words[1])
        text = given.text(index) if index < len(given) else words[0]
        return f"`{text}`" if text != words[0] and len(text) <= 30 and "\n" not in text else words[0]

    texts = (diagnostic.message, diagnostic.expected or "", diagnostic.actual or "")
    if re.search(_ELEMENT, texts[0]) is None or len({quoted(w) for w in re.finditer(_ELEMENT, texts[0])}) < 2:
        return diagnostic
    message, expected, actual = (re.sub(_ELEMENT, quoted, text) for text in texts)
    return evolve(diagnostic, message=message, expected=expected or None, actual=actual or None)


def mend(session: Session, fault: SxError) -> SxError:
    """The error with a fix, where one is found, at the argument that it is about."""
    sources = SOURCES.get(fault.diagnostic.code, ())
    if fault.diagnostic.fix and fault.diagnostic.code not in BETTER:
        sources = ()
    scene = scene_of(session, fault) if sources or NAMING.match(fault.diagnostic.code) else None
    if scene is None:
        return fault
    if not sources:
        fault.diagnostic = naming(scene, fault.diagnostic)
        return fault
    if scene.call is not None and not fault.diagnostic.notes:
        given = [value for value in scene.call.values if isinstance(value, Tensor)]
        fault.diagnostic = fault.diagnostic.noting(*(note for tensor in given for note in tensor.provenance()))
    fault.diagnostic = quoting(scene, fault.diagnostic)
    found = next((proposal for source in sources for proposal in source(scene)), None)
    if found is not None:
        fault.diagnostic = evolve(fault.diagnostic, help=found.help, fix=found.edits)
    fault.diagnostic = naming(scene, fault.diagnostic)
    return fault
