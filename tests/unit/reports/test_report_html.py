"""report.html: complete data, self-contained, reproducible, safe with any name."""

import base64
import dataclasses
import hashlib
import os
import pickle
import re
import subprocess
import sys

import pytest
from embedded_data import Page
from small_compilation import Example, with_steps

from penstock.reports.command import CompileCommand
from penstock.reports.html import render_html
from penstock.reports.report import (
    Alternative,
    CycleCounts,
    Flash,
    Instructions,
    Optimality,
    Point,
    Report,
    RungReport,
)
from penstock.reports.timeline import Timeline


def rendered(example: Example, report: Report | None = None) -> bytes:
    return render_html(report or example.report)


def test_the_page_has_the_totals_with_kib_beside_bytes(example: Example) -> None:
    found = Page(rendered(example)).data
    ram, flash, macs, cycles = found["figures"]
    assert (ram["value"], ram["unit"]) == ("13,312", "bytes")
    assert ram["notes"] == ["13.00 KiB", "arena 12,288", "stack reserve 1,024"]
    assert (flash["value"], flash["notes"][0]) == ("45,678", "44.61 KiB")
    assert (macs["value"], macs["notes"]) == ("1,300,000", ["model 1,234,567", "F 1.05"])
    assert (cycles["value"], cycles["unit"]) == ("9,876,543", "estimated")
    assert cycles["notes"] == ["not simulated"]
    for_size = rendered(example, dataclasses.replace(example.report, optimised_for="size"))
    assert Page(for_size).data["figures"][-1]["unit"] == "estimated for -O3"
    sizes = {part["name"]: part["size_bytes"] for part in found["ram"]}
    assert sizes == {
        "arena": 12288, "– io": 1034, "– scratch": 512, "static": 0, "stack": 1024, "total": 13312,
    }  # fmt: skip


def test_the_page_has_what_was_simulated_measured_and_checked(example: Example) -> None:
    report = dataclasses.replace(
        example.report,
        flash_bytes=Flash(50000, 45678, 4322),
        cycles=CycleCounts(9876543, 8750001),
        instructions=Instructions(5490001),
        ram_bytes_streamed_input=11111,
        stack_bytes_measured=222,
        verified=(RungReport("machine", 7, 6543, 0), RungReport("host", 7, 6543, 21)),
    )
    page = Page(render_html(report.with_counts(example.counts)))
    for words in ("code 4,322", "8,750,001 simulated", "5,490,001", "11,111", "222 bytes"):
        assert words in page.words
    for count, layer in zip(example.counts, page.data["layers"], strict=True):
        assert (layer["simulated_cycles"], layer["instructions"]) == (
            count.cycles,
            count.instructions,
        )
    checked = page.data["statements"][-2:]
    assert checked[1] == {
        "subject": "checked: host",
        "words": "7 tensors, 6,543 elements, 21 mismatches",
        "failed": True,
    }
    assert "failed" not in checked[0]
    assert "Shares refer to simulated cycles." in page.words


def test_the_points_with_a_streamed_input_stand_beside_the_ram(example: Example) -> None:
    known = dataclasses.replace(
        example.report,
        ram_bytes_streamed_input=7168,
        alternatives=(
            Alternative("--optimize size", 9999, 1),
            Alternative("--stream-input", 8192, 2 * example.report.cycles.estimated),
        ),
    )
    ram, streamed, *_ = Page(rendered(example, known)).data["figures"]
    assert (ram["label"], streamed["label"]) == ("RAM", "Least RAM, input streamed")
    assert (streamed["value"], streamed["unit"]) == ("7,168", "bytes")
    goal = f"goal {known.optimize} 8,192 at +100 % cycles"
    assert streamed["notes"] == ["7.00 KiB", "--stream-input", goal]
    command = dataclasses.replace(known.command, options=("--stream-input",))
    own = Page(rendered(example, dataclasses.replace(known, command=command))).data
    assert [one["label"] for one in own["figures"]] == ["RAM", "Flash", "MACs", "Cycles"]
    assert own.get("ram_notes", []) == []


