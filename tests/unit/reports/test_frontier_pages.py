"""The frontier as table, figure and page: all points, the chosen one, reproducible bytes."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from xml.etree import ElementTree

import pytest
from rich.console import Console
from test_report_html import Page

from penstock.exploration import Explored
from penstock.reports.frontier import FrontierPoint, FrontierReport, MemoryTraffic
from penstock.reports.frontier_figure import frontier_figure, frontier_png, frontier_svg
from penstock.reports.frontier_html import render_frontier
from penstock.reports.report import CascadeReport
from penstock.reports.summary import choice_table
from penstock.scheduling.cascades.selection import Optimize

SVG = "{http://www.w3.org/2000/svg}"


def choice(arena: int, live: int, cycles: int, *cascades: CascadeReport) -> FrontierPoint:
    moved = (MemoryTraffic("sram", 5000, 3000), MemoryTraffic("flash", 700, 0))
    return FrontierPoint(arena + 1024, arena, 0, live, cycles, 7, 1300000, 0, moved, cascades)


ARRAY = (
    choice(8000, 7600, 1002000, CascadeReport(12, 1, 240), CascadeReport(3, 8, 9)),
    choice(10000, 10000, 1001000, CascadeReport(12, 16, 20)),
    choice(40000, 40000, 1000000),
)
CHOICES = FrontierReport(
    "net.tflite", "cortex-m4", 1300000, 1024, 20000, False, ARRAY, Optimize.SPEED, 1, (ARRAY[0],)
)


def words(svg: str) -> list[str]:
    """Every text of the picture."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_csv_has_a_line_a_choice_and_reads_back() -> None:
    lines = list(csv.DictReader(io.StringIO(CHOICES.as_csv())))
    assert [line["input"] for line in lines] == ["array"] * 3 + ["streamed"]
    assert [line["chosen"] for line in lines] == ["0", "1", "0", "0"]
    assert [int(line["ram_bytes"]) for line in lines] == [9024, 11024, 41024, 9024]
    first = lines[0]
    assert (first["arena_bytes"], first["live_bytes"]) == ("8000", "7600")
    assert (first["cycles"], first["calls"], first["macs_factor"]) == ("1002000", "7", "1.0000")
    assert (first["read_bytes_sram"], first["written_bytes_sram"]) == ("5000", "3000")
    assert (first["read_bytes_flash"], first["written_bytes_flash"]) == ("700", "0")
    assert [line["cascades"] for line in lines] == ["12x1 3x8", "12x16", "", "12x1 3x8"]


def test_the_json_says_all_of_it() -> None:
    found = json.loads(json.dumps(CHOICES.as_json()))
    assert found["schema"] == "penstock-frontier-1"
    assert (found["chosen"], found["limit_bytes"], found["macs_model"]) == (1, 20000, 1300000)
    assert len(found["frontier"]) == 3
    assert found["frontier"][0] == {
        "ram_bytes": 9024,
        "arena_bytes": 8000,
        "static_bytes": 0,
        "live_bytes": 7600,
        "cycles": 1002000,
        "calls": 7,
        "macs_executed": 1300000,
        "macs_constant": 0,
        "moved_bytes": {
            "sram": {"read": 5000, "written": 3000},
            "flash": {"read": 700, "written": 0},
        },
        "cascades": [
            {"layers": 12, "rows": 1, "calls": 240},
            {"layers": 3, "rows": 8, "calls": 9},
        ],
    }
    assert found["frontier_streamed_input"] == found["frontier"][:1]


def test_the_picture_has_a_dot_a_choice_where_it_belongs() -> None:
    (axes,) = frontier_figure(CHOICES).axes
    dots = {c.get_gid(): c.get_offsets().tolist() for c in axes.collections if c.get_gid()}
    assert [x for x, _ in dots["choices"]] == [9024, 11024, 41024]
    assert [y for _, y in dots["choices"]] == pytest.approx([0.2, 0.1, 0.0])
    assert [x for x, _ in dots["streamed"]] == [9024]


