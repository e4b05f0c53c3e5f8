"""The selection that an editor's settings choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexpgpu.editor.settings import WrongSetting, selection_of
from sexpgpu.lang.selection import Selection
from tests.editor.client import Client
from tests.trace.experiments import text_of, write_data


@pytest.mark.parametrize(
    ("settings", "selection"),
    [
        (None, Selection()),
        ({}, Selection()),
        ({"variant": ""}, Selection()),
        ({"variant": "smoke"}, Selection("smoke")),
        ({"set": {"width": 64, "tied": True, "lr": 1e-3}}, Selection(None, ("width=64", "tied=t", "lr=0.001"))),
        ({"set": ["width=64"]}, Selection(None, ("width=64",))),
        ({"sweep": "rates"}, Selection(sweep="rates", point=0)),
        ({"sweep": "rates", "point": 2}, Selection(sweep="rates", point=2)),
        ({"point": 2}, Selection()),
    ],
)
def test_settings(settings: Any, selection: Selection) -> None:
    assert selection_of(settings) == selection


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("smoke", "are an object"),
        ({"varient": "smoke"}, "no setting 'varient'"),
        ({"variant": 3}, "sexpgpu.variant is a name"),
        ({"sweep": "s", "point": "0"}, "sexpgpu.point is a number"),
        ({"set": "width=3"}, "sexpgpu.set is"),
        ({"set": ["width"]}, "sexpgpu.set is"),
    ],
)
def test_wrong_settings(settings: Any, says: str) -> None:
    with pytest.raises(WrongSetting, match=says):
        selection_of(settings)


def hovered(client: Client, file: Path, text: str) -> str:
    answer = client.at("hover", file, text, "width 2)")
    return str(answer["contents"]["value"])


def test_from_the_start_and_when_they_change(tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "chosen.sx"
    text = text_of() + "(defvariant wide (width 5))\n"
    client = Client(tmp_path, options={"set": {"width": 4}})
    assert [d["code"] for d in client.open(file, text)] == ["E-SHAPE-013"]  # the data has three columns
    assert "knob `width` = 4 (set)" in hovered(client, file, text)
    client.tell("workspace/didChangeConfiguration", {"settings": {"sexpgpu": {"variant": "wide"}}})
    client.drain(1.5)
    assert "knob `width` = 5 (variant)" in hovered(client, file, text)
    client.tell("workspace/didChangeConfiguration", {"settings": {"sexpgpu": {"varient": "wide"}}})
    client.drain(0.5)
    assert client.shown == ["sexpgpu has no setting 'varient'; it has variant, set, sweep, point"]
    assert "knob `width` = 5 (variant)" in hovered(client, file, text)
    assert client.close() == 0


def test_asked_for(tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "asked.sx"
    text = text_of() + "(defvariant wide (width 5))\n"
    client = Client(tmp_path, settings={"variant": "wide"})
    client.drain(0.3)
    assert [d["code"] for d in client.open(file, text)] == ["E-SHAPE-013"]
    assert "knob `width` = 5 (variant)" in hovered(client, file, text)
    other = tmp_path / "other.sx"
    (unfit,) = client.open(other, text_of())  # checked without the settings, which are meant for another file
    assert (unfit["code"], unfit["severity"]) == ("E-KNOB-002", 2)
    assert client.close() == 0
