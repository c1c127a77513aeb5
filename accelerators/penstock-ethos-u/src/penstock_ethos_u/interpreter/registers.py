"""The register state of the NPU. When a command starts an operation, the registers determine the
operation's parameters.

Every register that an operation uses must have been set, because initial values are unspecified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from penstock.uma import BackendError, UnsupportedError
from penstock_ethos_u.interpreter.commands import RegisterCommand, choice
from penstock_ethos_u.interpreter.feature_map import FeatureMap
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.memory import SHARED, ByteSpan
from penstock_ethos_u.interpreter.operation import (
    ActivationRange,
    BlockOperation,
    DmaOperation,
    KernelWindow,
    OperandScaling,
    Operation,
    ScaleFactor,
    SecondOperand,
    WindowPadding,
    not_modelled,
)

UNARY = ("lrelu", "abs", "clz")
SUMS = ("add", "sub")
WEIGHTED = ("conv", "depthwise")
# Maximum number of elements of a feature map; protects the host against invalid streams.
MOST_ELEMENTS = 1 << 24
# Maximum number of rows times columns that a window spans, including dilation; the hardware
# supports 64 x 64 taps with dilation 2.
MOST_TAPS = 1 << 14
FIRST_TABLE, LAST_TABLE = 16, 23  # Codes of activations that use look-up tables 0 to 7.
NO_FUNCTION = 0  # Code of an activation that only clamps.


@dataclass(slots=True)
class Registers:
    """The register state.

    hardware: the hardware configuration.
    values: the values that have been set, by name of the register, without the prefix NPU_SET_, and
        name of the field, for example `values["KERNEL_STRIDE"]["stride_x"]`."""

    hardware: NpuHardware
    values: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def set(self, command: RegisterCommand) -> None:
        """Execute a command that sets a register: store the values of its fields."""
        self.values[command.format.name.removeprefix("NPU_SET_")] = command.fields

    def operation(self, command: RegisterCommand, number: int) -> Operation:
        """Return the operation that `command` starts.

        number: index of the operation among all operations of the stream.

        Raises BackendError if a register was not set, UnsupportedError if the operation is not
        modelled."""
        return _Reader(self.hardware, self.values, command, number).operation()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds an operation from the register state.

    hardware: the hardware configuration.
    values: values by name of the register, without the prefix NPU_SET_, and name of the field.
    command: the command that starts the operation.
    number: index of the operation among all operations of the stream."""

    hardware: NpuHardware
    values: dict[str, dict[str, int]]
    command: RegisterCommand
    number: int

    def operation(self) -> Operation:
        name = self.command.format.name.removeprefix("NPU_OP_")
        if name == "DMA_START":
            return self._copy()
        if self._cores() > self.hardware.cores:
            raise self._not_modelled("two cores on one operation (PARALLEL_MODE)")
        if name in ("POOL", "ELEMENTWISE"):
            table = {"POOL": "pooling", "ELEMENTWISE": "elementwise"}[name]
            kind = choice(table, self.command.fields["mode"])
            if kind is None:
                raise self._not_modelled(f"mode {self.command.fields['mode']} of NPU_OP_{name}")
            return self._block(kind, name == "ELEMENTWISE")
        return self._block(name.lower(), False)

    def _copy(self) -> DmaOperation:
        length = self._get("DMA0_LEN")
        return DmaOperation(
            self.number, self.command.word, self._copy_span("DMA0_SRC", length),
            self._copy_span("DMA0_DST", length),
        )  # fmt: skip

    def _copy_span(self, name: str, length: int) -> ByteSpan:
        """The source or target of a copy of `length` bytes. `name` is the name of the
        address register: DMA0_SRC or DMA0_DST."""
        if self._get(f"{name}_REGION", "stride_mode"):
            raise self._not_modelled(f"strided copies ({name}_REGION)")
        inside = self._get(f"{name}_REGION", "internal")
        region = SHARED if inside else self._get(f"{name}_REGION", "region")
        at = self._get(name)
        return ByteSpan(name, region, at, at + length)

    def _block(self, kind: str, elementwise: bool) -> BlockOperation:
        kernel = KernelWindow() if elementwise else self._kernel()
        padding = WindowPadding() if elementwise else self._padding()
        upscale = choice("upscale", self._get("IFM_UPSCALE"))
        if upscale is None or (elementwise and upscale != "none"):
            raise self._not_modelled(f"IFM_UPSCALE {self._get('IFM_UPSCALE')} here")
        ofm = self._map("OFM", self._sizes("OFM"))
        global_scale = bool(self._get("OFM_PRECISION", "global_scale"))
        scale = self._scale("OFM_SCALE") if global_scale else ScaleFactor()
        if kind == "average_pool" and padding != WindowPadding() and scale != ScaleFactor():
            raise self._not_modelled("an average with padding and a scale (OFM_SCALE)")
        out_height, out_width, _ = ofm.shape
        height = (out_height - 1) * kernel.stride_y + kernel.reach_y - padding.top - padding.bottom
        width = (out_width - 1) * kernel.stride_x + kernel.reach_x - padding.left - padding.right
        if height < 1 or width < 1:
            raise self._not_modelled(f"an input of {height} rows and {width} columns")
        times = 1 if upscale == "none" else 2
        shape = (-(-height // times), -(-width // times), self._get("IFM_DEPTH_M1") + 1)
        return BlockOperation(
            self.number, self.command.word, kind,
            ifm=self._map("IFM", shape),
            second=self._second(kind, ofm.shape) if elementwise else None,
            ofm=ofm, height=height, width=width, kernel=kernel, padding=padding, upscale=upscale,
            weights=self._streams("WEIGHT") if kind in WEIGHTED else (),
            scales=self._streams("SCALE") if kind in WEIGHTED else (),
            block=self._sizes("OFM_BLK"),
            global_scale=global_scale,
            scale=scale,
            rounding=self._rounding("OFM_PRECISION"),
            operand_scaling=self._operands() if kind in SUMS else OperandScaling(),
            activation=self._activation(ofm),
            accumulator_bits=choice("accumulator_bits", self._get("ACC_FORMAT")) or 0,
            blockdep=self._get("BLOCKDEP"),
        )  # fmt: skip

    def _kernel(self) -> KernelWindow:
        of = self._fields("KERNEL_STRIDE")
        reach = tuple(self._get(f"KERNEL_{axis}_M1") + 1 for axis in _AXES[:2])
        if prod(reach) > MOST_TAPS:
            raise self._not_modelled(f"a kernel that spans {reach} elements")
        dilation_y, dilation_x = of["dilation_y"] + 1, of["dilation_x"] + 1
        return KernelWindow(
            self._get("KERNEL_HEIGHT_M1") // dilation_y + 1,
            self._get("KERNEL_WIDTH_M1") // dilation_x + 1,
            (of["stride_y"] | of["stride_y_high"] << 1) + 1,
            (of["stride_x"] | of["stride_x_high"] << 1) + 1,
            dilation_y,
            dilation_x,
            bool(of["part_kernel_first"]),
            4 if of["decomposition"] else 8,
        )

    def _padding(self) -> WindowPadding:
        sides = ("TOP", "LEFT", "BOTTOM", "RIGHT")
        return WindowPadding(*(self._get(f"IFM_PAD_{side}") for side in sides))

    def _sizes(self, name: str) -> tuple[int, int, int]:
        """Return height, width and depth from the registers `name`_HEIGHT_M1, `name`_WIDTH_M1 and
        `name`_DEPTH_M1, which contain these sizes minus 1. The name is OFM (output) or OFM_BLK
        (block of the output)."""
        height, width, depth = (self._get(f"{name}_{axis}_M1") + 1 for axis in _AXES)
        return height, width, depth

    def _map(self, name: str, shape: tuple[int, int, int]) -> FeatureMap:
        """The feature map `name`: IFM (first input), IFM2 (second input) or OFM (output)."""
        if prod(shape) > MOST_ELEMENTS:
            raise self._not_modelled(f"{name} of {shape} elements")
        precision = self._fields(f"{name}_PRECISION")
        if precision["precision"] > 2 or precision["format"] > 1:
            raise self._not_modelled(f"{name}_PRECISION {precision}")
        bytes_, signed = 1 << precision["precision"], bool(precision["signed"])
        return FeatureMap(
            name.lower(), self._get(f"{name}_REGION"), shape,
            bases=tuple(self._get(f"{name}_BASE{tile}") for tile in range(4)),  # type: ignore[arg-type]
            height_0=self._get(f"{name}_HEIGHT0_M1") + 1,
            height_1=self._get(f"{name}_HEIGHT1_M1") + 1,
            width_0=self._get(f"{name}_WIDTH0_M1") + 1,
            stride_y=self._get(f"{name}_STRIDE_Y"),
            stride_x=self._get(f"{name}_STRIDE_X"),
            stride_c=self._get(f"{name}_STRIDE_C"),
            nhcwb16=bool(precision["format"]), element_bytes=bytes_, signed=signed,
            zero_point=_number(self._get(f"{name}_ZERO_POINT"), signed),
        )  # fmt: skip

    def _second(self, kind: str, shape: tuple[int, int, int]) -> SecondOperand | None:
        """The second input of an element-wise operation; None if operations of this kind
        have one input."""
        if kind in UNARY:
            return None
        broadcast = self._fields("IFM2_BROADCAST")
        signed = bool(self._get("IFM2_PRECISION", "signed"))
        first, zero = bool(broadcast["swap"]), _number(self._get("IFM2_ZERO_POINT"), signed)
        if broadcast["scalar"]:
            return SecondOperand(None, _number(self._get("IFM2_SCALAR"), signed), zero, first)
        height, width, depth = (
            1 if broadcast[axis.lower()] else size for axis, size in zip(_AXES, shape, strict=True)
        )
        return SecondOperand(self._map("IFM2", (height, width, depth)), 0, zero, first)

    def _cores(self) -> int:
        """Number of cores that share the output channels of an operation."""
        return self._get("PARALLEL_MODE") + 1 if "PARALLEL_MODE" in self.values else 1

    def _streams(self, name: str) -> tuple[ByteSpan, ...]:
        """The span of bytes that contains the weights (`name` is WEIGHT) or the biases
        and scales (`name` is SCALE) of each core."""
        found = list[ByteSpan]()
        for core in (f"{name}{number or ''}" for number in range(self._cores())):
            at = self._get(f"{core}_BASE")
            length = self._get(f"{core}_LENGTH")
            found.append(ByteSpan(core, self._get(f"{name}_REGION"), at, at + length))
        return tuple(found)

    def _operands(self) -> OperandScaling:
        return OperandScaling(
            self._meaning("scale_mode", "IFM_PRECISION", "scale_mode"),
            self._scale("OPA_SCALE"),
            ScaleFactor(self._get("OPB_SCALE", "scale")),
            self._rounding("IFM_PRECISION"),
        )

    def _scale(self, name: str) -> ScaleFactor:
        return ScaleFactor(self._get(name, "scale"), self._get(name, "shift"))

    def _rounding(self, name: str) -> str:
        return self._meaning("rounding", name, "rounding")

    def _activation(self, ofm: FeatureMap) -> ActivationRange:
        function = self._get("ACTIVATION", "function")
        table = function - FIRST_TABLE if FIRST_TABLE <= function <= LAST_TABLE else None
        if table is None and function != NO_FUNCTION:
            raise self._not_modelled(f"activation {function} (tanh and sigmoid of the hardware)")
        lower, upper = (
            _number(self._get(f"ACTIVATION_{end}"), ofm.signed) for end in ("MIN", "MAX")
        )
        return ActivationRange(lower, upper, table, self._get("ACTIVATION", "clip_range"))

    def _meaning(self, what: str, register: str, field: str) -> str:
        """The meaning of the value of a register field, for example "truncate" for a
        rounding mode. Raises UnsupportedError if the value is undefined."""
        value = self._get(register, field)
        found = choice(what, value)
        if found is None:
            raise self._not_modelled(f"{register} with {field} {value}")
        return found

    def _get(self, register: str, field: str = "value") -> int:
        """The value of a register field. Raises BackendError if the register was not
        set."""
        return self._fields(register)[field]

    def _fields(self, register: str) -> dict[str, Any]:
        """The values of a register's fields by name. Raises BackendError if the register was
        not set."""
        if register not in self.values:
            raise BackendError(
                "ethosu-105",
                f"register NPU_SET_{register} was not set",
                where=self._where(),
                why="the initial values of registers are unspecified",
                help="set it before the operation that uses it",
            )
        return self.values[register]

    def _not_modelled(self, what: str) -> UnsupportedError:
        return not_modelled(what, self._where())

    def _where(self) -> str:
        return f"operation {self.number} ({self.command.format.name}), word {self.command.word}"


_AXES = ("HEIGHT", "WIDTH", "DEPTH")


def _number(value: int, signed: bool) -> int:
    """A 16-bit register value as a number, in two's complement if `signed` is True."""
    return value - (1 << 16) if signed and value >= 1 << 15 else value
