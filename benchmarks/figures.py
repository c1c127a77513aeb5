"""Figures: what penstock needs for one model, measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock import api
from penstock.pipeline import read
from penstock.reports.report import Flash, Macs, Optimality, Ram, Report

TARGET = "cortex-m4"
MAX_SIMULATED_MACS = 1_000_000_000
"""Above it a network is compiled, not simulated: ten instructions a product take minutes."""
ZOO = (
    "zoo:lenet5",
    "zoo:resnet8",
    "zoo:mobilenet_v1:alpha=0.25,resolution=96",
    "zoo:mobilenet_v1",
    "zoo:mobilenet_v2:alpha=0.35,resolution=96",
)
"""Networks of the zoo that are measured; not vgg16: its C would hold 138 million numbers."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes, work and time of one model on the target; None where it was not simulated."""

    model: str
    ram_bytes: Ram
    flash_bytes: Flash
    macs: Macs
    optimality: Optimality
    cycles_estimated: int
    cycles_simulated: int | None
    instructions: int | None
    stack_bytes_measured: int | None


def measure(model: str) -> Figures:
    """Compiles a model, simulates one inference where it is not too large, and reads the report.

    Raises PenstockError where penstock does not take the model."""
    name = model if model.startswith("zoo:") else Path(model).stem
    if read(model).macs() > MAX_SIMULATED_MACS:
        return figures_of(name, api.compile(model, TARGET).report)
    return figures_of(name, api.run(model, TARGET).report)


def figures_of(name: str, report: Report) -> Figures:
    """What a report says of a model."""
    return Figures(
        name,
        report.ram_bytes,
        report.flash_bytes,
        report.macs,
        report.optimality,
        report.cycles.estimated,
        report.cycles.simulated,
        report.instructions.simulated,
        report.stack_bytes_measured,
    )
