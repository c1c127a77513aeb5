"""The page of results, generated from the committed files of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.drawings.svg import Drawing, box, text
from tools.site.markdown import table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NONE = "–"
HEAD = """# Results

All figures on this page come from files in `benchmarks/`, which the commands below write; the
build of this site only formats them. Nothing here ran on a chip: cycles are counted on simulated
cores, and milliseconds are these cycles divided by the clock of a board. RAM includes a stack
reserve of 1 KiB. [Benchmarks](project/benchmarks.md) lists the commands and what they check.

"""


def results_page() -> str:
    """Return the page."""
    return "\n".join(
        (
            HEAD + MLPERF,
            _mlperf(_read("mlperf_tiny.json")),
            *_models(_read("numbers.json")),
            *_frontiers(_read("recorded_results.json")),
        )
    )


def _read(name: str) -> Any:
    return json.loads((BENCHMARKS / name).read_text("utf-8"))


MLPERF = """## MLPerf Tiny

`python -m benchmarks.mlperf_tiny -o benchmarks/mlperf_tiny.json`

*RAM* is that of the default schedule, *least RAM* that of the smallest one. *ms* is modelled;
*v1.3* is the best published time on the same board (STMicroelectronics, X-CUBE-AI), measured on the
chip. The published results have no column for RAM. The streaming wake word runs incrementally, one
frame per inference; its published time includes the computation of features.
"""


def _mlperf(rows: Sequence[Mapping[str, Any]]) -> str:
    boards = dict.fromkeys((row["board"], row["clock_mhz"]) for row in rows)
    return "\n".join(
        f"### {board}, {clock} MHz\n\n"
        + table(
            ("task", "RAM", "least RAM", "ms", "v1.3", "cycles", "flash"),
            (_task(row) for row in rows if row["board"] == board),
        )
        for board, clock in boards
    )


def _task(row: Mapping[str, Any]) -> Iterator[str]:
    yield row["task"]
    yield from _figures(row, ("ram_bytes", "least_ram_bytes"))
    yield f"{row['milliseconds']:.2f}"
    yield NONE if row["published_ms"] is None else f"{row['published_ms']:.2f}"
    yield from _figures(row, ("cycles", "flash_bytes"))


def _models(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "## RAM beside other compilers\n\n"
        f"`python -m benchmarks.numbers -o benchmarks/numbers.json`, commit `{numbers['commit']}` "
        f"of {numbers['date']}, target `{numbers['target']}`.\n\n"
        "Bytes of RAM without stack: the arena of penstock's default schedule, the largest sum of "
        "tensors that are live in the order of the file (*peak*), the arena of TensorFlow Lite "
        "Micro, and those that Vela and TVM plan for an NPU.\n"
    )
    models = numbers["models"]
    yield _chart(models)
    names = ("peak_live_bytes", "tflm_arena_bytes", "vela_bytes", "tvm_bytes")
    yield table(
        ("network", "penstock", "peak", "TFLM", "Vela", "TVM"),
        (
            (f"`{m['model']}`", _grouped(m["ram_bytes"]["arena"]), *_figures(m["peers"], names))
            for m in models
        ),
    )
    yield (
        "\n## Cycles and instructions\n\nOne inference on the simulated Cortex-M4, beside CMSIS-NN "
        "compiled by gcc and run on the same simulator.\n"
    )
    peers = ("cmsis_nn_gcc_cycles", "cmsis_nn_gcc_instructions")
    yield table(
        ("network", "cycles", "instructions", "CMSIS-NN cycles", "CMSIS-NN instructions"),
        (
            (
                f"`{m['model']}`",
                *_figures(m, ("cycles_simulated", "instructions")),
                *_figures(m["peers"], peers),
            )
            for m in models
        ),
    )


def _figures(record: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield _grouped(record.get(name))


def _grouped(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


ROW_PX, LABEL_PX, BAR_PX = 44, 12, 476


def _chart(models: Sequence[Mapping[str, Any]]) -> str:
    """Return bars of the arenas of penstock and of TensorFlow Lite Micro."""
    pairs = [
        (m["model"], m["ram_bytes"]["arena"], m["peers"]["tflm_arena_bytes"])
        for m in models
        if m["peers"].get("tflm_arena_bytes")
    ]
    pairs.sort(key=lambda pair: pair[1] / pair[2])
    shapes = [
        box(LABEL_PX, 8, 14, 14, "blue"),
        text(LABEL_PX + 20, 20, "penstock"),
        box(LABEL_PX + 110, 8, 14, 14, "empty"),
        text(LABEL_PX + 130, 20, "TensorFlow Lite Micro"),
    ]
    for k, (name, ours, theirs) in enumerate(pairs):
        y = 40 + k * ROW_PX
        shapes += (
            box(LABEL_PX, y + 18, BAR_PX, 14, "empty"),
            box(LABEL_PX, y + 18, BAR_PX * ours / theirs, 14, "blue"),
            text(LABEL_PX, y + 12, name),
            text(LABEL_PX + BAR_PX, y + 12, f"{ours / theirs:.0%} of {theirs:,}", "end", soft=True),
        )
    title = "Arena of each network, relative to that of TensorFlow Lite Micro"
    chart = Drawing(title, 500, 44 + len(pairs) * ROW_PX, tuple(shapes))
    return f'<figure class="drawing-frame">\n{chart.svg()}</figure>\n'


def _frontiers(recorded: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "\n## Frontiers\n\n`python -m benchmarks.unchanged --against "
        "benchmarks/recorded_results.json`\n\nEvery schedule that a RAM budget can select: its "
        "RAM, and its estimated cycles relative to the fastest. Networks with a single point need "
        "no more cycles at their least RAM.\n"
    )
    rows: list[tuple[str, str, str, str]] = []
    for name, result in recorded.items():
        network, _, target = name.partition(" on ")
        points = result["frontier"]
        if len(points) < 2 or " " in target:
            continue
        fastest = min(cycles for _, cycles, _ in points)
        rows.append(
            (
                f"`{network}`",
                target,
                str(len(points)),
                ", ".join(f"{ram:,} (+{cycles / fastest - 1:.1%})" for ram, cycles, _ in points),
            )
        )
    yield table(("network", "target", "points", "RAM (extra cycles)"), rows, 9)
