"""What a file lets its runs choose: knobs, variants and sweeps, as plain data."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sexpgpu.diag import SxError
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.selection import sweep_points, variant_changes
from sexpgpu.lang.session import Session


def choices(session: Session) -> dict[str, Any]:
    """The declarations of an evaluated file, those that macros wrote among them; values are printed forms.

    A variant or sweep that was reported as malformed is left out.
    """
    values = {value.name: value for value in session.selected.knobs}
    knobs = [
        {
            "name": knob.name,
            "default": knob.default,
            "value": values[knob.name].value,
            "source": values[knob.name].source,
            "type": knob.type,
            "choices": list(knob.choices),
            "doc": knob.doc,
        }
        for knob in session.selected.declarations
    ]
    declared = session.declared
    variants: list[dict[str, Any]] = []
    sweeps: list[dict[str, Any]] = []
    for name, (items, span) in declared.variants.items():
        with suppress(SxError):
            changes = {knob: print_form(form) for knob, form in variant_changes(items, declared).items()}
            variants.append({"name": name, "file": span.file, "line": span.line, "changes": changes})
    for name, (items, span) in declared.sweeps.items():
        with suppress(SxError):
            points = [
                {knob: print_form(form) for knob, (form, _) in point.items()} for point in sweep_points(items, declared)
            ]
            sweeps.append({"name": name, "file": span.file, "line": span.line, "points": points})
    return {"knobs": knobs, "variants": variants, "sweeps": sweeps}
