"""Parameters that several verbs share, and those that are made from the options record."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from penstock.scheduling.options import Options

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A .tflite file, or zoo:NAME[:option=value,...].")
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
    typer.Option(metavar="REGION=SIZE", help="Size of one of the target's memories; repeatable."),
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
    str, typer.Option(help="speed: the fastest point that fits; size: the smallest code.")
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
StreamInput = Annotated[bool, typer.Option(help="Take the input row by row through a callback.")]
CompilerName = Annotated[
    str, typer.Option("--compiler", help="zig, or gcc (arm-none-eabi-gcc) where it is installed.")
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output-folder", metavar="DIR", help="A folder that is not there yet."),
]


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Gives `verb` one command-line option for every field of Options; it gets the record as its
    keyword `options`."""
    hints = get_type_hints(Options)
    fields = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=f.default,
            annotation=Annotated[hints[f.name], typer.Option(help=f.metadata["help"])],
        )
        for f in dataclasses.fields(Options)
    ]
    names = [f.name for f in fields]
    signature = inspect.signature(verb, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "options"]

    @functools.wraps(verb)
    def with_record(**values: Any) -> None:
        record = Options(**{name: values.pop(name) for name in names})
        verb(options=record, **values)

    with_record.__signature__ = signature.replace(  # pyright: ignore[reportAttributeAccessIssue]
        parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + fields
    )
    return with_record
