"""Options: those of settings, which `pipeline.request` declares, and others of several commands."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, get_type_hints

import typer

from penstock import api
from penstock.api.arguments import LAST_RUNGS
from penstock.api.settings import Settings
from penstock.cli.terminal import show_details
from penstock.errors import OutputError
from penstock.frozen import frozen
from penstock.pipeline.request import SETTINGS, options_of
from penstock.scheduling.options import Options
from penstock.setting import COMMON, AnySetting

if TYPE_CHECKING:
    from penstock.pipeline.request import Request


def _complete_target(incomplete: str) -> list[str]:
    from penstock.hardware.load import target_names

    return [name for name in target_names() if name.startswith(incomplete)]


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .tflite, .onnx, .keras or .pt2 file, or a built-in model: "
        "zoo:NAME[:option=value,..] (`penstock show zoo:` lists them).",
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
Package = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT",
        help="Build system for which to lay out the files: cmake (default), arduino, cmsis-pack, "
        "esp-idf, make, platformio, rust, zephyr, or all; repeatable, or separated by commas. "
        "Several packages are written to folders named after them.",
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Take this layer alone, with the inputs that it has in the network: a name that "
        "`penstock show MODEL --nodes` prints.",
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
        help=f"The last check (rung) to run ({', '.join(LAST_RUNGS)}{{rungs}}).",
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


@frozen(kw_only=True)
class Destination:
    """Where a command writes its files."""

    output: Output = None
    force: Force = False

    def of(self, wanted: Callable[[], Request], default: str, report: str, workers: int) -> str:
        """The output directory for a request, see `folder`.  Errors of the options that come to
        light when the request is made or the model is read take precedence."""
        try:
            return self.folder(default, report)
        except OutputError:
            api.show(wanted(), stop_after="assign", workers=min(workers, 1))
            raise

    def folder(self, default: str, report: str) -> str:
        """The output directory, after a check that it can be written.  Raises OutputError.

        report: a file that the command always writes."""
        from penstock.codegen.bundle import check_output

        name = default if self.output is None else self.output
        check_output(Path(name), (report,), force=self.force)
        return name


DEFAULT_DESTINATION = Destination()

# Annotation of a parameter: the option of the setting with the same name.
DECLARED: Final = "declared"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that stands for several options by these: a record by one
    option per field, and `Settings` by one per setting that the command takes."""
    parameters = tuple(inspect.signature(command, eval_str=True).parameters.values())
    own = {one.name for one in parameters}
    settings = [x for x in options_of(command.__name__.replace("_", "-")) if _keyword(x) not in own]
    groups = {x.name: _group(x, settings) for x in parameters}

    @functools.wraps(command)
    def called(**values: object) -> None:
        command(**{name: group.take(values) for name, group in groups.items()})

    signature = inspect.Signature([option for group in groups.values() for option in group.options])
    called.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return called


@frozen
class _Group:
    """The options that stand for a parameter, and what makes its value of theirs."""

    options: list[inspect.Parameter]
    make: Callable[..., object]

    def take(self, values: dict[str, object]) -> object:
        return self.make(*(values.pop(option.name) for option in self.options))


def _group(parameter: inspect.Parameter, settings: Sequence[AnySetting]) -> _Group:
    kind, name = parameter.annotation, parameter.name
    beside = getattr(kind, "__metadata__", ())
    if DECLARED in beside:
        (one,) = (x for x in SETTINGS if x.help and _keyword(x) == name)
        return _Group([_option(one)], one.given)
    if kind is Settings:
        return _Group([_option(one) for one in settings], functools.partial(_settings, settings))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = ((f.name, f.default, hints[f.name]) for f in dataclasses.fields(kind))
        return _Group([_parameter(*one) for one in fields], functools.partial(_record, kind))
    return _Group([_parameter(name, parameter.default, kind)], _same)


def _parameter(name: str, default: object, annotation: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _keyword(one: AnySetting) -> str:
    """The name of the parameter for a setting, from which Typer derives the option."""
    return one.option.replace("-", "_")


def _option(one: AnySetting) -> inspect.Parameter:
    kind: Any = list[one.kind.shell] if one.kind.is_repeated else one.kind.shell
    is_optional = one.shell_default is None
    info = typer.Option(
        *([one.flag] if one.kind.is_one_way else []),
        metavar=one.metavar or one.kind.metavar or None,
        help=one.help,
        rich_help_panel=None if one.group == COMMON else one.group,
    )
    annotation = Annotated[kind | None if is_optional else kind, info]
    return _parameter(_keyword(one), one.shell_default, annotation)


def _same(value: object) -> object:
    return value


def _record(kind: type, *values: object) -> object:
    names = (field.name for field in dataclasses.fields(kind))
    return kind(**dict(zip(names, values, strict=True)))


def _settings(declared: Sequence[AnySetting], *values: object) -> Settings:
    """The settings that the values of options state.  Raises UsageError."""
    found: dict[str, object] = {}
    options: dict[str, Any] = {}
    for one, value in zip(declared, values, strict=True):
        group = options if one.path[0] == "options" else found
        group[one.name] = one.given(value)
    return cast(Settings, {**found, "options": Options(**options)} if options else found)
