"""Imports every module that enters special forms into the grammar's table."""

from sexpgpu.lang.analyze import (
    binding,
    clauses,
    control,
    definition,
    handling,
    iteration,
    lambdas,
    multiple,
    places,
    quasi,
)

__all__ = [
    "binding",
    "clauses",
    "control",
    "definition",
    "handling",
    "iteration",
    "lambdas",
    "multiple",
    "places",
    "quasi",
]
