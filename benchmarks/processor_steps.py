"""ProcessorSteps: validates the estimates of the steps that the processor runs beside accelerators.

    python -m benchmarks.processor_steps [FOLDER] [--network NAME] [--accelerator NAME]
        [--record FILE [--again]]

Compiles twelve networks for the Cortex-M4 beside NVDLA and Ethos-U55, runs each on the simulated
core, and prints the estimated and the counted cycles of the processor's steps that take more than
SHARE of the time: the stated cycles of the accelerator and the counted ones of the processor.
Below each network, all steps of the processor together. Layers run whole.

Column `driver`: `model` if the accelerator's driver ran as its functional model in C, `idle` if its
functions returned at once, for networks with more than MOST_MACS multiply-accumulates and for
drivers without a model in C. Control flow never depends on elements, so the processor runs the
same steps; of the kernels, only softmax takes a few cycles more or less. The constants of VGG16
exceed the core's flash; with alpha=0.25, the processor runs the same operators. FOLDER and
`--record` are those of `compiled_partition`. Exits with 1 if an estimate is off by more than WRONG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.figures import TARGET
from benchmarks.graph_groups import short_name
from benchmarks.grouped_networks import Job, selection
from benchmarks.measured import layers, run
from penstock import api
from penstock.codegen.bundle import Bundle
from penstock.ladder import has_c
from penstock.pipeline.compilation import compile_request
from penstock.scheduling.options import Options

WRONG, SHARE = 0.10, 0.01
MOST_MACS = 2 * 10**7
"""Of the networks whose layers the functional model of a driver in C computes."""
NVDLA, ETHOS_U = "nvdla:config=small", "ethos_u55"
OPTIONS = {NVDLA: Options(partition="bounded"), ETHOS_U: Options(max_parts=1)}
"""With these, layers run whole."""
REDUCED = {"zoo:vgg16": "zoo:vgg16:alpha=0.25"}
"""Networks whose constants do not fit."""
IDLE = {
    NVDLA: (
        "nvdla.c",
        """\
#include "nvdla.h"
void nvdla_submit(const void *stream, int32_t bytes, void *bases[])
{
    (void)stream, (void)bytes, (void)bases;
}
void nvdla_wait(void) {}
""",
    ),
    ETHOS_U: (
        "ethosu_driver.h",
        """\
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
static inline struct ethosu_driver *ethosu_reserve_driver(void) { return NULL; }
static inline void ethosu_release_driver(struct ethosu_driver *driver) { (void)driver; }
static inline int ethosu_invoke_v3(struct ethosu_driver *driver, const void *stream, int bytes,
                                   const uint64_t *bases, const size_t *sizes, int count,
                                   void *user)
{
    volatile int failed = 0; /* volatile, so that the compiler keeps the step */
    (void)driver, (void)stream, (void)bytes, (void)bases, (void)sizes, (void)count, (void)user;
    return failed;
}
""",
    ),
}
"""Name and text of the files with driver functions that return at once."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the processor, with its kernel and cycles."""

    name: str
    kernel: str
    estimated: int
    counted: int

    @property
    def error(self) -> float:
        """Of the estimate, relative to what is counted."""
        return self.estimated / max(1, self.counted) - 1


@dataclass(frozen=True, slots=True)
class Beside:
    """A network beside an accelerator.

    idle: whether the functions of the driver returned at once.
    engine_cycles: stated cycles of the accelerator.
    steps: what the processor runs.
    """

    network: str
    accelerator: str
    idle: bool
    engine_cycles: int
    steps: tuple[Step, ...]

    @property
    def estimated(self) -> int:
        """Cycles of the processor."""
        return sum(one.estimated for one in self.steps)

    @property
    def counted(self) -> int:
        """Cycles of the processor."""
        return sum(one.counted for one in self.steps)

    @property
    def cycles(self) -> int:
        """The time of a run: stated cycles of the accelerator, counted ones of the processor."""
        return self.engine_cycles + self.counted

    @property
    def weighty(self) -> tuple[Step, ...]:
        """The steps that take more than SHARE of the time."""
        return tuple(
            one for one in self.steps if max(one.estimated, one.counted) > SHARE * self.cycles
        )

    @property
    def wrong(self) -> bool:
        """Whether an estimate is off by more than WRONG."""
        return any(abs(one.error) > WRONG for one in self.weighty)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 if an estimate is off by more than WRONG."""
    wanted = selection(
        "benchmarks.processor_steps",
        __doc__ or "",
        arguments,
        configs=tuple(OPTIONS),
        option="--accelerator",
        on_host=False,
    )
    jobs = (
        Job(model, accelerator, "", partial(beside, REDUCED.get(model, model), accelerator))
        for accelerator in OPTIONS
        for model in wanted.models
    )
    found = wanted.rows(jobs, parse)
    console().print(table(found))
    return 1 if not found or any(one.wrong for one in found) else 0


def parse(row: Any) -> Beside:
    """A network of a record."""
    return replace(Beside(**row), steps=tuple(Step(**step) for step in row["steps"]))


def beside(model: str, accelerator: str, most_macs: int = MOST_MACS) -> Beside:
    """The steps of a network on the processor.  Raises PenstockError.

    most_macs: with more multiply-accumulates, the functions of the driver return at once.
    """
    request = api.request(
        model,
        TARGET,
        accelerators=(accelerator,),
        options=OPTIONS[accelerator],
        optimize="speed",
    )
    done = compile_request(request)
    idle = done.model.macs() > most_macs or not all(map(has_c, request.accelerators))
    if idle:
        done = replace(done, bundle=with_idle_driver(done.bundle, accelerator))
    every = tuple(layers(done, run(done)))
    engine_cycles = sum(one.estimated for one in every if one.kernel.body is not None)
    steps = tuple(
        Step(one.name, one.kernel.name, one.estimated, one.simulated)
        for one in every
        if one.kernel.body is None
    )
    return Beside(short_name(model), accelerator, idle, engine_cycles, steps)


def with_idle_driver(bundle: Bundle, accelerator: str) -> Bundle:
    """Generated files, with driver functions that return at once."""
    name, text = IDLE[accelerator]
    return Bundle(tuple({**dict(bundle.files), name: text.encode()}.items()))


def table(found: Sequence[Beside]) -> Table:
    """The table of all networks."""
    made = Table(title=f"steps of the processor beside accelerators, on {TARGET}")
    for heading in ("network", "accelerator", "driver", "step", "kernel"):
        made.add_column(heading, no_wrap=heading == "step")
    for heading in ("share", "estimated", "counted", "error"):
        made.add_column(heading, justify="right")
    for one in found:
        facts = (one.network, one.accelerator, "idle" if one.idle else "model")
        for step in one.weighty:
            made.add_row(*facts, *cells(one, step))
        total = Step(f"all steps: {len(one.steps)}", "", one.estimated, one.counted)
        made.add_row(*facts, *cells(one, total), end_section=True)
    return made


def cells(one: Beside, step: Step) -> Sequence[str]:
    """The cells of one or more steps."""
    share = f"{step.counted / one.cycles:.1%}"
    figures = (share, shown(step.estimated), shown(step.counted), f"{step.error:+.1%}")
    return step.name, step.kernel, *figures


if __name__ == "__main__":
    entry(main)
