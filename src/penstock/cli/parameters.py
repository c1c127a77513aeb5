"""Parameters that several verbs share: one by one, or as records, an option a field."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A .tflite or .onnx file, or zoo:NAME[:option=value,..]."),
]
TargetName = Annotated[
    str,
    typer.Option("--target", "-t", help="A target's name (`penstock targets`) or a TOML file."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Sram = Annotated[
    str | None, typer.Option(metavar="SIZE", help="RAM budget, stack included: 64KiB, 64k, 65536.")
]
Memory = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGION=SIZE",
        help="Size of one of the target's memories, or of an accelerator's; repeatable.",
    ),
]
Flash = Annotated[str | None, typer.Option(metavar="SIZE", help="Flash budget.")]
Stack = Annotated[str, typer.Option(metavar="SIZE", help="Stack reserve, part of the RAM budget.")]
RoundingName = Annotated[
    str,
    typer.Option(
        "--rounding", help="double: as TFLite Micro; single: fully connected as newer LiteRT."
    ),
]
Optimize = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL",
        help="balanced: the least RAM within 1 % of the fastest point's cycles (default without a "
        "budget); speed: the fastest point that fits (default with one); size: the least RAM, "
        "compiled with -Os.",
    ),
]
Accelerator = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:attr=value,...]",
        help="An accelerator beside the processor (`penstock backend list`); repeatable.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(help="Fail where accelerators leave a node to the processor."),
]
AssumeInt8 = Annotated[
    bool,
    typer.Option(
        "--assume-int8",
        help="Take a float model as if quantised; its numbers mean nothing.",
    ),
]
Dimension = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=N", help="An extent that the model leaves open; repeatable."),
]
StreamInput = Annotated[bool, typer.Option(help="Take the input row by row through a callback.")]
CompilerName = Annotated[
    str, typer.Option("--compiler", help="zig, or gcc (arm-none-eabi-gcc) where it is installed.")
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output-folder", metavar="DIR", help="A folder that is not there yet."),
]
Workers = Annotated[
    int,
    typer.Option("--workers", metavar="N", help="Processes that share the work; same results."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a network is compiled within, and how: an option a field."""

    sram: Sram = None
    memory: Memory = None
    flash: Flash = None
    stack: Stack = "1KiB"
    stream_input: StreamInput = False
    optimize: Optimize = None
    rounding: RoundingName = "double"
    accelerator: Accelerator = None
    strict: Strict = False
    assume_int8: AssumeInt8 = False
    dimension: Dimension = None


@dataclass(frozen=True, slots=True)
class Without:
    """Beside a record of options: those that a verb does not take; they keep their defaults."""

    names: tuple[str, ...]


def with_records(verb: Callable[..., None]) -> Callable[..., None]:
    """Gives `verb`, for each parameter that is a record (a dataclass), one command-line option for
    every field, in the record's place."""
    parameters = tuple(inspect.signature(verb, eval_str=True).parameters.values())
    records = {x.name: _Record.of(x) for x in parameters if dataclasses.is_dataclass(_type_of(x))}
    options = chain.from_iterable(
        records[x.name].options if x.name in records else [x] for x in parameters
    )

    @functools.wraps(verb)
    def with_options(**values: Any) -> None:
        made = {name: record.take(values) for name, record in records.items()}
        verb(**made, **values)

    signature = inspect.Signature(
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    with_options.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return with_options


def _type_of(parameter: inspect.Parameter) -> Any:
    """The type of a parameter, without what stands beside it."""
    annotation = parameter.annotation
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@dataclass(frozen=True, slots=True)
class _Record:
    """A record's type, and the options that stand for it."""

    type: Any
    options: list[inspect.Parameter]

    @staticmethod
    def of(parameter: inspect.Parameter) -> _Record:
        """The options of a parameter that is a record."""
        kind = _type_of(parameter)
        beside = getattr(parameter.annotation, "__metadata__", ())
        without = [name for x in beside if isinstance(x, Without) for name in x.names]
        hints = get_type_hints(kind, include_extras=True)
        fields = [f for f in dataclasses.fields(kind) if f.name not in without]
        return _Record(kind, [_option(f, hints[f.name]) for f in fields])

    def take(self, values: dict[str, Any]) -> Any:
        """The record, of values that are taken out of all."""
        return self.type(**{option.name: values.pop(option.name) for option in self.options})


def _option(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """A field as an option; its help is its own, or stands beside its type."""
    if "help" in field.metadata:
        hint = Annotated[hint, typer.Option(help=field.metadata["help"])]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, kind, default=field.default, annotation=hint)