def test_a_pointer_on_a_dot_shows_its_figures() -> None:
    svg = frontier_svg(CHOICES)
    titles = [t.text or "" for t in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert len(titles) == 4
    assert (
        (
            "RAM 9,024 bytes, arena 8,000 (live 7,600), 1,002,000 cycles (+0.2000 %), 7 calls, "
            "cascades 12×1 3×8"
        )
        == titles[0]
        == titles[1]
    )  # the streamed one is below


def test_the_chosen_choice_has_a_ring_and_words() -> None:
    (axes,) = frontier_figure(CHOICES).axes
    rings = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert [(list(r.get_xdata()), list(r.get_ydata())) for r in rings] == [
        ([11024], [pytest.approx(0.1)])
    ]
    found = words(frontier_svg(CHOICES))
    for text in ("chosen: 11,024 bytes", "least: 9,024 bytes", "fastest: 41,024 bytes"):
        assert text in found
    assert "least, input streamed: 9,024 bytes" in found


@pytest.mark.parametrize(
    ("limit", "chosen", "text"),
    [
        (20000, 1, "budget 20,000 bytes"),
        (900000, 2, "budget 900,000 bytes, to the right of this figure"),
        (5000, None, "budget 5,000 bytes: nothing fits"),
    ],
)
def test_the_budget_is_a_line_where_it_is_near_and_words_anyway(
    limit: int, chosen: int | None, text: str
) -> None:
    choices = dataclasses.replace(CHOICES, limit_bytes=limit, chosen=chosen)
    assert text in words(frontier_svg(choices))
    assert "none" in Page(render_frontier(choices)).words or chosen is not None


def test_one_choice_alone_is_a_picture_too() -> None:
    alone = FrontierReport(
        "net", "host", 0, 1024, 1 << 20, True, ARRAY[-1:], Optimize.SIZE, 0, None
    )
    found = words(frontier_svg(alone))
    assert "least: 41,024 bytes" in found
    assert alone.factor(alone.choices[0]) == 1.0


def test_the_page_has_every_figure_and_marks_the_chosen_line() -> None:
    page = Page(render_frontier(CHOICES))
    for figure in ("9,024", "11,024", "7,600", "1,002,000", "0.2000 %", "12×1 3×8", "5,000"):
        assert figure in page.words
    assert [a.get("class") for tag, a in page.elements if tag == "tr"].count("chosen") == 1
    assert not {"script", "link", "img"} & {tag for tag, _ in page.elements}


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "{{ 7 * 7 }}", "nul\x00 \x1b[31m"])
def test_odd_names_are_text(name: str) -> None:
    choices = dataclasses.replace(CHOICES, model=name, target=name)
    page = Page(render_frontier(choices))
    assert "script" not in {tag for tag, _ in page.elements}
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    assert page.words.startswith(f"{shown} for {shown}")


def test_other_memories_have_a_column_where_they_hold_anything() -> None:
    far = dataclasses.replace(ARRAY[0], ram_bytes=9024 + 32768, static_bytes=32768)
    choices = dataclasses.replace(CHOICES, choices=(far, *ARRAY[1:]))
    assert "other memories" not in Page(render_frontier(CHOICES)).words
    assert "other memories" in Page(render_frontier(choices)).words
    assert "7,600 32,768 1,002,000" in Page(render_frontier(choices)).words
    assert "7,600 32,768 1,002,000" in shown(choices)


def shown(choices: FrontierReport) -> str:
    """What a terminal shows, blanks joined."""
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(choice_table(choices))
    return "\n".join(" ".join(line.split()) for line in capture.get().splitlines())


def test_the_terminal_shows_a_line_a_choice() -> None:
    lines = shown(CHOICES).splitlines()
    assert "> 11,024 10.77 10,000 10,000 1,001,000 0.1000 % 7 1.00 8,000 700 12×16" in lines
    assert "41,024 40.06 40,000 40,000 1,000,000 0.0000 % 7 1.00 8,000 700 –" in lines
    assert lines[-1] == (
        ">: the fastest that fits, in 20,000 bytes; input streamed: 9,024 bytes or more (0.2000 %)"
    )


def test_equal_frontiers_give_equal_bytes() -> None:
    assert Explored(CHOICES).bundle() == Explored(CHOICES).bundle()
    assert frontier_png(CHOICES) == frontier_png(CHOICES)
    assert frontier_png(CHOICES).startswith(b"\x89PNG")
