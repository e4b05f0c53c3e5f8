"""A session with the whole standard library in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sexpgpu.diag import Diagnostics
from sexpgpu.lang import loop
from sexpgpu.lang.library import standard_libraries
from sexpgpu.lang.session import Limits, Session

PRELUDE: Final = Path(__file__).with_name("prelude.sx")


def standard_session(
    diagnostics: Diagnostics, limits: Limits | None = None, standard_modules: Path | None = None
) -> Session:
    """A fresh session that knows every standard function, macro and constant."""
    session = Session(diagnostics, limits, standard_modules)
    for library in (*standard_libraries(), loop.library):
        session.install(library)
    session.load_prelude(str(PRELUDE))
    return session
