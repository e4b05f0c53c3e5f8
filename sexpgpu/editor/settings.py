"""What a user may set in an editor: the selection under which the open experiments are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sexpgpu.lang.selection import Selection

SECTION = "sexpgpu"
"""The name of our part of an editor's configuration."""
NAMES = ("variant", "set", "sweep", "point")
UNFIT = frozenset({"E-KNOB-001", "E-KNOB-002", "E-KNOB-004"})
"""Errors of a selection that names what a file does not declare."""


class WrongSetting(Exception):
    """A setting that is none, or of the wrong kind; the message is for the user."""


def selection_of(settings: Any) -> Selection:
    """`{"variant": "smoke", "set": {"width": 64}, "sweep": "lr-scan", "point": 0}`, or a part of it, as a selection.

    `set` may also be a list of `"knob=value"`. Raises `WrongSetting`.
    """
    if settings is None:
        return Selection()
    if not isinstance(settings, Mapping):
        raise WrongSetting(f"the settings of {SECTION} are an object, got {settings!r}")
    unknown = [name for name in settings if name not in NAMES]
    if unknown:
        raise WrongSetting(f"{SECTION} has no setting {unknown[0]!r}; it has {', '.join(NAMES)}")
    variant, sweep, point = (settings.get(name) or None for name in ("variant", "sweep", "point"))
    for name, value in (("variant", variant), ("sweep", sweep)):
        if not isinstance(value, str | None):
            raise WrongSetting(f"{SECTION}.{name} is a name, got {value!r}")
    if sweep is not None:
        point = settings.get("point", 0)
    if not isinstance(point, int | None) or isinstance(point, bool):
        raise WrongSetting(f"{SECTION}.point is a number from 0, got {point!r}")
    return Selection(variant, _sets(settings.get("set") or ()), sweep, point if sweep is not None else None)


def _sets(given: Any) -> tuple[str, ...]:
    if isinstance(given, Mapping):
        return tuple(f"{knob}={_written(value)}" for knob, value in given.items())
    if isinstance(given, list | tuple) and all(isinstance(item, str) and "=" in item[1:] for item in given):
        return tuple(given)
    raise WrongSetting(f'{SECTION}.set is {{"knob": value}} or a list of "knob=value", got {given!r}')


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "nil"
    return str(value)
