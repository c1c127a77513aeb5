"""Options that several commands share, singly or as records with one field per option."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from penstock.api.rungs import LAST_RUNGS
from penstock.cli.log import show_details
from penstock.cli.sections import (
    ACCELERATOR_OPTIONS,
    MEMORY_OPTIONS,
    MODEL_OPTIONS,
    SEARCH_OPTIONS,
)


def _complete_target(incomplete: str) -> list[str]:
    """Target names that begin with a text, for the completion of the shell."""
    from penstock.hardware.load import target_names

    return [name for name in target_names() if name.startswith(incomplete)]


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .tflite or .onnx file, or a built-in model: zoo:NAME[:option=value,..] (`penstock "
        "show zoo:` lists them).",
    ),
]
TargetName = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="TARGET",
        help="Target name (`penstock targets`) or TOML file.",
        autocompletion=_complete_target,
    ),
]
Clock = Annotated[
    str | None,
    typer.Option(
        metavar="FREQUENCY",
        help="Clock of the processor, such as 168MHz, for which cycles are also stated as time; "
        "default: that of the target, if it states one.",
    ),
]
Kernels = Annotated[
    str | None,
    typer.Option(
        metavar="FAMILY",
        help="Core family whose kernels to use on the target's processor: portable (plain C, whose "
        "constants need the least flash, but slow), thumb, dsp or mve; default: that of the "
        "target.",
    ),
]
TrustTarget = Annotated[
    bool,
    typer.Option(
        "--trust-target",
        help="Accept every compiler flag of a target file. Without this option, flags that can run "
        "programs or overwrite files are refused.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also print details that few users need, such as how long each stage took.",
        callback=show_details,
    ),
]
Sram = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="RAM budget for arena, static buffers and stack, such as 64KiB or 65536 (KiB, kB, K "
        "and k: 1,024 bytes). Without --optimize, it changes the goal from balanced to speed.",
        rich_help_panel=MEMORY_OPTIONS,
    ),
]
Memory = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGION=SIZE",
        help="Override the capacity of a memory of the target (`penstock targets --show TARGET`) "
        "or of an accelerator; repeatable.",
        rich_help_panel=MEMORY_OPTIONS,
    ),
]
Flash = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Budget for constants; `run` also counts the code.",
        rich_help_panel=MEMORY_OPTIONS,
    ),
]
Stack = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="RAM reserved for the stack; counts towards --sram.",
        rich_help_panel=MEMORY_OPTIONS,
    ),
]
RoundingName = Annotated[
    str,
    typer.Option(
        "--rounding",
        metavar="NAME",
        help="Requantisation: double (as in TensorFlow Lite Micro) or single (fully connected "
        "layers round once, as in newer LiteRT).",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
InterfaceTypesName = Annotated[
    str,
    typer.Option(
        "--io",
        metavar="TYPES",
        help="Element types of inputs and outputs in C: quantized (int8, with functions that "
        "convert) or model (as in the model file, converted by the generated code; TFLite only).",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
Optimize = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL",
        help="balanced: least RAM among the schedules at most 1 % slower than the fastest; default "
        "without a RAM budget (--sram, or --memory for a RAM). speed: fastest schedule that fits; "
        "default with a RAM budget. size: least RAM, compiled with -Os; the "
        "estimated cycles are those of -O3.",
    ),
]
Accelerator = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:attr=value,...]",
        help="Accelerator to offload to (`penstock backend list`); repeatable.",
        rich_help_panel=ACCELERATOR_OPTIONS,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        help="With --accelerator: fail if any node falls back to the processor.",
        rich_help_panel=ACCELERATOR_OPTIONS,
    ),
]
AssumeInt8 = Annotated[
    bool,
    typer.Option(
        "--assume-int8",
        help="Treat a float ONNX model as int8, with arbitrary scales; for estimates only, since "
        "the outputs are meaningless (see --quantise).",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
Quantise = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.npz",
        help="Quantise a float ONNX model to int8, with representative inputs: an array per input, "
        "whose first axis is the sample.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
SizeLimit = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Memory that reading the model, or an archive of arrays, may take: a limit for files "
        "of strangers, which may ask for more memory than there is.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
Dimension = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=N",
        help="Value of a dynamic dimension of the model; repeatable.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
ChannelsLast = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT",
        help="Supply INPUT of an ONNX model with its channels last (N x H x W x C), where the file "
        "has N x C x H x W; a streamed row is then a row of the image; repeatable.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=OUTPUT",
        help="Make INPUT a state: in each run, it contains the elements of OUTPUT of the previous "
        "run; in the first run, it represents 0; repeatable.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
Incremental = Annotated[
    int | None,
    typer.Option(
        metavar="HOP",
        help="For a network whose input is a window of frames, along the first axis after the "
        "batch: consume only HOP new frames per run, and keep the results of earlier runs that "
        "later runs need.  Before the first run, all frames are 0.",
        rich_help_panel=MODEL_OPTIONS,
    ),
]
StreamInput = Annotated[
    bool,
    typer.Option(
        help="Read the input row by row through a callback.", rich_help_panel=MEMORY_OPTIONS
    ),
]
PlanStreaming = Annotated[
    bool | None,
    typer.Option(
        help="Also plan with a streamed input, and report its RAM.  By default, only for networks "
        "for which that takes little time.",
        rich_help_panel=MEMORY_OPTIONS,
    ),
]
Package = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT",
        help="Build system for which to lay out the files: cmake (default), arduino, cmsis-pack, "
        "esp-idf, make, platformio, rust, zephyr, or all; repeatable, or separated by commas. "
        "Several packages are written to folders named after them.",
    ),
]
CompilerName = Annotated[
    str,
    typer.Option(
        "--compiler",
        metavar="NAME",
        help="C compiler: zig, or gcc (arm-none-eabi-gcc, if installed).",
    ),
]
LastRung = Annotated[
    str,
    typer.Option(
        metavar="RUNG",
        help=f"The last check (rung) to run ({', '.join(LAST_RUNGS)}).",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output-folder",
        metavar="DIR",
        help="Output directory: new, empty, or written by the same command and not changed since.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Write into any existing output directory: replace files of the same names, even if "
        "you have changed them; remove unchanged files of an earlier command, keep all others.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", metavar="N", help="Number of processes; results do not depend on it."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Budgets and settings of a compilation: one field per option."""

    clock: Clock = None
    kernels: Kernels = None
    trust_target: TrustTarget = False
    sram: Sram = None
    memory: Memory = None
    flash: Flash = None
    stack: Stack = "1KiB"
    stream_input: StreamInput = False
    plan_streaming: PlanStreaming = None
    optimize: Optimize = None
    rounding: RoundingName = "double"
    io: InterfaceTypesName = "quantized"
    accelerator: Accelerator = None
    strict: Strict = False
    assume_int8: AssumeInt8 = False
    quantise: Quantise = None
    size_limit: SizeLimit = "512MiB"
    dimension: Dimension = None
    channels_last: ChannelsLast = None
    state: State = None
    incremental: Incremental = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a command writes its files."""

    output: Output = None
    force: Force = False

    def folder(self, default: str, report: str) -> str:
        """The output directory, after a check that it can be written.  Raises OutputError.

        report: a file that the command always writes."""
        from penstock.codegen.bundle import check_output

        name = default if self.output is None else self.output
        check_output(Path(name), (report,), force=self.force)
        return name


@dataclass(frozen=True, slots=True)
class Without:
    """Annotation of a record parameter: options that the command omits; they keep their
    defaults."""

    names: tuple[str, ...]


NO_LIMITS = Limits()
DEFAULT_DESTINATION = Destination()


def with_records(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a dataclass by one option per field."""
    parameters = tuple(inspect.signature(command, eval_str=True).parameters.values())
    records = {x.name: _Record.of(x) for x in parameters if dataclasses.is_dataclass(_type_of(x))}
    options = chain.from_iterable(
        records[x.name].options if x.name in records else [x] for x in parameters
    )

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        made = {name: record.take(values) for name, record in records.items()}
        command(**made, **values)

    signature = inspect.Signature(
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    with_options.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return with_options


def _type_of(parameter: inspect.Parameter) -> Any:
    """The type of a parameter without its annotations."""
    annotation = parameter.annotation
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@dataclass(frozen=True, slots=True)
class _Record:
    """The type of a record and the options that replace it."""

    type: Any
    options: list[inspect.Parameter]

    @staticmethod
    def of(parameter: inspect.Parameter) -> _Record:
        """The options that replace a parameter."""
        kind = _type_of(parameter)
        beside = getattr(parameter.annotation, "__metadata__", ())
        without = [name for x in beside if isinstance(x, Without) for name in x.names]
        hints = get_type_hints(kind, include_extras=True)
        fields = [f for f in dataclasses.fields(kind) if f.name not in without]
        return _Record(kind, [_option(f, hints[f.name]) for f in fields])

    def take(self, values: dict[str, Any]) -> Any:
        """Build the record from its options, and remove these from `values`."""
        return self.type(**{option.name: values.pop(option.name) for option in self.options})


def _option(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """A field as an option.  Its help is in the metadata of the field or in its annotation."""
    if "help" in field.metadata:
        hint = Annotated[
            hint, typer.Option(help=field.metadata["help"], rich_help_panel=SEARCH_OPTIONS)
        ]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, kind, default=field.default, annotation=hint)
