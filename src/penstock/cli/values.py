"""Option values: text from the command line as names, sizes, extents and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock import api
from penstock.api.choices import COMPILERS, one_of
from penstock.cli import parameters as p
from penstock.errors import OutputError, UsageError
from penstock.scheduling.options import Options

if TYPE_CHECKING:
    from penstock.pipeline.request import Request

_Value = TypeVar("_Value")


def request(
    model: str, target: str, limits: p.Limits, options: Options, name: str | None = None
) -> Request:
    """The request that a command line states.  Raises UsageError, TargetError, BackendError.

    name: the prefix of the public C names."""
    wanted = settings(limits, options)
    wanted["name"] = name
    return api.request(model, target, **wanted)


def settings(limits: p.Limits, options: Options) -> api.Settings:
    """The settings that a command line states.  Raises UsageError."""
    from penstock.scheduling.cascades.selection import Optimize

    rounding = one_of(limits.rounding, ("double", "single"), "--rounding")
    io = one_of(limits.io, ("quantized", "model"), "--io")
    return api.Settings(
        clock=limits.clock,
        kernels=limits.kernels,
        trust_target=limits.trust_target,
        sram=limits.sram,
        memory=sizes(limits.memory or ()),
        flash=limits.flash,
        stack=limits.stack,
        rounding="single" if rounding == "single" else "double",
        io="model" if io == "model" else "quantized",
        optimize=None if limits.optimize is None else Optimize.of(limits.optimize),
        stream_input=limits.stream_input,
        plan_streaming=limits.plan_streaming,
        options=options,
        accelerators=limits.accelerator or (),
        strict=limits.strict,
        assume_int8=limits.assume_int8,
        quantise=limits.quantise,
        size_limit=limits.size_limit,
        dimensions=dimensions(limits.dimension),
        channels_last=limits.channels_last or (),
        states=states(limits.state),
        incremental=limits.incremental,
    )


def folder(
    destination: p.Destination, default: str, report: str, wanted: Request, workers: int
) -> str:
    """The output directory, see `Destination.folder`.  Raises OutputError if it cannot be written;
    errors of the options that come to light when the model is read take precedence."""
    try:
        return destination.folder(default, report)
    except OutputError:
        api.show(wanted, stop_after="assign", workers=min(workers, 1))
        raise


def packages(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The names of package formats, by default that of CMake.  Raises UsageError."""
    from penstock.codegen.packages.registry import DEFAULT_PACKAGES, chosen_formats

    if texts is None:
        return DEFAULT_PACKAGES
    return tuple(format.name for format in chosen_formats(texts))


def compiler(name: str) -> str:
    """The name of a C compiler.  Raises UsageError."""
    return one_of(name, COMPILERS, "--compiler")


def dimensions(items: Sequence[str] | None) -> dict[str, int]:
    """Extents by name, from NAME=N.  Raises UsageError."""
    found: dict[str, int] = {}
    for item in items or ():
        name, _, extent = item.rpartition("=")
        if not name or not extent.isdecimal() or not 0 < int(extent) < 2**31:
            raise UsageError(
                "usage-032",
                f"{item!r} states no extent",
                where="--dimension",
                help="write NAME=N, as in batch=1",
            )
        found[name] = _unique(int(extent), name, found, item, "--dimension")
    return found


def states(items: Sequence[str] | None) -> dict[str, str]:
    """Names of outputs by names of inputs, from INPUT=OUTPUT.  Raises UsageError."""
    found: dict[str, str] = {}
    for item in items or ():
        before, _, after = item.partition("=")
        if not before or not after:
            raise UsageError(
                "usage-115",
                f"{item!r} does not name an input and an output",
                where="--state",
                help="write INPUT=OUTPUT, as in state_in=state_out",
            )
        found[before] = _unique(after, before, found, item, "--state")
    return found


def sizes(items: Sequence[str]) -> dict[str, str]:
    """Capacities by memory, from REGION=SIZE.  Raises UsageError."""
    found: dict[str, str] = {}
    for item in items:
        region, equals, size = item.partition("=")
        if not equals:
            raise UsageError(
                "usage-012", f"{item!r} has no size", where="--memory", help="write REGION=SIZE"
            )
        found[region] = _unique(size, region, found, item, "--memory")
    return found


def _unique(
    value: _Value, name: str, found: Mapping[str, _Value], item: str, option: str
) -> _Value:
    """The value.  Raises UsageError if the option already gave a value for the same name."""
    if name in found:
        raise UsageError(
            "usage-059",
            f"{item!r} is the second value for {name!r}",
            where=option,
            why=f"the first one is {found[name]!r}",
            help=f"give {option} once for each name",
        )
    return value