def test_every_layer_has_its_figures(example: Example) -> None:
    for shown, layer in zip(Page(rendered(example)).data["layers"], example.layers, strict=True):
        assert shown["shape"] == "×".join(map(str, layer.shape))
        assert shown["reads"] == list(layer.reads)
        for key in ("step", "kind", "macs", "read_bytes", "written_bytes", "cycles", "calls"):
            assert shown[key] == getattr(layer, key)
        assert "cascade" not in shown


def test_certificates_are_phrases(example: Example) -> None:
    report = dataclasses.replace(example.report, optimality=Optimality("optimal", 0.25, -1.0))
    words = Page(rendered(example, report)).words
    assert "proved optimal: no other order of whole layers needs less memory" in words
    assert "at most 25.0 % above a proved lower bound" in words
    assert "nothing is proved" in words


def test_every_point_and_every_alternative_has_its_command(example: Example) -> None:
    report = dataclasses.replace(
        example.report,
        frontier=(Point(7777, 999, 1), Point(8888, 888, 2, True)),
        alternatives=(
            Alternative("--optimize size", 7777, 999),
            Alternative("--stream-input", 700, 9),
        ),
    )
    found = Page(rendered(example, report)).data
    begin = "penstock compile small.tflite --target cortex-m4 --stack 2048"
    (series,) = found["frontier"]["series"]
    assert [point["command"] for point in series["points"]] == [
        f"{begin} --sram 7777",
        f"{begin} --sram 8888",
    ]
    assert [point.get("chosen", False) for point in series["points"]] == [False, True]
    assert [other["command"] for other in found["others"]] == [
        f"{begin} --optimize size",
        f"{begin} --stream-input",
    ]
    assert found["command"] == begin


def test_the_page_loads_nothing_and_runs_only_its_own_script(example: Example) -> None:
    html = rendered(example)
    page = Page(html)
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(page.script.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert not re.search(rb"@import|url\((?![#)\"])", html.split(b"<script")[0])
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(", page.script)


def test_the_page_without_data_is_small(example: Example) -> None:
    assert len(rendered(example)) < 250_000


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "<!-- <script>",
        "{{ 7 * 7 }} & {% raw %} @@data@@",
        "名前/слой/😀",
        "nul\x00 escape\x1b[31m surrogate\udc80 \u2028",
        "a/" * 150,
        "x" * 300,
        "",
    ],
)
def test_odd_names_are_data_and_nothing_more(example: Example, name: str) -> None:
    command = CompileCommand(name, name)
    layers = (dataclasses.replace(example.layers[0], name=name), *example.layers[1:])
    first, *others = example.timeline.spans
    spans = (dataclasses.replace(first, name=name), *others)
    timeline = dataclasses.replace(example.timeline, spans=spans)
    report = dataclasses.replace(
        example.report, model=name, target=name, command=command, timelines=(timeline,)
    )
    page = Page(render_html(with_steps(report, layers)))
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    assert page.title == f"{shown} – penstock"
    assert page.data.get("title", "") == shown
    assert page.data["layers"][0].get("full_name", "") == shown
    assert page.data["memories"][0]["blocks"][0].get("full_name", "") == shown


def test_a_network_without_layers_has_a_page(example: Example) -> None:
    empty = dataclasses.replace(with_steps(example.report, ()), timelines=(Timeline((), ()),))
    found = Page(render_html(empty)).data
    assert found["title"] == "small.tflite"
    assert "layers" not in found


def test_the_page_has_the_same_bytes_under_another_hash_seed(example: Example) -> None:
    command = dataclasses.replace(example.report.command, sram_bytes=20000)
    report = dataclasses.replace(example.report, command=command)
    expected = render_html(report)
    assert render_html(report) == expected
    program = "\n".join(
        (
            "import pickle, sys",
            "from penstock.reports.html import render_html",
            "sys.stdout.buffer.write(render_html(pickle.load(sys.stdin.buffer)))",
        )
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(report),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
    assert ran.stdout == expected


def test_measurements_must_be_of_every_layer(example: Example) -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        example.report.with_counts(example.counts[:1])
