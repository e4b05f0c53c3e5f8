"""The page of `passes --html`, opened in a browser: passes, difference, search, graph, what hovering tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_bad_input import sexpgpu
from tests.driver.browser import Page, browser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MOST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "passes.html"
    done = sexpgpu("passes", EXAMPLES / "moons.sx", "--variant", "smoke", "--html", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def opened(file: Path) -> Iterator[Page]:
    with browser() as page:
        page.open(file)
        yield page


@pytest.fixture
def page(opened: Page, file: Path) -> Page:
    opened.open(file)
    return opened


def choose(page: Page, name: str) -> None:
    page(f"[...document.querySelectorAll('#passes li')].findLast((li) => li.textContent.includes('{name}')).click()")


def search(page: Page, text: str) -> str:
    page(f"{{ const s = document.getElementById('search'); s.value = '{text}'; s.dispatchEvent(new Event('input')) }}")
    return str(page("document.getElementById('matches').textContent"))


def head(page: Page) -> str:
    return str(page("document.getElementById('right-head').textContent"))


def test_nothing_is_asked_for_from_outside(page: Page, file: Path) -> None:
    assert set(page.requests) == {file.as_uri()}
    assert page.faults == []
    assert not re.findall(r"(?:src|href|url)\s*[=(]", file.read_text("utf-8"))


def test_the_passes_are_listed_in_order(page: Page) -> None:
    names = page("[...document.querySelectorAll('#passes li b')].map((b) => b.textContent)")
    assert names[:2] == ["00 traced", "01 step-sums"]
    assert [name[:2] for name in names] == [f"{n:02}" for n in range(len(names))]
    assert "autodiff" in [name[3:] for name in names]
    page("document.getElementById('only-changed').click()")
    fewer = page("[...document.querySelectorAll('#passes li b')].map((b) => b.textContent)")
    assert len(fewer) < len(names)
    assert "autodiff" in [name[3:] for name in fewer]


def test_a_stage_stands_beside_the_one_before(page: Page) -> None:
    choose(page, "autodiff")
    gone, come = map(int, re.findall(r"(\d+) lines gone, (\d+) new", head(page))[0])
    assert come > gone
    assert int(page("document.getElementById('left-head').textContent")[:2]) == int(head(page)[:2]) - 1
    shown = page("[...document.querySelectorAll('.cell.come')].map((c) => c.textContent).join('\\n')")
    assert "sx.transpose" in shown
    assert page("document.querySelectorAll('.row.fold').length") > 0
    height = page("document.getElementById('space').offsetHeight")
    page("document.querySelector('.row.fold').click()")
    assert page("document.getElementById('space').offsetHeight") > height


def test_numbers_of_values_that_moved_are_no_difference(page: Page) -> None:
    page("document.getElementById('graph').value = 'update default f64[4]'")
    page("document.getElementById('graph').dispatchEvent(new Event('change'))")
    choose(page, "autodiff")
    assert head(page).endswith("unchanged")


def test_search_finds_operations_paths_and_passes(page: Page) -> None:
    choose(page, "autodiff")
    assert re.match(r"1 of \d+ lines", search(page, "matmul"))
    assert page("document.querySelectorAll('.row.hit').length") > 0
    assert "sx.matmul" in page("document.querySelector('.row.here').textContent")
    page("document.getElementById('next').click()")
    assert page("document.getElementById('matches').textContent").startswith("2 of ")
    assert re.match(r"1 of \d+ lines", search(page, "model.hidden1"))
    search(page, "autodiff")
    assert page("document.querySelector('#passes li.found b').textContent").endswith(" autodiff")
    assert search(page, "no such thing") == "0 lines"


def test_hovering_tells_place_shape_bytes_and_slot(page: Page) -> None:
    choose(page, "plan-memory")
    page("document.getElementById('view-text').click()")
    search(page, "sx.matmul")
    page.hover(".row.here .cell.right")
    tip = page("document.getElementById('tip').innerText")
    assert page("document.getElementById('tip').hidden") is False
    assert "sx.matmul" in tip
    assert re.search(r"f64\[100, 4\]", tip)
    assert "3.1 KiB (3200)" in tip
    assert re.search(r"at byte \d+", tip)
    assert re.search(r"moons\.sx:\d+", tip)
    assert "model.hidden1" in tip


def test_the_graph_opens_by_model_path(page: Page) -> None:
    choose(page, "recompute")
    page("document.getElementById('view-graph').click()")
    groups = "[...document.querySelectorAll('#svg .group')].map((g) => g.dataset.group)"
    assert {"", "arguments", "model", "backward"} <= set(page(groups))
    assert "model.hidden1" not in page(groups)
    click = (
        "document.querySelector('#svg [data-group=\"model\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    page(click)
    assert {"model.hidden1", "model.hidden2", "model.score"} <= set(page(groups))
    assert page("document.querySelectorAll('#svg path').length") > 5
    page(click)
    assert "model.hidden1" not in page(groups)
    for _ in range(4):
        page("document.getElementById('expand').click()")
    page.hover("#svg .op[data-line]")
    assert "shape" in page("document.getElementById('tip').innerText")
    page("document.querySelector('#svg .op[data-line]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert page("document.getElementById('drawing').hidden") is True
    assert page.faults == []


def test_keys(page: Page) -> None:
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
    first = head(page)
    page(press.format("j"))
    assert head(page) != first
    page(press.format("k"))
    assert head(page) == first
    page(press.format("g"))
    assert page("document.getElementById('drawing').hidden") is False


@pytest.mark.slow
def test_the_page_of_a_large_model_is_small_and_quick(tmp_path: Path) -> None:
    out = tmp_path / "gpt2.html"
    done = sexpgpu("passes", EXAMPLES / "gpt2.sx", "--html", out)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < MOST_BYTES
    with browser() as page:
        page.open(out)
        for name in ("autodiff", "plan-memory", "simplify"):
            choose(page, name)
            assert page("document.querySelectorAll('.row').length") > 20
        page("document.getElementById('view-graph').click()")
        for _ in range(6):
            page("document.getElementById('expand').click()")
        assert page("document.querySelectorAll('#svg g').length") > 1000
        assert page.faults == []
