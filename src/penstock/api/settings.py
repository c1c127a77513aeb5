"""Settings: the keyword arguments that all functions of the API share; `request` resolves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict, Unpack, get_type_hints

from penstock.allowance import DEFAULT_SIZE_LIMIT_BYTES, SIZE_LIMIT_OPTION
from penstock.api.argument_types import check_type
from penstock.api.choices import one_of
from penstock.backends.cores.targets import load_checked_target, with_kernels
from penstock.backends.discovery import check_is_target, open_accelerators
from penstock.codegen.c_text import prefix
from penstock.errors import UsageError, did_you_mean
from penstock.fixedpoint import Rounding
from penstock.frontends.reading import Reading
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.hardware.frequency import parse_frequency
from penstock.hardware.schema import LARGEST_CLOCK_HZ, SMALLEST_CLOCK_HZ
from penstock.hardware.size import parse_size
from penstock.hardware.target import Target
from penstock.ir.graph import Graph, Value
from penstock.passes.interface_types import InterfaceTypes
from penstock.pipeline.request import DEFAULT_STACK_BYTES, Request
from penstock.scheduling.cascades.selection import Optimize
from penstock.scheduling.options import Options

Model = str | Path | Graph
"""A model: a file, a zoo network `zoo:NAME`, or a graph built in Python."""

Size = int | str
"""A number of bytes, or a text such as "64KiB"."""


class Settings(TypedDict, total=False):
    """Keyword arguments of all functions that take a model and a target.  `DEFAULT_SETTINGS` has
    their defaults, `penstock.api.signatures` shows both in the help of these functions."""

    name: Annotated[
        str | None,
        "prefix of the public C names, also the name of the header and of packages; None: derived "
        "from the name of the model",
    ]
    clock: Annotated[
        int | str | None,
        "clock of the processor, in hertz or a text such as '168MHz', for which cycles are also "
        "stated as time; None: that of the target, if it states one",
    ]
    kernels: Annotated[
        str | None,
        "core family whose kernels to use: 'portable', 'thumb', 'dsp' or 'mve'; None: that of the "
        "target",
    ]
    trust_target: Annotated[
        bool,
        "accept every compiler flag of a target file; such flags can run programs and overwrite "
        "files",
    ]
    sram: Annotated[Size | None, "RAM budget, stack included"]
    memory: Annotated[
        Mapping[str, Size], "capacities of memories of the target or of accelerators, by name"
    ]
    flash: Annotated[Size | None, "budget for constants and code"]
    stack: Annotated[Size, "stack reserve, part of the RAM budget"]
    stream_input: Annotated[bool, "read inputs row by row through a callback"]
    plan_streaming: Annotated[
        bool | None,
        "also plan with a streamed input, and report its RAM; None: if that takes little time",
    ]
    optimize: Annotated[
        Optimize | Literal["speed", "balanced", "size"] | None,
        "goal that selects a point of the frontier; None: speed with a RAM budget, else balanced",
    ]
    rounding: Annotated[
        Literal["double", "single"],
        "requantisation of fully connected layers: double as TensorFlow Lite Micro, single as "
        "newer LiteRT",
    ]
    io: Annotated[
        Literal["quantized", "model"],
        "element types of the generated interface: quantized, or those of the model, which must be "
        "TFLite, or ONNX whose inputs and outputs are not converted",
    ]
    accelerators: Annotated[
        str | Sequence[str],
        "accelerators beside the processor, each 'NAME[:attr=value,...]'; one may be a string",
    ]
    strict: Annotated[bool, "reject networks that accelerators run only in part"]
    assume_int8: Annotated[
        bool, "treat a float ONNX model as int8 with arbitrary scales; for estimates only"
    ]
    quantise: Annotated[
        str | Path | None,
        "quantise a float ONNX model to int8, with the samples in this .npz archive: an array per "
        "input, whose first axis is the sample",
    ]
    size_limit: Annotated[
        Size,
        "memory that reading the model, or an archive of arrays, may take: a limit for files that "
        "ask for more than there is",
    ]
    dimensions: Annotated[Mapping[str, int], "values of dynamic dimensions of the model, by name"]
    channels_last: Annotated[
        Sequence[str],
        "names of inputs of an ONNX model that the caller supplies with their channels last",
    ]
    states: Annotated[
        Mapping[str, str],
        "by the name of an input that is a state, the output with its new elements",
    ]
    incremental: Annotated[
        int | None, "number of new frames that a network with a window of frames consumes per run"
    ]
    options: Annotated[Options, "options of the search"]


DEFAULT_SETTINGS = Settings(
    name=None,
    clock=None,
    kernels=None,
    trust_target=False,
    sram=None,
    memory={},
    flash=None,
    stack=DEFAULT_STACK_BYTES,
    stream_input=False,
    plan_streaming=None,
    optimize=None,
    rounding="double",
    io="quantized",
    accelerators=(),
    strict=False,
    assume_int8=False,
    quantise=None,
    size_limit=DEFAULT_SIZE_LIMIT_BYTES,
    dimensions={},
    channels_last=(),
    states={},
    incremental=None,
    options=Options(),
)


_EXAMPLES = {
    "memory": '{"sram": "64KiB"}',
    "dimensions": '{"batch": 1}',
    "channels_last": '["image"]',
    "states": '{"state_in": "state_out"}',
    "accelerators": '["ethos_u55:macs=256"]',
    "options": "penstock.Options(max_parts=3)",
}
"""By the name of a setting that is no scalar, a value as it is written in Python."""


def request(model: Model, target: str = DEFAULT_TARGET, **settings: Unpack[Settings]) -> Request:
    """A request with sizes and names resolved.

    Raises UsageError, TargetError, BackendError."""
    check_is_model(model)
    _check_names(settings)
    _check_types(settings)
    check_type("target", target, str, "the call")
    check_is_target(target)
    sizes = {
        name: size_bytes(size, "--memory") for name, size in settings.get("memory", {}).items()
    }
    described = load_checked_target(target, trusted=settings.get("trust_target", False))
    chip = described.resized(sizes)
    if settings.get("clock") is not None:
        chip = dataclasses.replace(chip, clock_hz=_hertz(settings.get("clock")))
    family = settings.get("kernels")
    chip = chip if family is None else with_kernels(chip, family)
    named = settings.get("accelerators", ())
    opened = open_accelerators((named,) if isinstance(named, str) else named, chip)
    accelerators = tuple(one.resized(sizes) for one in opened)
    chip = chip.beside(memory for one in accelerators for memory in one.arenas)
    _check_memories(chip, sizes)
    io = _interface_types(settings.get("io", "quantized"))
    sram, flash = settings.get("sram"), settings.get("flash")
    calibration = settings.get("quantise")
    goal = _goal(settings, chip, sizes)
    if goal is Optimize.SIZE:
        chip = chip.optimised_for("size")
    return Request(
        model.name if isinstance(model, Graph) else str(model),
        chip,
        None if sram is None else size_bytes(sram, "--sram"),
        None if flash is None else size_bytes(flash, "--flash"),
        size_bytes(settings.get("stack", DEFAULT_STACK_BYTES), "--stack"),
        settings.get("stream_input", False),
        _rounding(settings.get("rounding", "double")),
        settings.get("options", Options()),
        accelerators,
        settings.get("strict", False),
        Reading(
            settings.get("assume_int8", False),
            tuple(settings.get("dimensions", {}).items()),
            tuple(settings.get("states", {}).items()),
            settings.get("incremental"),
            same_interface=io is InterfaceTypes.MODEL,
            calibration=None if calibration is None else Path(calibration),
            channels_last=tuple(settings.get("channels_last", ())),
            size_limit_bytes=size_bytes(
                settings.get("size_limit", DEFAULT_SIZE_LIMIT_BYTES), SIZE_LIMIT_OPTION
            ),
        ),
        goal,
        io,
        settings.get("plan_streaming"),
        model if isinstance(model, Graph) else None,
        _name(settings.get("name")),
        described,
    )


def _check_types(settings: Mapping[str, object]) -> None:
    """Raises UsageError if a setting has another type than its annotation states.

    Sizes, frequencies, and names of choices are checked where they are read."""
    hints = {**get_type_hints(Settings), "memory": Mapping}
    for name in settings.keys() - {
        "clock",
        "sram",
        "flash",
        "stack",
        "size_limit",
        "rounding",
        "io",
    }:
        example = _EXAMPLES.get(name)
        help = "" if example is None else f"write {name}={example}"
        check_type(name, settings[name], hints[name], "the call", help)


def _name(name: str | None) -> str | None:
    """Raises UsageError if a name cannot be the prefix of C names and the name of files."""
    if name is None or name == prefix(name):
        return name
    raise UsageError(
        "usage-150",
        f"{name!r} cannot be the prefix of C names",
        where="--name",
        why="a prefix is a C identifier, no keyword, no name of a standard header or of a file of "
        "the package, and does not begin with penstock",
        help=f"{prefix(name)} is possible",
    )


def check_is_model(model: object) -> None:
    """Raises UsageError unless `model` is a file name, the name of a zoo network, or a graph."""
    if isinstance(model, Model):
        return
    unbuilt = callable(getattr(model, "build", None)) or isinstance(model, Value)
    raise UsageError(
        "usage-061",
        f"a {type(model).__name__} is not a model",
        where="the argument `model`",
        why="a model is the name of a file, zoo:NAME, or a Graph",
        help="pass the graph that GraphBuilder.build(outputs) returns"
        if unbuilt
        else "build a graph with penstock.GraphBuilder, or name a .tflite or .onnx file",
    )


def _goal(settings: Settings, chip: Target, sizes: Mapping[str, int]) -> Optimize | None:
    """The goal that the settings imply: the capacity of a memory is a budget, too."""
    wanted = settings.get("optimize")
    if wanted is not None:
        return Optimize.of(wanted)
    if any(m.budget and m.name in sizes for m in chip.memories_for("arena")):
        return Optimize.SPEED
    return None


def _check_names(settings: Mapping[str, object]) -> None:
    """Raises UsageError if a setting is unknown, such as a misspelled one."""
    known = Settings.__annotations__
    for name in settings.keys() - known.keys():
        help = did_you_mean(name, known).rstrip()
        if name in {field.name for field in dataclasses.fields(Options)}:
            help = f"it is an option of the search: options=Options({name}=..)"
        raise UsageError(
            "usage-031",
            f'there is no setting "{name}"',
            where="the call",
            why=f"the settings are {', '.join(known)}",
            help=help or "see penstock.api.Settings",
        )


def _rounding(name: str) -> Rounding:
    """Raises UsageError if there is no rounding of that name."""
    return Rounding(one_of(name, [rounding.value for rounding in Rounding], "--rounding"))


def _interface_types(name: str) -> InterfaceTypes:
    """Raises UsageError if there are no interface types of that name."""
    return InterfaceTypes(one_of(name, [types.value for types in InterfaceTypes], "--io"))


def _hertz(clock: object) -> int:
    """A clock in hertz.  Raises UsageError if it is malformed, too slow, or too fast."""
    try:
        found = parse_frequency(str(clock))
    except UsageError as error:
        raise error.but(where="--clock") from None
    if found > LARGEST_CLOCK_HZ:
        raise UsageError(
            "usage-003",
            f"'{clock}' is {found:g} Hz, must be at most {LARGEST_CLOCK_HZ:g} Hz",
            where="--clock",
            help="write 168MHz, 1.5GHz or 168000000",
        )
    if found < SMALLEST_CLOCK_HZ:
        raise UsageError(
            "usage-003",
            f"'{clock}' is {found} Hz, must be at least 1 kHz",
            where="--clock",
            why="a number without a unit is in hertz",
            help=f"did you mean {found}MHz?",
        )
    return found


def size_bytes(size: Size, option: str) -> int:
    """A size in bytes.  Raises UsageError if it is malformed or negative."""
    if isinstance(size, int) and size >= 0:
        return size
    try:
        return parse_size(str(size))
    except UsageError as error:
        raise error.at(option) from None


def _check_memories(target: Target, named: Iterable[str]) -> None:
    """Raises UsageError if neither the target nor an accelerator has one of the named memories."""
    names = [memory.name for memory in target.memories]
    for region in named:
        if region not in names:
            raise UsageError(
                "usage-011",
                f"target {target.name} has no memory {region!r}",
                where="--memory",
                help=f"{did_you_mean(region, names)}its memories are {', '.join(names)}",
            )
