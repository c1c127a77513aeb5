"""The command line that states a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from penstock.allowance import DEFAULT_SIZE_LIMIT_BYTES, SIZE_LIMIT_OPTION
from penstock.backends.accelerator import Accelerator
from penstock.fixedpoint import Rounding
from penstock.frontends.reading import Reading
from penstock.hardware.compiler_flags import first_outside
from penstock.passes.interface_types import InterfaceTypes
from penstock.pipeline.provenance import default_folder
from penstock.pipeline.request import DEFAULT_STACK_BYTES, Request
from penstock.reports.command import CompileCommand
from penstock.scheduling.options import DEFAULTS, Options


def command_line(request: Request) -> CompileCommand:
    """Return the command that states a request.

    It names the model's file without its folder, so that reports do not depend on folders.  A graph
    that was built in Python has no file; `GRAPH` stands for it."""
    model = request.model if request.model.startswith("zoo:") else Path(request.model).name
    model = model if request.graph is None else "GRAPH"
    goal = None if request.optimize is None else request.optimize.value
    named = () if request.name is None else ("--name", request.name)
    return CompileCommand(
        *(model, request.target.name, (*named, *_options(request)), request.sram_bytes, goal),
        folder=request.name or default_folder(request.model),
    )


def _options(request: Request) -> Iterator[str]:
    """Yield the options that differ from their defaults, but not the RAM budget and the goal."""
    yield from _target_options(request)
    if request.flash_bytes is not None:
        yield from ("--flash", str(request.flash_bytes))
    if request.stack_bytes != DEFAULT_STACK_BYTES:
        yield from ("--stack", str(request.stack_bytes))
    if request.rounding is not Rounding.DOUBLE:
        yield from ("--rounding", request.rounding.value)
    if request.io is not InterfaceTypes.QUANTISED:
        yield from ("--io", request.io.value)
    yield from _reading_options(request.reading)
    flags = {
        "--stream-input": request.stream_input,
        "--strict": request.strict,
        "--assume-int8": request.reading.assume_int8,
    }
    yield from (flag for flag, is_set in flags.items() if is_set)
    if request.plan_streaming is not None:
        yield "--plan-streaming" if request.plan_streaming else "--no-plan-streaming"
    yield from _search_options(request.options)


def _reading_options(reading: Reading) -> Iterator[str]:
    """Yield the options with values that tell how to read the model file."""
    if reading.incremental is not None:
        yield from ("--incremental", str(reading.incremental))
    if reading.size_limit_bytes != DEFAULT_SIZE_LIMIT_BYTES:
        yield from (SIZE_LIMIT_OPTION, str(reading.size_limit_bytes))
    if reading.calibration is not None:
        yield from ("--quantise", reading.calibration.name)
    for name, extent in reading.dimensions:
        yield from ("--dimension", f"{name}={extent}")
    for name in reading.channels_last:
        yield from ("--channels-last", name)
    for before, after in reading.states:
        yield from ("--state", f"{before}={after}")


def _target_options(request: Request) -> Iterator[str]:
    """Yield the options that describe what the model runs on, beside the target."""
    for accelerator in request.accelerators:
        yield from ("--accelerator", _spelled(accelerator))
    target, described = request.target, request.described or request.target
    sizes = {memory.name: memory.size_bytes for memory in described.memories}
    for memory in target.memories:
        if memory.size_bytes != sizes.get(memory.name, memory.size_bytes):
            yield from ("--memory", f"{memory.name}={memory.size_bytes}")
    if any(
        first_outside(flags) is not None for flags in (target.compiler.zig, target.compiler.gcc)
    ):
        yield "--trust-target"
    if target.engines != described.engines:
        yield from ("--kernels", target.engines[0].kernels)
    clock_hz = target.clock_hz
    if clock_hz is not None and clock_hz != described.clock_hz:
        megahertz = f"{clock_hz / 1e6:.6f}".rstrip("0").rstrip(".")
        yield from ("--clock", f"{megahertz}MHz")


def _spelled(accelerator: Accelerator) -> str:
    """Return an accelerator as a value of --accelerator, with all its attributes."""
    attributes = ",".join(f"{name}={value}" for name, value in accelerator.target.attrs.items())
    return f"{accelerator.name}:{attributes}" if attributes else accelerator.name


def _search_options(options: Options) -> Iterator[str]:
    """Yield the search options that differ from their defaults."""
    for option in fields(options):
        value, name = getattr(options, option.name), option.name.replace("_", "-")
        if value == getattr(DEFAULTS, option.name):
            continue
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        else:
            yield from (f"--{name}", str(value))
