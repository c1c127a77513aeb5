"""Demonstration: classify scikit-learn's digits on a simulated Cortex-M4."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from penstock import api
from penstock.hardware.load import DEFAULT_TARGET
from penstock.reports.report import Json, Report

TARGET = DEFAULT_TARGET
_FOLDER = files("penstock.demo")


@dataclass(frozen=True, slots=True)
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
        ram, flash = self.report.ram_bytes, self.report.flash_bytes
        return "\n".join(
            (
                f"digits on a simulated {TARGET}: {self.right} of {self.digits} right",
                f"RAM    {ram.total:>9,} bytes: arena {ram.arena}, stack reserve {ram.stack}",
                f"flash  {flash.total:>9,} bytes: weights {flash.weights}, code {flash.code}",
                f"cycles {self.report.cycles.simulated:>9,} an inference (modelled)",
                f"the C and report.html are in {self.folder}/",
            )
        )


def run(folder: Path, on_stage: api.OnStage) -> Demonstration:
    """Compile the digits model into a new `folder` and classify the test digits.

    Raises OutputError, ToolError."""
    with as_file(_FOLDER / "digits.tflite") as model, as_file(_FOLDER / "digits_test.npz") as test:
        wanted = api.request(model, TARGET)
        compiled = api.compile(wanted, on_stage=on_stage)
        with np.load(test) as archive:
            digits = {key: archive[key] for key in ("inputs", "labels")}
        name = compiled.compilation.model.inputs[0].name
        compiled.write(folder)
        sets = [{name: digit[np.newaxis]} for digit in digits["inputs"]]
        ran = api.run(wanted, sets=sets, on_stage=on_stage)
    answers = [int(np.argmax(next(iter(outputs.values())))) for outputs in ran.outputs]
    right = sum(a == b for a, b in zip(answers, digits["labels"].tolist(), strict=True))
    return Demonstration(right, len(answers), ran.report, folder)
