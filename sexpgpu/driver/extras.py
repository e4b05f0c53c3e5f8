"""Verbs that need a package which training does not."""

from __future__ import annotations

from sexpgpu.diag import SxError, error


def missing_package(package: str, extra: str) -> SxError:
    """E-DEV-010: the verb `extra`, which is an extra of the same name, needs a package that is not installed."""
    return error(
        "E-DEV-010",
        f"`sexpgpu {extra}` needs the package {package}, which is not installed",
        help=f"pip install 'sexpgpu[{extra}]'",
    )
