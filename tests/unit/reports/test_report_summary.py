"""The terminal summary: complete figures at any width, names printed literally."""

import dataclasses
import re

import pytest
from rich.console import Console, RenderableType
from small_compilation import Example

import penstock
from penstock.reports.layer import ConstantChannels, Layer, model_layers, with_counts
from penstock.reports.layer_table import LayerOrder, LayerSelection, LayerTable, code_table
from penstock.reports.report import (
    CascadeReport,
    CycleCounts,
    Flash,
    Instructions,
    Optimality,
    Requantised,
    RungReport,
    SmallerKernels,
)
from penstock.reports.summary import summary
from penstock.reports.tables import ladder_table


def shown(renderable: RenderableType, width: int = 120) -> str:
    """What a terminal of that width shows, blanks joined."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(" ".join(line.split()) for line in capture.get().splitlines())


def test_the_summary_says_the_totals_and_what_is_proven(example: Example) -> None:
    text = shown(summary(example.report))
    for words in (
        "small.tflite for cortex-m4",
        "RAM 13,312 bytes (13.00 KiB): arena 12,288 (io 1,034, scratch 512 inside) + stack 1,024",
        "flash 45,678 bytes (44.61 KiB): weights 45,678, code not compiled",
        "MACs 1,300,000 executed; model 1,234,567",
        "cycles 9,876,543 estimated",
        "execution order proved optimal",
        "partition into cascades at most 25.0 % above a proved lower bound",
    ):
        assert words in text
    assert "+ stack 1,024 (not measured)" in text
    assert "instructions" not in text


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ((3,), "constant 1 channel of 1 layer does not depend on the input: 72 bytes of weights"),
        ((3, 4), "constant 2 channels of 1 layer do not depend on the input: 72 bytes of weights"),
    ],
)
def test_the_number_of_constant_channels_is_stated(
    example: Example, channels: tuple[int, ...], words: str
) -> None:
    found = ConstantChannels("conv", channels, 8, "w", skipped=True, dropped_bytes=72)
    assert words in shown(summary(dataclasses.replace(example.report, constant_channels=(found,))))


def test_details_and_certificates_without_a_proof_are_only_listed_if_asked_for(
    example: Example,
) -> None:
    report = dataclasses.replace(
        example.report,
        requantisation=(Requantised("conv", "conv2d", {"A": 3, "B": 5}),),
        optimality=Optimality("optimal", 4.0, "unknown"),
    )
    text, verbose = shown(summary(report)), shown(summary(report, verbose=True))
    assert "execution order proved optimal" in text
    assert "nothing is proved" not in text
    assert "requantisation" not in text
    assert "partition into cascades nothing is proved" in verbose
    assert "channels 8 by class of requantisation: A 3, B 5" in verbose


def test_the_summary_says_what_was_simulated_and_checked(example: Example) -> None:
    report = dataclasses.replace(
        example.report,
        ram_bytes=dataclasses.replace(example.report.ram_bytes, static=16),
        flash_bytes=Flash(50000, 45678, 4322),
        cycles=CycleCounts(9876543, 8750001),
        instructions=Instructions(5490001),
        stack_bytes_measured=222,
        verified=(RungReport("machine", 7, 6543, 0), RungReport("host", 7, 6543, 21)),
    )
    text = shown(summary(report))
    for words in (
        "+ static 16 + stack 1,024 (222 used)",
        "weights 45,678, code 4,322",
        "cycles 8,750,001 simulated; estimated 9,876,543",
        "instructions 5,490,001 simulated",
        "checked: machine 7 tensors, 0 mismatches",
        "checked: host 7 tensors, 21 mismatches",
    ):
        assert words in " ".join(text.split())


def test_the_summary_says_why_the_goal_is_speed(example: Example) -> None:
    """Beside a budget, unless the user has stated the goal."""
    words = "since --sram is given; balanced is up to 1 % slower)"
    budgeted = dataclasses.replace(example.report.command, sram_bytes=65536, optimize=None)
    stated = dataclasses.replace(budgeted, optimize="speed")
    for command, expected in ((budgeted, True), (stated, False)):
        report = dataclasses.replace(example.report, optimize="speed", command=command)
        text = shown(summary(report), 200)
        assert (words in text) == expected
        assert "the fastest that fits into 65,536 bytes (--optimize speed" in text


def test_the_summary_says_that_the_estimate_is_not_for_code_compiled_for_size(
    example: Example,
) -> None:
    report = dataclasses.replace(example.report, optimize="size", optimised_for="size")
    assert "cycles 9,876,543 estimated for -O3" in shown(summary(report))
    assert "the least RAM, compiled with -Os (--optimize size)" in shown(summary(report))
    assert "-O3" not in shown(summary(example.report))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "cortex-m4",
            "estimated cycles: pool1; the dsp kernels need at least 8 channels",
        ),
        ("cortex-m0plus", "the thumb kernels do not support this MaxPool2D"),
        ("cortex-m4-portable", None),
    ],
)
def test_the_summary_says_why_a_slow_layer_runs_in_portable_c(
    target: str, expected: str | None
) -> None:
    """The pool of lenet5 on 6 channels; that on 16 channels has a kernel and is fast."""
    report = penstock.compile("zoo:lenet5", target).report
    assert [one.layer for one in report.portable_layers] == (["pool1"] if expected else [])
    text = shown(summary(report), 200)
    assert (expected in text) if expected else ("portable C" not in text)


def test_smaller_kernels_are_proposed(example: Example) -> None:
    found = SmallerKernels("portable", 54321)
    report = dataclasses.replace(example.report, smaller_kernels=found)
    text = shown(summary(report), 200)
    assert "about 54,321 bytes of flash less: slower kernels with smaller tables\n" in text
    assert "--kernels portable" in text


def measured(example: Example) -> tuple[Layer, ...]:
    """The layers of the small compilation, simulated."""
    return example.report.with_counts(example.counts).model_layers


def test_the_layer_table_has_a_line_a_layer_and_a_line_of_sums(example: Example) -> None:
    text = shown(LayerTable(example.report.model_layers))
    assert "0 Conv2D Relu 1×32×32×8 1,000,000 9,000,000 91.1 % 9.00 9,092" in text
    assert "1 MaxPool2D pool 1×16×16×8 0 700,000 7.1 % – 10,240" in text
    assert "total 1,300,000 9,876,543 7.60 21,442" in text
    assert "simulated" not in text


def test_the_layer_table_shows_simulated_cycles_where_there_are_any(example: Example) -> None:
    text = shown(LayerTable(measured(example)))
    assert "1,000,000 9,000,000 8,000,001 91.4 % 8.00 7.53 9,092" in text
    assert "total 1,300,000 9,876,543 8,750,001 6.73 21,442" in text
    assert "/floor: cycles relative to" in text
    text = shown(LayerTable(measured(example), selection=LayerSelection(verbose=True)))
    assert "8,000,001 91.4 % 5,000,001 8.00" in text
    assert "total 1,300,000 9,876,543 8,750,001 5,490,001 6.73" in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_numbers_and_ends_of_names_stay_whole_in_a_narrow_terminal(
    example: Example, width: int
) -> None:
    long = tuple(dataclasses.replace(x, name=f"layer_{'n' * 300}_{x.step}") for x in example.layers)
    text = shown(LayerTable(model_layers(with_counts(long, example.counts))), width)
    for layer, count in zip(long, example.counts, strict=True):
        assert re.search(rf"lay?.*\.\.n*_{layer.step} ", text)
        figures = (layer.macs, count.cycles)
        more = (layer.cycles, layer.read_bytes + layer.written_bytes)[: width // 100]
        for figure in (*figures, *more):
            assert f"{figure:,}" in text
    assert ("columns also shows: " in text and "bytes moved" in text) == (width < 200)


@pytest.mark.parametrize(
    ("selection", "steps"),
    [
        (LayerSelection(), "012"),
        (LayerSelection(top=2), "01"),
        (LayerSelection(LayerOrder.MACS), "021"),
        (LayerSelection(LayerOrder.MOVED), "102"),
        (LayerSelection(LayerOrder.MOVED, top=1), "1"),
        (LayerSelection(LayerOrder.STEP, top=1), "0"),
    ],
)
def test_layers_are_sorted_and_selected(
    example: Example, selection: LayerSelection, steps: str
) -> None:
    text = shown(LayerTable(measured(example), selection=selection))
    assert "".join(re.findall(r"^(\d) [A-Z]", text, re.MULTILINE)) == steps
    assert "total 1,300,000 9,876,543 8,750,001" in text
    assert (f"{len(steps)} of 3 layers" in text) == (len(steps) < 3)


def test_functions_of_steps_are_one_line_and_the_total_is_the_code_of_the_flash() -> None:
    functions = {"conv2d_s8": 500, "net_step_0_a": 60, "net_step_1_b": 50}
    text = shown(code_table(functions, 700))
    assert "2 functions of single steps (--verbose lists them) 110" in text
    assert "read-only data and alignment 90" in text
    assert "total 700" in text
    assert "net_step_1_b" not in text
    assert "net_step_1_b 50" in shown(code_table(functions, 700, verbose=True))


@pytest.mark.parametrize("name", ["[red]x", "[bold]x[blink]", "a\x1b[31mb", "<b>&"])
def test_names_are_never_markup_nor_control_codes(example: Example, name: str) -> None:
    layers = (dataclasses.replace(example.layers[0], name=name),)
    report = dataclasses.replace(example.report, model=f"[/]{name}[/red]")
    visible = name.replace("\x1b", "\\x1b")
    assert f"0 Conv2D {visible} 1×32" in shown(LayerTable(model_layers(layers)))
    assert shown(summary(report)).startswith(f"[/]{visible}[/red] for cortex-m4")


def test_the_ladder_table_has_a_line_a_rung() -> None:
    rungs = (
        RungReport("machine", 7, 6543, 0),
        RungReport("host", 7, 6543, 21, "sanitizers: ub"),
        RungReport("core", 0, 0, None, "no core"),
    )
    text = shown(ladder_table(rungs))
    assert "machine 7 6,543 0" in text
    assert "host 7 6,543 21 sanitizers: ub" in text
    assert "core – – – no core" in text


def test_single_layers_in_stripes_are_no_cascades(example: Example) -> None:
    alone, several = CascadeReport(1, 4, 3), CascadeReport(5, 1, 20)
    for cascades, words in (
        ((), "selected: all layers run whole"),
        ((several,), "selected: 1 cascade, 20 calls"),
        ((alone, alone), "selected: 2 single layers in stripes, 6 calls"),
        ((several, alone), "selected: 1 cascade and 1 single layer in stripes, 23 calls"),
    ):
        report = dataclasses.replace(example.report, cascades=cascades)
        assert words in shown(summary(report), 200)


def test_the_summary_counts_constant_channels_that_are_computed_anyway(example: Example) -> None:
    skipped = ConstantChannels("a", (3, 5), 8, "w", skipped=True, dropped_bytes=72)
    computed = dataclasses.replace(skipped, layer="b", skipped=False, dropped_bytes=0)
    for found, words in (
        ((skipped,), "72 bytes of weights dropped\n"),
        ((skipped, computed), "72 bytes of weights dropped; those of 1 layer more are computed\n"),
    ):
        report = dataclasses.replace(example.report, constant_channels=found)
        text = shown(summary(report), 200)
        assert f"constant 2 channels of 1 layer do not depend on the input: {words}" in text
