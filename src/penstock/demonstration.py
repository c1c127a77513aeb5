"""Demonstration: classify scikit-learn's digits on a simulated core."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from penstock import api
from penstock.api.ran import RUN
from penstock.frozen import frozen
from penstock.pipeline.graphs import read
from penstock.pipeline.stages import READ
from penstock.reports.codec import Json
from penstock.reports.formats import ABSENT, duration
from penstock.reports.report import Report
from penstock.simulators.cores import require_tools

STEPS = 4
_FOLDER = files("penstock.demo")


@frozen
class Demonstration:
    """The result: correct answers, all digits, the report, and the directory of the C files."""

    right: int
    digits: int
    report: Report
    folder: Path

    def as_json(self) -> dict[str, Json]:
        """The report with the accuracy."""
        return {**self.report.as_json(), "right": self.right, "digits": self.digits}

    def __str__(self) -> str:
        ram, flash, cycles = self.report.ram_bytes, self.report.flash_bytes, self.report.cycles
        shown = cycles.simulated or cycles.estimated
        how = "simulated" if cycles.simulated else "estimated"
        time = duration(shown, self.report.clock_hz)
        code = ABSENT if flash.code is None else flash.code
        return "\n".join(
            (
                f"digits on {self.report.target}: {self.right} of {self.digits} right",
                f"RAM    {ram.total:>9,} bytes: arena {ram.arena}, stack reserve {ram.stack}",
                f"flash  {flash.total:>9,} bytes: weights {flash.weights}, code {code}",
                f"cycles {shown:>9,} an inference ({how})" + (f": {time}" if time else ""),
                f"the C and report.html are in {self.folder}/",
            )
        )


def run(
    target: str,
    folder: Path,
    on_step: Callable[[str], None],
    *,
    force: bool = False,
    trust_target: bool = False,
) -> Demonstration:
    """Compile the digits model for a target into a new `folder` and classify the test digits.

    Raises OutputError, ToolError."""
    with as_file(_FOLDER / "digits.tflite") as model, as_file(_FOLDER / "digits_test.npz") as test:
        wanted = api.request(model, target, trust_target=trust_target)
        on_step("check the compiler and the simulator")
        require_tools(wanted.target, "zig")
        with np.load(test, allow_pickle=False) as archive:
            digits = {key: archive[key] for key in ("inputs", "labels")}
        name = read(wanted.model).inputs[0].name
        sets = [{name: digit[np.newaxis]} for digit in digits["inputs"]]

        def on_stage(stage: str) -> None:
            if stage == READ.name:
                on_step(f"compile the digit classifier for {target}")
            elif stage == RUN:
                on_step(f"build it, and run {len(sets)} images on the simulated core")

        ran = api.run(wanted, sets=sets, on_stage=on_stage)
    on_step(f"write the C files and the report to {folder}/")
    ran.compiled.write(folder, force=force)
    answers = [int(np.argmax(next(iter(outputs.values())))) for outputs in ran.outputs]
    right = sum(a == b for a, b in zip(answers, digits["labels"].tolist(), strict=True))
    return Demonstration(right, len(answers), ran.report, folder)
