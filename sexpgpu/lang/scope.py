"""Lexical environments during analysis."""

from __future__ import annotations

from typing import Any

from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.ir import Block, FunctionIR, LocalVar, Tagbody
from sexpgpu.lang.module import Macro
from sexpgpu.lang.place import Place


class SymbolMacro:
    """A name that stands for a form."""

    __slots__ = ("expansion",)

    def __init__(self, expansion: Any) -> None:
        self.expansion = expansion


class SpecialMark:
    """Where a name was declared special: references skip lexical bindings further out."""

    __slots__ = ()


SPECIAL = SpecialMark()
Variable = LocalVar | SymbolMacro | SpecialMark
LocalFunction = LocalVar | Macro


class Scope:
    """One level of bindings; `function` is the lambda whose body this is part of.

    In a value of a `let`, `beside` are the names that the `let` binds before it, each with whether it was asked for.
    """

    __slots__ = ("beside", "blocks", "function", "functions", "let", "parent", "tags", "variables")

    def __init__(self, parent: Scope | None, function: FunctionIR) -> None:
        self.parent = parent
        self.function = function
        self.variables: dict[Symbol, Variable] = {}
        self.beside: dict[Symbol, bool] = {}
        self.let: Place | None = None  # where that `let` stands
        self.functions: dict[Symbol, LocalFunction] = {}
        self.blocks: dict[Symbol, Block] = {}
        self.tags: dict[Any, tuple[Tagbody, int]] = {}

    def inner(self, function: FunctionIR | None = None) -> Scope:
        """A fresh level inside this one."""
        return Scope(self, function or self.function)

    def variable(self, name: Symbol) -> Variable | None:
        """The innermost lexical meaning of a variable name."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.variables.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def let_beside(self, name: Symbol) -> Place | None:
        """The place of a `let` that binds `name` beside this, where it is not visible yet; the name is asked for."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.beside:
                scope.beside[name] = True
                return scope.let
            scope = scope.parent
        return None

    def local_function(self, name: Symbol) -> LocalFunction | None:
        """The innermost lexical meaning of a function name."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.functions.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def block(self, name: Symbol) -> Block | None:
        """The innermost block of a name."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.blocks.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def tag(self, name: Any) -> tuple[Tagbody, int] | None:
        """The innermost tag of a name (a symbol or an integer)."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.tags.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def variable_names(self) -> dict[str, LocalVar]:
        """The lexical variables visible here, for suggestions."""
        found: dict[str, LocalVar] = {}
        scope: Scope | None = self
        while scope is not None:
            for name, var in scope.variables.items():
                if isinstance(var, LocalVar):
                    found.setdefault(name.name, var)
            scope = scope.parent
        return found

    def function_names(self) -> set[str]:
        """The local functions and macros visible here, for suggestions."""
        found: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            found.update(name.name for name in scope.functions)
            scope = scope.parent
        return found
