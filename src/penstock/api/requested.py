"""The request that arguments of the API state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Unpack, get_type_hints

from penstock.api.arguments import check_type
from penstock.api.settings import Settings
from penstock.backends.cores.family import load_checked_target, with_kernels
from penstock.backends.discovery import check_is_target, names, open_accelerators
from penstock.backends.partition import partitioned_for
from penstock.choices import InterfaceTypes, Optimize
from penstock.codegen.c_text import prefix
from penstock.errors import UsageError, did_you_mean
from penstock.frontends.reading import Reading
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.hardware.load import first_outside
from penstock.hardware.target import Target
from penstock.ir.graph import Graph, Value
from penstock.pipeline.graphs import read_request
from penstock.pipeline.request import KEYWORDS, Request
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stated import Cascade
from penstock.scheduling.options import Options

Model = str | Path | Graph  # A model: a file, a zoo network `zoo:NAME`, or a graph built in Python.


def request(
    model: Model | Request, target: str = DEFAULT_TARGET, **settings: Unpack[Settings]
) -> Request:
    """A request with sizes and names resolved; a request remains as it is.

    Raises UsageError, TargetError, BackendError."""
    if isinstance(model, Request):
        return model
    check_is_model(model)
    _check_names(settings, [one.name for one in KEYWORDS])
    _check_types(settings)
    check_type("target", target, str, "the call")
    check_is_target(target)
    found: dict[tuple[str, ...], Any] = {
        one.path: one.read(settings[one.name]) for one in KEYWORDS if one.name in settings
    }
    reading = {path[1]: value for path, value in found.items() if path[0] == "reading"}
    own = {path[0]: value for path, value in found.items() if path[0] != "reading"}
    _check_prefix(own.get("name"))
    named = _with_partition(model, own.pop("accelerators", ()))
    wanted = Request(
        model.name if isinstance(model, Graph) else str(model),
        load_checked_target(target, trusted=own.get("trust_target", False)),
        model if isinstance(model, Graph) else None,
        **own,
    )
    is_same = wanted.io is InterfaceTypes.MODEL
    return _on_target(replace(wanted, reading=Reading(**reading, same_interface=is_same)), named)


def _with_partition(model: Model, named: Sequence[str]) -> tuple[str, ...]:
    """The accelerators that a request names, and those for which a graph is partitioned."""
    if not isinstance(model, Graph):
        return tuple(named)
    stated = {text.partition(":")[0] for text in named}
    more = {n: a for n, a in partitioned_for(model).items() if n not in stated and n in names()}
    settings = {n: ",".join(f"{key}={value}" for key, value in a.items()) for n, a in more.items()}
    return (*named, *(f"{name}:{text}" for name, text in settings.items()))


def _on_target(wanted: Request, named: Iterable[str]) -> Request:
    """A request with its settings applied to its target, which is as described.  Those that change
    nothing are dropped."""
    described, sizes = wanted.target, dict(wanted.memory)
    chip = described.resized(sizes)
    if wanted.clock_hz is not None:
        chip = replace(chip, clock_hz=wanted.clock_hz)
    if wanted.kernels is not None:
        chip = with_kernels(chip, wanted.kernels)
    opened = tuple(one.resized(sizes) for one in open_accelerators(tuple(named), chip))
    chip = chip.beside(memory for one in opened for memory in one.arenas)
    _check_memories(chip, sizes)
    goal = wanted.optimize
    if goal is None and any(m.budget and m.name in sizes for m in chip.arenas):
        goal = Optimize.SPEED  # the capacity of a memory is a budget, too
    if goal is Optimize.SIZE:
        chip = chip.optimised_for("size")
    known = {(memory.name, memory.size_bytes) for memory in described.memories}
    flags = (chip.compiler.zig, chip.compiler.gcc)
    return replace(
        wanted,
        target=chip,
        accelerators=opened,
        optimize=goal,
        memory=tuple(one for one in wanted.memory if one not in known),
        clock_hz=None if chip.clock_hz == described.clock_hz else chip.clock_hz,
        kernels=None if chip.engines == described.engines else wanted.kernels,
        trust_target=any(first_outside(some) is not None for some in flags),
    )


def _check_types(settings: Mapping[str, object]) -> None:
    """Raises UsageError if a setting has another type than its keyword."""
    types = {**_hints(), "memory": Mapping}  # its sizes are checked where read
    for one in KEYWORDS:
        if one.kind.is_checked and one.name in settings:
            help = f"write {one.name}={one.example}" if one.example else ""
            check_type(one.name, settings[one.name], types[one.name], "the call", help)


def _hints() -> Mapping[str, object]:
    """The types of settings, by name."""
    return get_type_hints(Settings, localns={"Cascade": Cascade, "Schedule": Schedule})


def read(model: str | Path, **settings: Unpack[Settings]) -> Graph:
    """Read a model: a file, or a zoo network `zoo:NAME`.  The result is a graph, which
    `penstock.compile` and the other functions take in place of the file.

    settings: those of `penstock.compile` that determine how a file is read, such as `dimensions`
        or `quantise`.

    Raises ModelError, UnsupportedError, UsageError."""
    known = [one.name for one in KEYWORDS if one.path[0] == "reading"]
    _check_names(settings, known)
    return read_request(request(model, **settings))


def _check_names(settings: Mapping[str, object], known: Sequence[str]) -> None:
    """Raises UsageError if a setting is not known, such as a misspelled one."""
    for name in settings.keys() - known:
        help = did_you_mean(name, known).rstrip()
        if name in {field.name for field in fields(Options)}:
            help = f"it is an option of the search: options=Options({name}=..)"
        raise UsageError(
            "usage-031",
            f'there is no setting "{name}"',
            where="the call",
            why=f"the settings are {', '.join(known)}",
            help=help or "see penstock.api.Settings",
        )


def _check_prefix(name: str | None) -> None:
    """Raises UsageError if a name cannot be the prefix of C names and the name of files."""
    if name is None or name == prefix(name):
        return
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
        else "build a graph with penstock.GraphBuilder, or name a .tflite, .onnx, .keras or .pt2 "
        "file",
    )


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
