"""Schema of a target file: the tables, fields and admissible values of the TOML text.

Each field states in its description which values are allowed, as an error message continues
"FIELD is VALUE, must be ...".  Types are strict: TOML has integers, floats, booleans and strings,
and none is converted to another, except that an integer may stand for a float.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from penstock.errors import PenstockError
from penstock.hardware.quantities import (
    LARGEST_CLOCK_HZ,
    SMALLEST_CLOCK_HZ,
    parse_frequency,
    parse_size,
)

# 1 TiB. No memory of an embedded system is larger; sums of sizes stay far below 2**63.
LARGEST_SIZE_BYTES = 2**40
# Upper limit of a rate or a cycle count. A network of 2**40 operations then costs less than 2**63
# cycles.
LARGEST_FIGURE = 2**20
LARGEST_BURST_BYTES = 4096
# Lower limit of a rate in bytes per cycle and of the cycles per multiply-accumulate.
SMALLEST_RATE = 2.0**-20
MOST_INSTANCES = 16  # Of one accelerator.
LONGEST_NAME, LONGEST_TEXT, LONGEST_LIST = 64, 256, 64
_NAME = f"a name of 1 to {LONGEST_NAME} printable characters, without surrounding blanks"


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("not a single line of printable characters")
    return text


def _plain_word(text: str) -> str:
    if shlex.quote(text) != text:
        raise ValueError("has a meaning in shells")
    return text


def _distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(items)) < len(items):
        raise ValueError("lists an item twice")
    return items


def _size(value: object) -> object:
    """The number of bytes of a size given as text; any other value unchanged."""
    try:
        return parse_size(value) if isinstance(value, str) else value
    except PenstockError as error:
        raise ValueError(error.what) from error


def _hertz(value: object) -> object:
    """The number of hertz of a frequency given as text; any other value unchanged."""
    try:
        return parse_frequency(value) if isinstance(value, str) else value
    except PenstockError as error:
        raise ValueError(error.what) from error


Name = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=LONGEST_NAME,
        description=_NAME,
    ),
    AfterValidator(_printable),
]
Text = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=LONGEST_TEXT,
        description=f"a line of 1 to {LONGEST_TEXT} printable characters, without surrounding "
        "blanks",
    ),
    AfterValidator(_printable),
]
Size = Annotated[
    int,
    Field(
        strict=True,
        gt=0,
        le=LARGEST_SIZE_BYTES,
        description='a size from 1 byte to 1024GiB, such as "64KiB" or 65536',
        examples=["64KiB"],
    ),
    BeforeValidator(_size),
]
Frequency = Annotated[
    int,
    Field(
        strict=True,
        ge=SMALLEST_CLOCK_HZ,
        le=LARGEST_CLOCK_HZ,
        description='a frequency from 1 kHz to 100 GHz, such as "168MHz"',
        examples=["168MHz"],
    ),
    BeforeValidator(_hertz),
]
Cycles = Annotated[
    int,
    Field(
        strict=True,
        ge=0,
        le=LARGEST_FIGURE,
        description=f"a whole number of cycles from 0 to {LARGEST_FIGURE}",
        examples=[0],
    ),
]
MeanCycles = Annotated[
    float,
    Field(
        strict=True,
        ge=0,
        le=LARGEST_FIGURE,
        allow_inf_nan=False,
        description=f"a number of cycles from 0 to {LARGEST_FIGURE}",
        examples=[8.0],
    ),
]
MultiplyCycles = Annotated[
    float,
    Field(
        strict=True,
        ge=SMALLEST_RATE,
        le=LARGEST_FIGURE,
        allow_inf_nan=False,
        description=f"a number of cycles from 2^-20 to {LARGEST_FIGURE}",
        examples=[1.0],
    ),
]
Bandwidth = Annotated[
    float,
    Field(
        strict=True,
        ge=SMALLEST_RATE,
        le=LARGEST_FIGURE,
        allow_inf_nan=False,
        description=f"a number of bytes per cycle from 2^-20 to {LARGEST_FIGURE}",
        examples=[4],
    ),
]
Burst = Annotated[
    int,
    Field(
        strict=True,
        ge=1,
        le=LARGEST_BURST_BYTES,
        description=f"a whole number of bytes from 1 to {LARGEST_BURST_BYTES}",
        examples=[32],
    ),
]
Flag = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=LONGEST_TEXT,
        description="one argument of a compiler: letters, digits and @ % _ - + = : , . /",
        examples=["-mthumb"],
    ),
    AfterValidator(_plain_word),
]
Flags = Annotated[
    tuple[Flag, ...],
    Field(
        max_length=LONGEST_LIST,
        description=f"a list of at most {LONGEST_LIST} compiler arguments",
        examples=[["-mthumb"]],
    ),
]
Content = Annotated[
    Literal["arena", "constant"], Field(description='"arena" or "constant"', examples=["arena"])
]
Contents = Annotated[
    tuple[Content, ...],
    Field(min_length=1, description='a list of "arena", "constant" or both', examples=[["arena"]]),
    AfterValidator(_distinct),
]


class TargetTable(BaseModel):
    """A table of the file; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class MemoryTable(TargetTable):
    """`[[memories]]`: a memory region of the chip."""

    name: Name
    size: Size
    holds: Contents
    bandwidth_bytes_per_cycle: Bandwidth
    latency_cycles: Cycles
    burst_bytes: Burst = 1
    budget: bool = Field(strict=True, description="true or false", examples=[True])


class EngineTable(TargetTable):
    """`[[engines]]`: the processor, its kernels, and the cycle model of its portable kernels."""

    name: Name
    kernels: Name = Field(description="the name of a core family")
    bandwidth_bytes_per_cycle: Bandwidth
    cycles_per_mac: MultiplyCycles
    cycles_per_element: MeanCycles
    cycles_per_loop: MeanCycles
    cycles_per_call: MeanCycles


class AcceleratorTable(TargetTable):
    """`[[accelerators]]`: an accelerator of the chip that has several instances."""

    name: Name
    instances: int = Field(
        strict=True,
        ge=1,
        le=MOST_INSTANCES,
        description=f"a whole number from 1 to {MOST_INSTANCES}",
        examples=[2],
    )


class CompilerTable(TargetTable):
    """`[compiler]`: arguments of the two supported compilers."""

    zig: Flags
    gcc: Flags
    optimise: Literal["speed", "size"] = Field(description='"speed" or "size"', examples=["speed"])


class TargetFile(TargetTable):
    """The whole file."""

    name: Name
    description: Text
    core: Name | None = Field(
        None, description="the name of a simulated core", examples=["cortex-m4"]
    )
    clock: Frequency | None = Field(
        None,
        description='a frequency from 1 kHz to 100 GHz, such as "168MHz"',
        examples=["168MHz"],
    )
    compiler: CompilerTable = Field(description="a table [compiler]")
    memories: tuple[MemoryTable, ...] = Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description=f"1 to {LONGEST_LIST} tables [[memories]]",
    )
    engines: tuple[EngineTable, ...] = Field(
        min_length=1,
        max_length=1,
        description="one table [[engines]]: a target has one processor (accelerators are added "
        "with --accelerator)",
    )
    accelerators: tuple[AcceleratorTable, ...] = Field(
        (),
        max_length=LONGEST_LIST,
        description=f"at most {LONGEST_LIST} tables [[accelerators]]",
    )
