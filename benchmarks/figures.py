"""Figures: measured memory, work and time of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock import api
from penstock.pipeline.graphs import read
from penstock.reports.report import Flash, Macs, Optimality, RamUsage, Report

TARGET = "cortex-m4"
MAX_SIMULATED_MACS = 1_000_000_000
"""Limit of work; above it, a network is compiled but not simulated, which would take minutes."""
ZOO = (
    "zoo:lenet5",
    "zoo:resnet8",
    "zoo:mobilenet_v1:alpha=0.25,resolution=96",
    "zoo:mobilenet_v1",
    "zoo:mobilenet_v2:alpha=0.35,resolution=96",
)
"""Zoo networks that are measured, without vgg16, whose C would hold 138 million numbers."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes, work and time of a model on the target; None if it is not simulated."""

    model: str
    ram_bytes: RamUsage
    flash_bytes: Flash
    macs: Macs
    optimality: Optimality
    cycles_estimated: int
    cycles_simulated: int | None
    instructions: int | None
    stack_bytes_measured: int | None


def measure(model: str) -> Figures:
    """Compiles a model, simulates one inference unless it is too large, and reads the report.

    Raises PenstockError if penstock does not support the model.
    """
    name = model if model.startswith("zoo:") else Path(model).stem
    if read(model).macs() > MAX_SIMULATED_MACS:
        return figures_of(name, api.compile(model, TARGET).report)
    return figures_of(name, api.run(model, TARGET).report)


def figures_of(name: str, report: Report) -> Figures:
    """The figures of a report."""
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
