"""A handwritten compilation: three layers, five buffers of three kinds, and their report."""

from dataclasses import dataclass, replace

from penstock.reports.command import CompileCommand
from penstock.reports.layer import Step, model_layers
from penstock.reports.report import (
    CycleCounts,
    Flash,
    Instructions,
    Macs,
    Optimality,
    Point,
    RamUsage,
    Report,
)
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline

COMMAND = CompileCommand("small.tflite", "cortex-m4", ("--stack", "2048"))


@dataclass(frozen=True, slots=True)
class Count:
    """What a simulated core would have counted for a step."""

    cycles: int
    instructions: int


@dataclass(frozen=True, slots=True)
class Example:
    """What the reports are made from."""

    report: Report
    counts: tuple[Count, ...]

    @property
    def layers(self) -> tuple[Step, ...]:
        return self.report.layers

    @property
    def timeline(self) -> Timeline:
        return self.report.timelines[0]


def span(
    name: str, kind: str, lower_byte: int, upper_byte: int, first_step: int, last_step: int
) -> MemorySpan:
    """A tensor that lives whole from one step to another; step -1 is the caller before the run, the
    number of steps the caller after it."""
    return MemorySpan(
        name, kind, (LivePiece(lower_byte, upper_byte, first_step + 1, last_step + 2),)
    )


def of_steps(spans: tuple[MemorySpan, ...], steps: int) -> Timeline:
    """The timeline of layers that all run whole."""
    return Timeline(spans, tuple(Stretch(1, 1, (k, k), None) for k in range(steps)))


def make_example() -> Example:
    """The small compilation."""
    layers = (
        Step(
            0,
            "net/conv/Relu;net/bias",
            "Conv2D",
            "",
            (1, 32, 32, 8),
            None,
            None,
            (-1,),
            1,
            1000000,
            900,
            8192,
            9000000,
            "cpu",
            False,
            "conv2d_s8_dsp",
        ),
        Step(
            1,
            "net/pool",
            "MaxPool2D",
            "",
            (1, 16, 16, 8),
            None,
            None,
            (0,),
            1,
            0,
            8192,
            2048,
            700000,
            "cpu",
            False,
        ),
        Step(
            2,
            "net/dense",
            "FullyConnected",
            "",
            (1, 10),
            None,
            None,
            (1,),
            1,
            300000,
            2100,
            10,
            176543,
            "cpu",
            False,
        ),
    )
    spans = (
        span("input", "io", 8192, 9216, -1, 0),
        span("net/conv/Relu;net/bias", "arena", 0, 8192, 0, 1),
        span("net/conv/Relu;net/bias/scratch", "scratch", 9216, 9728, 0, 0),
        span("net/pool", "arena", 8192, 10240, 1, 2),
        span("net/dense", "io", 0, 10, 2, 3),
    )
    counts = (Count(8000001, 5000001), Count(600000, 400000), Count(150000, 90000))
    report = Report(
        "small.tflite",
        "cortex-m4",
        RamUsage(total=13312, arena=12288, static=0, stack=1024, io=1034, scratch=512),
        Flash(total=45678, weights=45678, code=None),
        Macs(model=1234567, executed=1300000, constant=0),
        CycleCounts(estimated=9876543, simulated=None),
        Instructions(None),
        (Point(13312, 9876543, 1300000),),
        Optimality("optimal", 0.25, "optimal"),
        COMMAND,
        timelines=(of_steps(spans, 3),),
    )
    return Example(with_steps(report, layers), counts)


def with_steps(report: Report, steps: tuple[Step, ...]) -> Report:
    """The report with other steps, and the layers that they compute."""
    return replace(report, layers=steps, model_layers=model_layers(steps))
