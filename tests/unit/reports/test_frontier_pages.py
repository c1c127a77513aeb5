"""The frontier as table and page: all points, the chosen one, reproducible bytes."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from embedded_data import Page
from rich.console import Console

from penstock.choices import Optimize
from penstock.exploration import Explored
from penstock.reports.command import CompileCommand
from penstock.reports.frontier import FrontierPoint, FrontierReport, MovedBytes
from penstock.reports.html import render_frontier
from penstock.reports.report import CascadeReport
from penstock.reports.tables import choice_table

COMMAND = CompileCommand("net.tflite", "cortex-m4")


def choice(arena: int, live: int, cycles: int, *cascades: CascadeReport) -> FrontierPoint:
    moved = {"sram": MovedBytes(5000, 3000), "flash": MovedBytes(700, 0)}
    return FrontierPoint(arena + 1024, arena, 0, live, cycles, 7, 1300000, 0, moved, cascades)


ARRAY = (
    choice(8000, 7600, 1002000, CascadeReport(12, 1, 240), CascadeReport(3, 8, 9)),
    choice(10000, 10000, 1001000, CascadeReport(12, 16, 20)),
    choice(40000, 40000, 1000000),
)
CHOICES = FrontierReport(
    "net.tflite",
    "cortex-m4",
    1300000,
    1024,
    20000,
    False,
    ARRAY,
    Optimize.SPEED,
    1,
    (ARRAY[0],),
    "1.0",
    COMMAND,
)


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


def test_the_page_has_every_figure_and_marks_the_chosen_point() -> None:
    page = Page(render_frontier(CHOICES))
    array, streamed = page.data["frontier"]["series"]
    assert (array["label"], streamed["label"]) == ("input an array in RAM", "input streamed")
    first = array["points"][0]
    assert first == {
        "ram_bytes": 9024,
        "cycles": 1002000,
        "macs_executed": 1300000,
        "command": "penstock compile net.tflite --target cortex-m4 --sram 9024",
        "arena_bytes": 8000,
        "static_bytes": 0,
        "live_bytes": 7600,
        "gap_bytes": 400,
        "calls": 7,
        "factor": 1.0,
        "moved": {"sram": [5000, 3000], "flash": [700, 0]},
        "cascades": "12×1 3×8",
    }
    assert [point.get("chosen", False) for point in array["points"]] == [False, True, False]
    assert streamed["points"][0]["command"] == (
        "penstock compile net.tflite --target cortex-m4 --stream-input --sram 9024"
    )
    assert page.data["frontier"]["limit_bytes"] == 20000


def test_the_key_figures_are_the_chosen_the_least_and_the_fastest() -> None:
    figures = Page(render_frontier(CHOICES)).data["figures"]
    assert [(one["label"], one["value"]) for one in figures] == [
        ("Chosen", "11,024"),
        ("Least RAM", "9,024"),
        ("Fastest", "41,024"),
        ("Least RAM, input streamed", "9,024"),
    ]
    none = dataclasses.replace(CHOICES, limit_bytes=5000, chosen=None)
    assert Page(render_frontier(none)).data["figures"][0]["value"] == "none"


def test_one_choice_alone_is_a_page_too() -> None:
    alone = FrontierReport(
        "net", "host", 0, 1024, 1 << 20, True, ARRAY[-1:], Optimize.SIZE, 0, None, "1.0", COMMAND
    )
    (series,) = Page(render_frontier(alone)).data["frontier"]["series"]
    assert series["label"] == "input streamed"
    assert alone.factor(alone.choices[0]) == 1.0


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "{{ 7 * 7 }}", "nul\x00 \x1b[31m"])
def test_odd_names_are_text(name: str) -> None:
    choices = dataclasses.replace(
        CHOICES, model=name, target=name, command=CompileCommand(name, name)
    )
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    assert Page(render_frontier(choices)).data["title"] == shown


def test_other_memories_have_a_column_where_they_hold_anything() -> None:
    far = dataclasses.replace(ARRAY[0], ram_bytes=9024 + 32768, static_bytes=32768)
    choices = dataclasses.replace(CHOICES, choices=(far, *ARRAY[1:]))
    assert "7,600 32,768 1,002,000" in shown(choices)
    assert "other" not in shown(CHOICES)


def shown(choices: FrontierReport) -> str:
    """What a terminal shows, blanks joined."""
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(choice_table(choices, CompileCommand("dir/net.tflite", "cortex-m4")))
    return "\n".join(" ".join(line.split()) for line in capture.get().splitlines())


def test_the_terminal_shows_a_line_a_choice() -> None:
    lines = shown(CHOICES).splitlines()
    assert "> 11,024 10.77 10,000 10,000 1,001,000 0.1000 % 7 1.00 8,000 700 12×16" in lines
    assert "41,024 40.06 40,000 40,000 1,000,000 0.0000 % 7 1.00 8,000 700 –" in lines
    assert ">: the fastest that fits (--optimize speed), in 20,000 bytes" in lines
    streamed = lines[lines.index("with the input streamed (--stream-input):") :]
    assert any(line.startswith("9,024 8.81 ") for line in streamed)
    assert lines[-1] == "penstock compile dir/net.tflite --target cortex-m4 --sram 9024"


def test_equal_frontiers_give_equal_bytes() -> None:
    assert Explored(CHOICES).bundle() == Explored(CHOICES).bundle()
