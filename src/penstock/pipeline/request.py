"""Request: the model to compile, the target, and every setting of the user, declared once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.brief import Brief
from penstock.choices import InterfaceTypes, Optimize, Rounding
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.frozen import frozen
from penstock.scheduling.options import DEFAULTS, Options
from penstock.setting import (
    ACCELERATORS,
    CLOCK,
    FILE,
    FLAG,
    MEMORIES,
    MEMORY,
    MODEL,
    READING,
    SIZE,
    SWITCH,
    TEXT,
    AnySetting,
    Kind,
    Setting,
    choice,
    declared,
    settings_of,
)

if TYPE_CHECKING:
    from penstock.backends.accelerator import Accelerator
    from penstock.hardware.target import Target
    from penstock.ir.graph import Graph
    from penstock.scheduling.model.schedule import Schedule
    from penstock.scheduling.model.stated import Cascade, StatedSchedule

STAGE_NAMES: Final = ("read", "simplify", "assign", "schedule", "place", "lower", "write")
"""The stages, in order, as `--stop-after` names them."""
DEFAULT_STACK_BYTES: Final = 1024
"""RAM reserved for the stack, unless the user specifies a number."""


def _spelled(accelerator: Accelerator) -> str:
    """Return an accelerator as a value of --accelerator, with all its attributes."""
    attributes = ",".join(f"{name}={value}" for name, value in accelerator.target.attrs.items())
    return f"{accelerator.name}:{attributes}" if attributes else accelerator.name


def _named(named: str | Sequence[str], option: str) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else tuple(named)


_ACCELERATORS: Kind[tuple[Accelerator, ...]] = Kind(
    python="str | Sequence[str]",
    metavar="NAME[:attr=value,...]",
    is_repeated=True,
    read=_named,
    words=lambda opened: tuple(map(_spelled, opened)),
)
_OPTIMIZE = choice(Optimize)


def _stated(given: Cascade | Schedule | Sequence[Cascade], _: str) -> StatedSchedule:
    """Return what a user states about a schedule."""
    from penstock.pipeline.stated_schedules import as_stated  # help texts need no schedules

    return as_stated(given)


_SCHEDULE: Kind[StatedSchedule] = Kind(
    python="Cascade | Schedule | Sequence[Cascade]", read=_stated
)


@frozen(repr=False)
class Request(Brief):
    """Inputs of one compilation.

    Settings that change the target have been applied to it; their fields say how it differs from
    the target as shipped, or as its file describes it.

    model: path of a model file, name of a zoo network (`zoo:NAME`), or name of `graph`.
    graph: the model, if it was built in Python; None: `model` is read.
    sram_bytes, flash_bytes: budgets of the user; None: only the target's capacities apply.
    optimize: goal that the user has specified; None: the default, see `goal`.
    """

    model: str
    target: Target
    graph: Graph | None = None
    _: KW_ONLY
    name: str | None = declared(
        None,
        Setting(
            TEXT,
            "Prefix of the public C names (PREFIX_run), also the name of the header, of packages "
            "and of the output directory; default: derived from the name of the model.",
            "prefix of the public C names, also the name of the header and of packages; None: "
            "derived from the name of the model",
            metavar="PREFIX",
            commands=("compile",),
        ),
    )
    clock_hz: int | None = declared(
        None,
        Setting(
            CLOCK,
            "Clock of the processor, such as 168MHz, for which cycles are also stated as time; "
            "default: that of the target, if it states one.",
            "clock of the processor, in hertz or a text such as '168MHz', for which cycles are "
            "also stated as time; None: that of the target, if it states one",
            name="clock",
        ),
    )
    kernels: str | None = declared(
        None,
        Setting(
            TEXT,
            "Core family whose kernels to use on the target's processor: portable (plain C, whose "
            "constants need the least flash, but slow), thumb, dsp or mve; default: that of the "
            "target.",
            "core family whose kernels to use: 'portable', 'thumb', 'dsp' or 'mve'; None: that of "
            "the target",
            metavar="FAMILY",
        ),
    )
    trust_target: bool = declared(
        False,
        Setting(
            FLAG,
            "Accept every compiler flag of a target file. Without this option, flags that can run "
            "programs or overwrite files are refused.",
            "accept every compiler flag of a target file; such flags can run programs and "
            "overwrite files",
            commands=(*READING, "demo"),
        ),
    )
    sram_bytes: int | None = declared(
        None,
        Setting(
            SIZE,
            "RAM budget for arena, static buffers and stack, such as 64KiB or 65536 (KiB, kB, K "
            "and k: 1,024 bytes). Without --optimize, it changes the goal from balanced to speed.",
            "RAM budget, stack included",
            name="sram",
            group=MEMORY,
        ),
    )
    memory: tuple[tuple[str, int], ...] = declared(
        (),
        Setting(
            MEMORIES,
            "Override the capacity of a memory of the target (`penstock targets --show TARGET`) or "
            "of an accelerator; repeatable.",
            "capacities of memories of the target or of accelerators, by name",
            group=MEMORY,
            example='{"sram": "64KiB"}',
        ),
    )
    flash_bytes: int | None = declared(
        None,
        Setting(
            SIZE,
            "Budget for constants; `run` also counts the code.",
            "budget for constants and code",
            name="flash",
            group=MEMORY,
            commands=("compile", "run", "verify", "scan"),
        ),
    )
    stack_bytes: int = declared(
        DEFAULT_STACK_BYTES,
        Setting(
            SIZE,
            "RAM reserved for the stack; counts towards --sram.",
            "stack reserve, part of the RAM budget",
            name="stack",
            group=MEMORY,
        ),
    )
    stream_input: bool = declared(
        False,
        Setting(
            SWITCH,
            "Read the input row by row through a callback.",
            "read inputs row by row through a callback",
            group=MEMORY,
        ),
    )
    plan_streaming: bool | None = declared(
        None,
        Setting(
            SWITCH,
            "Also plan with a streamed input, and report its RAM.  By default, only for networks "
            "for which that takes little time.",
            "also plan with a streamed input, and report its RAM; None: if that takes little time",
            group=MEMORY,
            commands=("compile", "run", "verify", "profile", "scan"),
        ),
    )
    optimize: Optimize | None = declared(
        None,
        Setting(
            replace(_OPTIMIZE, python=f"Optimize | {_OPTIMIZE.python}", is_checked=True),
            "balanced: least RAM among the schedules at most 1 % slower than the fastest that "
            "reduces row by row; default without a RAM budget (--sram, or --memory for a RAM). "
            "speed: fastest schedule that fits; default with a RAM budget. size: least RAM, "
            "compiled with -Os; the estimated cycles are those of -O3.",
            "goal that selects a point of the frontier; None: speed with a RAM budget, else "
            "balanced",
            metavar="GOAL",
        ),
    )
    rounding: Rounding = declared(
        Rounding.DOUBLE,
        Setting(
            choice(Rounding),
            "Requantisation: double (as in TensorFlow Lite Micro) or single (fully connected "
            "layers round once, as in newer LiteRT).",
            "requantisation of fully connected layers: double as TensorFlow Lite Micro, single as "
            "newer LiteRT",
            group=MODEL,
            metavar="NAME",
            commands=("compile", "explore", "run", "verify", "scan"),
        ),
    )
    io: InterfaceTypes = declared(
        InterfaceTypes.QUANTISED,
        Setting(
            choice(InterfaceTypes),
            "Element types of inputs and outputs in C: quantized (int8, with functions that "
            "convert) or model (as in the model file, converted by the generated code; TFLite "
            "only).",
            "element types of the generated interface: quantized, or those of the model, which "
            "must be TFLite, or ONNX whose inputs and outputs are not converted",
            group=MODEL,
            metavar="TYPES",
        ),
    )
    accelerators: tuple[Accelerator, ...] = declared(
        (),
        Setting(
            _ACCELERATORS,
            "Accelerator to offload to (`penstock backend list`); repeatable.",
            "accelerators beside the processor, each 'NAME[:attr=value,...]'; one may be a string",
            option="accelerator",
            group=ACCELERATORS,
            commands=READING,
            example='["ethos_u55:macs=256"]',
        ),
    )
    strict: bool = declared(
        False,
        Setting(
            SWITCH,
            "With --accelerator: fail if any node falls back to the processor.",
            "reject networks that accelerators run only in part",
            group=ACCELERATORS,
            commands=READING,
        ),
    )
    evaluation: Path | None = declared(
        None,
        Setting(
            FILE,
            "State the accuracy on samples with labels, beside that of the model in real numbers: "
            "an array per input as for --quantise, and an array labels, or one per output, with "
            "indices or numbers.",
            "state the accuracy for the samples and labels in this .npz archive",
            name="evaluate",
            metavar="FILE.npz",
            commands=("compile",),
        ),
    )
    schedule: StatedSchedule | None = declared(
        None,
        Setting(
            _SCHEDULE,
            "",
            "the schedule to compile instead of those that the search finds: cascades in execution "
            "order, or a schedule (penstock.cascader); None: the search",
            example='penstock.cascader.Cascade(("conv1", "conv2"), stripe=(1, 4, 16, 8))',
        ),
    )
    reading: Reading = declared(AS_IT_IS)
    options: Options = declared(
        DEFAULTS,
        Setting(
            Kind(python="Options"),
            "",
            "options of the search",
            example="penstock.Options(max_parts=3)",
        ),
    )

    @property
    def goal(self) -> Optimize:
        """The goal that selects a point; by default `speed` with a RAM budget, else `balanced`."""
        if self.optimize is not None:
            return self.optimize
        return Optimize.BALANCED if self.sram_bytes is None else Optimize.SPEED

    @property
    def ram_limit_bytes(self) -> int:
        """The RAM budget, but at most the capacity of the memories that count towards it.

        If none counts, only the stack needs RAM."""
        sizes = [m.size_bytes for m in self.target.arenas if m.budget]
        capacity = sum(sizes) if sizes else self.stack_bytes
        return capacity if self.sram_bytes is None else min(capacity, self.sram_bytes)


SETTINGS = settings_of(Request)
"""Every setting, in the order of help texts."""
KEYWORDS = tuple(one for one in SETTINGS if one.python)
"""The settings that Python functions take."""


def options_of(command: str) -> tuple[AnySetting, ...]:
    """Return the settings that a command of the command line takes as options."""
    return tuple(one for one in SETTINGS if one.help and command in one.commands)


def stated(request: Request) -> Iterator[str]:
    """Yield the options with which a command states a request, without the model, the target, the
    RAM budget and the goal."""
    for one in SETTINGS:
        if one.help and one.name not in ("sram", "optimize"):
            yield from one.stated(request)
