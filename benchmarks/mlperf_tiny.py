"""The six networks of MLPerf Tiny v1.4 with a RAM column: RAM, flash, cycles and modelled time of
the code that penstock generates, beside the best results of v1.3 on the same cores and clocks.

Times are modelled: cycles counted on the simulated core, divided by the clock of the board.  The
published times are measured on the boards; streaming wake word's include its features.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.shared import find_shared
from penstock import api


@dataclass(frozen=True, slots=True)
class Task:
    """A benchmark of MLPerf Tiny.

    model: name of its file.
    hop_frames: new frames per inference, for a network that runs incrementally; None: whole input.
    """

    name: str
    model: str
    hop_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """A board with published results.

    published_ms: milliseconds per inference by `Task.name`.  Source: MLPerf Tiny v1.3 (2025-09),
        STMicroelectronics, X-CUBE-AI 10.2.
    """

    name: str
    target: str
    clock_mhz: int
    published_ms: Mapping[str, float]


TASKS = (
    Task("anomaly detection", "ad01_int8"),
    Task("image classification", "pretrainedResnet_quant"),
    Task("image classification 2", "pretrainedResnet_large_int8"),
    Task("keyword spotting", "kws_ref_model"),
    Task("visual wake words", "vww_96_int8"),
    Task("streaming wake word", "str_ww_ref_model", hop_frames=1),
)
BOARDS = (
    Board(
        "L4R5ZI-P (Cortex-M4)",
        "cortex-m4",
        120,
        {
            "anomaly detection": 4.79,
            "image classification": 165.7,
            "keyword spotting": 43.4,
            "visual wake words": 89.4,
            "streaming wake word": 17.89,
        },
    ),
    Board(
        "U575ZI-Q (Cortex-M33)",
        "cortex-m33",
        160,
        {
            "anomaly detection": 3.21,
            "image classification": 109.5,
            "keyword spotting": 29.0,
            "visual wake words": 59.3,
            "streaming wake word": 11.63,
        },
    ),
)
"""No results of v1.4, which adds image classification 2, are published yet."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of a network on a core.

    ram_bytes: RAM of the default point of the frontier (the knee), stack reserve included.
    least_ram_bytes: RAM of the smallest point.
    flash_bytes: constants and code of the default point.
    cycles: cycles of an inference at the default point, counted on the simulated core.
    milliseconds: the cycles at the clock of the board.
    published_ms: the published time; None if there is none.
    """

    task: str
    board: str
    clock_mhz: int
    ram_bytes: int
    least_ram_bytes: int
    flash_bytes: int
    cycles: int
    milliseconds: float
    published_ms: float | None


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write the results to a file if one is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mlperf_tiny", description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--task", default="", metavar="TEXT", help="only tasks with TEXT in them")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="JSON file to write")
    given = parser.parse_args(arguments)
    tasks = [task for task in TASKS if given.task in task.name]
    results = tuple(_results(tasks, find_shared(given.models).models))
    console().print(_table(results))
    if given.output is not None:
        rows = [asdict(result) for result in results]
        given.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def _results(tasks: Sequence[Task], models: Path) -> Iterator[Result]:
    for task in tasks:
        for board in BOARDS:
            print(f"measuring {task.name} on {board.target}", file=sys.stderr)
            yield measured(task, board, models)


def measured(task: Task, board: Board, models: Path) -> Result:
    """Compile a network for a core, run one inference on the simulated core, return the figures."""
    path = models / f"{task.model}.tflite"
    report = api.run(path, board.target, incremental=task.hop_frames).report
    cycles = report.cycles.simulated
    assert cycles is not None
    return Result(
        task.name,
        board.name,
        board.clock_mhz,
        report.ram_bytes.total,
        min(point.ram_bytes for point in report.frontier),
        report.flash_bytes.total,
        cycles,
        cycles / (1000 * board.clock_mhz),
        board.published_ms.get(task.name),
    )


def _table(results: Sequence[Result]) -> Table:
    table = Table(title="MLPerf Tiny: bytes, cycles, milliseconds (modelled; v1.3: measured)")
    for heading in ("task", "board"):
        table.add_column(heading, no_wrap=True)
    for heading in ("RAM", "least RAM", "flash", "cycles", "ms, modelled", "ms, v1.3", "ratio"):
        table.add_column(heading, justify="right")
    for one in results:
        published, ratio = "-", "-"
        if one.published_ms is not None:
            published = f"{one.published_ms:.2f}"
            ratio = f"{one.milliseconds / one.published_ms:.3f}"
        sizes = (one.ram_bytes, one.least_ram_bytes, one.flash_bytes, one.cycles)
        board = f"{one.board}, {one.clock_mhz} MHz"
        times = f"{one.milliseconds:.2f}", published, ratio
        table.add_row(one.task, board, *map(shown, sizes), *times)
    return table


if __name__ == "__main__":
    entry(main)
