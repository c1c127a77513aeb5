"""The register state of the NPU. When a command starts an operation, the registers determine the
operation's parameters. A reader for each family of NPUs knows what its registers mean.

Every register that an operation uses must have been set, because initial values are unspecified.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from penstock.uma import BackendError, UnsupportedError
from penstock_ethos_u.interpreter.commands import U85, RegisterCommand, choice
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
    ResizeAxis,
    ScaleFactor,
    SecondOperand,
    WindowPadding,
    not_modelled,
)
from penstock_ethos_u.interpreter.output import SLOT_BYTES, TABLE_ENTRIES, WIDE_ENTRIES

UNARY = ("lrelu", "abs", "clz", "not")
SUMS = ("add", "sub")
WEIGHTED = ("conv", "depthwise")
# Maximum number of elements of a feature map; protects the host against invalid streams.
MOST_ELEMENTS = 1 << 24
# Maximum number of rows times columns that a window spans, including dilation; the hardware
# supports 64 x 64 taps with dilation 2.
MOST_TAPS = 1 << 14
FIRST_TABLE, LAST_TABLE = 16, 23  # Codes of activations that use look-up tables 0 to 7.
NO_FUNCTION = 0  # Code of an activation that only clamps.
# Whether elements that index a look-up table are signed, by the code of the clip range. For other
# codes, the type of the output determines this.
SIGNED_RANGES = {2: False, 3: True, 5: True}
SCALED = ("mul", "add", "sub", "abs")  # Element-wise operations whose result is scaled.
# Size in bytes of the elements of products that are shifted but not multiplied by the factor in
# OFM_SCALE, and of outputs that are saturated only, unless there is a look-up table.
#
# Source: Vela's softmax, where the second operand takes the role of the scale (16 bits), products
# shifted by 31 bits implement gemmlowp's high multiplication (8 bits), and zero points that must
# have no effect are set.
WIDE = 4
# Left shift in bits of the scaled operand of a sum of which only one operand is scaled, by size of
# an element in bytes. The other operand is shifted by one bit less.
#
# Source: Vela, whose advanced scaling of sums must equal TFLite's bit for bit.
SHIFT = {1: 20, 2: 15, 4: 15}
# Maximum size in bytes of the channels of one pixel that a job reads, in convolutions and sums over
# channels.
SLICE_BYTES = 32
# Maximum number of input channels that a job reads if weights are ordered part kernel first.
PART_KERNEL_CHANNELS = 16
# Rows, columns and channels of a micro block times this number are multiply-accumulates per cycle.
U85_PRODUCTS = 8
RESIZE_BITS = 16  # Bits by which a resized image is shifted left before its scale.
# Number of multiply-accumulates per cycle up to which U85 reads few channels with small kernels.
FEW_MACS = 256


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
        reader = _U85Reader if self.hardware.family == U85 else _Reader
        return reader(self.hardware, self.values, command, number).operation()


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
        if name in ("POOL", "ELEMENTWISE", "RESIZE"):
            table = {"POOL": "pooling", "ELEMENTWISE": "elementwise", "RESIZE": "resize"}[name]
            kind = choice(table, self.command.fields["mode"], self.hardware.family)
            if kind is None:
                raise self._not_modelled(f"mode {self.command.fields['mode']} of NPU_OP_{name}")
            return self._block(kind, windowed=name == "POOL")
        if name not in ("CONV", "DEPTHWISE"):
            raise self._not_modelled(f"NPU_OP_{name}")
        product = self.command.fields.get("weights_ifm2")
        return self._block("matmul" if product else name.lower(), windowed=True)

    def _copy(self) -> DmaOperation:
        length = self._get("DMA0_LEN")
        return DmaOperation(
            self.number, self.command.word, self._copy_span("DMA0_SRC", length),
            self._copy_span("DMA0_DST", length),
        )  # fmt: skip

    def _copy_span(self, name: str, length: int) -> ByteSpan:
        """The source or target of a copy of `length` bytes. `name` is the name of the
        address register: DMA0_SRC or DMA0_DST."""
        region = self._fields(f"{name}_REGION")
        if region.get("stride_mode") or region.get("index_mode"):
            raise self._not_modelled(f"strided or indexed copies ({name}_REGION)")
        at = self._get(name)
        return ByteSpan(name, SHARED if region["internal"] else region["region"], at, at + length)

    def _block(self, kind: str, *, windowed: bool) -> BlockOperation:
        self._check(kind)
        resize = self._resize()
        kernel = self._kernel() if windowed else KernelWindow()
        padding = self._padding() if windowed else WindowPadding()
        upscale = choice("upscale", self._get("IFM_UPSCALE"))
        if upscale is None or (not windowed and upscale != "none"):
            raise self._not_modelled(f"IFM_UPSCALE {self._get('IFM_UPSCALE')} here")
        ofm = self._output()
        out_height, out_width, _ = ofm.shape
        height = (out_height - 1) * kernel.stride_y + kernel.reach_y - padding.top - padding.bottom
        width = (out_width - 1) * kernel.stride_x + kernel.reach_x - padding.left - padding.right
        if height < 1 or width < 1:
            raise self._not_modelled(f"an input of {height} rows and {width} columns")
        if resize is not None:
            rows, columns = (self._get(f"KERNEL_{axis}_M1") + 1 for axis in _AXES[:2])
            ifm, second = self._map("IFM", (rows, columns, ofm.shape[2])), None
        elif not windowed:
            ifm, second = self._operands(kind, ofm.shape)
        else:
            times = 1 if upscale == "none" else 2
            shape = (-(-height // times), -(-width // times), self._get("IFM_DEPTH_M1") + 1)
            ifm, second = self._map("IFM2" if kind == "copy" else "IFM", shape), None
            if kind == "matmul":
                if out_height > 1:
                    raise self._not_modelled("a product of several matrices")
                factor = self._map("IFM2", (1, ofm.shape[2], shape[2]))
                second = SecondOperand(factor, 0, factor.zero_point, False)
        scale = self._result_scale(kind, padding, ifm)
        return BlockOperation(
            self.number, self.command.word, kind, ifm=ifm, second=second, ofm=ofm,
            height=height, width=width, kernel=kernel, padding=padding, upscale=upscale,
            weights=self._streams("WEIGHT", self._cores()) if kind in WEIGHTED else (),
            scales=self._streams("SCALE", self._scale_streams()) if kind in WEIGHTED else (),
            block=self._sizes("OFM_BLK"),
            scale=scale,
            rounding=self._result_rounding(),
            operand_scaling=self._operand_scaling(kind, ifm.element_bytes),
            activation=self._activation(ofm),
            accumulator_bits=choice(
                "accumulator_bits", self._get("ACC_FORMAT"), self.hardware.family
            ) or 0,
            blockdep=self._get("BLOCKDEP"),
            slice_channels=self._slice_channels(kind, kernel, ifm.element_bytes),
            micro_channels=self._micro_channels(),
            fast_weights=self._has_weights(kind, "fast"),
            sparse_weights=self._has_weights(kind, "sparse"),
            resize=resize,
        )  # fmt: skip

    def _check(self, kind: str) -> None:
        """Raise UnsupportedError if a register makes the operation one that is not modelled."""
        del kind
        if self._cores() > self.hardware.cores:
            raise self._not_modelled("two cores on one operation (PARALLEL_MODE)")

    def _resize(self) -> tuple[ResizeAxis, ResizeAxis] | None:
        """The sampling of rows and of columns, if the operation resizes its input."""
        return None

    def _output(self) -> FeatureMap:
        ofm = self._map("OFM", self._sizes("OFM"))
        return replace(ofm, zero_point=0) if self._only_saturates(ofm) else ofm

    def _only_saturates(self, ofm: FeatureMap) -> bool:
        return ofm.element_bytes == WIDE and self._table() is None

    def _result_scale(
        self, kind: str, padding: WindowPadding, ifm: FeatureMap
    ) -> ScaleFactor | None:
        """The factor of the result, `BlockOperation.scale`."""
        global_scale = bool(self._get("OFM_PRECISION", "global_scale"))
        scale = self._scale("OFM_SCALE") if global_scale else ScaleFactor()
        if self.command.format.name == "NPU_OP_ELEMENTWISE" and kind not in SCALED:
            return ScaleFactor()
        if kind == "average_pool" and padding != WindowPadding():
            if scale != ScaleFactor():
                raise self._not_modelled("an average with padding and a scale (OFM_SCALE)")
            return None
        if kind in (*WEIGHTED, "average_pool") and not global_scale:
            return None
        if kind == "mul" and ifm.element_bytes == WIDE:
            return ScaleFactor(1, scale.shift)
        return scale

    def _result_rounding(self) -> str:
        return self._rounding("OFM_PRECISION")

    def _micro_channels(self) -> int:
        return self.hardware.ofm_channels

    def _slice_channels(self, kind: str, kernel: KernelWindow, element_bytes: int) -> int:
        """`BlockOperation.slice_channels`."""
        del kind
        most = SLICE_BYTES // element_bytes
        return min(most, PART_KERNEL_CHANNELS) if kernel.part_kernel_first else most

    def _has_weights(self, kind: str, format: str) -> bool:
        """Whether an operation has weights of a format, "fast" or "sparse"."""
        del kind, format
        return False

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

    def _operands(
        self, kind: str, shape: tuple[int, int, int]
    ) -> tuple[FeatureMap, SecondOperand | None]:
        """The inputs of an element-wise operation, whose output has the given shape; the second is
        None if operations of this kind have one input."""
        ifm = self._map("IFM", shape)
        if kind in UNARY:
            return ifm, None
        broadcast = self._fields("IFM2_BROADCAST")
        signed = bool(self._get("IFM2_PRECISION", "signed"))
        first, zero = bool(broadcast["swap"]), _number(self._get("IFM2_ZERO_POINT"), signed)
        if broadcast["scalar"]:
            return ifm, SecondOperand(None, _number(self._get("IFM2_SCALAR"), signed), zero, first)
        height, width, depth = (
            1 if broadcast[axis.lower()] else size for axis, size in zip(_AXES, shape, strict=True)
        )
        return ifm, SecondOperand(self._map("IFM2", (height, width, depth)), 0, zero, first)

    def _cores(self) -> int:
        """Number of cores that share the output channels of an operation."""
        return self._get("PARALLEL_MODE") + 1 if "PARALLEL_MODE" in self.values else 1

    def _scale_streams(self) -> int:
        """Number of streams of biases and scales."""
        return self._cores()

    def _streams(self, name: str, count: int) -> tuple[ByteSpan, ...]:
        """The span of bytes that contains the weights (`name` is WEIGHT) or the biases
        and scales (`name` is SCALE) of each core."""
        found = list[ByteSpan]()
        for core in (f"{name}{number or ''}" for number in range(count)):
            length = self._get(f"{core}_LENGTH")
            at = self._get(f"{core}_BASE") if length else 0
            found.append(ByteSpan(core, self._get(f"{name}_REGION"), at, at + length))
        return tuple(found)

    def _operand_scaling(self, kind: str, element_bytes: int) -> OperandScaling:
        if kind == "lrelu" and self._get("OFM_PRECISION", "global_scale"):
            negative = replace(self._scale("OFM_SCALE"), rounding=self._result_rounding())
            return OperandScaling(right=negative)
        if kind not in SUMS:
            return OperandScaling()
        a, mode = (
            self._scale("OPA_SCALE"),
            self._meaning("scale_mode", "IFM_PRECISION", "scale_mode"),
        )
        if mode == "both":
            return OperandScaling(
                ScaleFactor(a.scale), ScaleFactor(self._get("OPB_SCALE", "scale"))
            )
        left = SHIFT[element_bytes]
        scaled = replace(a, left=left, rounding=self._rounding("IFM_PRECISION"))
        shifted = ScaleFactor(1 << left - 1)
        return OperandScaling(*((scaled, shifted) if mode == "a" else (shifted, scaled)))

    def _scale(self, name: str) -> ScaleFactor:
        return ScaleFactor(self._get(name, "scale"), self._get(name, "shift"))

    def _rounding(self, name: str) -> str:
        return self._meaning("rounding", name, "rounding")

    def _table(self) -> int | None:
        """The address of the look-up table relative to the first one."""
        function = self._get("ACTIVATION", "function")
        if function == NO_FUNCTION:
            return None
        if not FIRST_TABLE <= function <= LAST_TABLE:
            raise self._not_modelled(f"activation {function} (tanh and sigmoid of the hardware)")
        return SLOT_BYTES * (function - FIRST_TABLE)

    def _activation(self, ofm: FeatureMap) -> ActivationRange:
        if self._only_saturates(ofm):
            return ActivationRange(-1 << 31, (1 << 31) - 1)
        lower, upper = (
            _number(self._get(f"ACTIVATION_{end}"), ofm.signed) for end in ("MIN", "MAX")
        )
        signed = SIGNED_RANGES.get(self._get("ACTIVATION", "clip_range"), ofm.signed)
        return ActivationRange(lower, upper, self._table(), signed, ofm.element_bytes == 2)

    def _meaning(self, what: str, register: str, field: str) -> str:
        """The meaning of the value of a register field, for example "truncate" for a
        rounding mode. Raises UnsupportedError if the value is undefined."""
        value = self._get(register, field)
        found = choice(what, value, self.hardware.family)
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


@dataclass(frozen=True)  # super() needs the class itself, which `slots` would replace
class _U85Reader(_Reader):
    """Builds an operation from the register state of Ethos-U85."""

    def _check(self, kind: str) -> None:
        format = self._fields("ACC_FORMAT")
        # The result of a copy of wide elements comes from the second input.
        if format["output"] or format["input"] != (2 if kind == "copy" else 0):
            raise self._not_modelled(f"ACC_FORMAT {format} here")

    def _output(self) -> FeatureMap:
        precision = self._fields("OFM_PRECISION")
        axes = choice("transpose", precision["transpose"], self.hardware.family)
        if axes is None:
            raise self._not_modelled(f"OFM_PRECISION with transpose {precision['transpose']}")
        reverse = precision["reverse"] - 1 if precision["reverse"] else None
        ofm = self._map("OFM", self._sizes("OFM"))
        return replace(ofm, axes=tuple(axes), reversed_axis=reverse)

    def _map(self, name: str, shape: tuple[int, int, int]) -> FeatureMap:
        storage = self._meaning("storage", f"{name}_PRECISION", "storage")
        if storage == "chained":
            precision = self._fields(f"{name}_PRECISION")
            signed = bool(precision["signed"])
            return FeatureMap(
                name.lower(), self._get(f"{name}_REGION"), shape, (0, 0, 0, 0), 0, 0, 0, 0, 0, 0,
                False, 1 << precision["precision"], signed,
                _number(self._get(f"{name}_ZERO_POINT"), signed), chained=True,
            )  # fmt: skip
        if storage != "tiles":
            raise self._not_modelled(f"{name}_PRECISION without storage here")
        return super()._map(name, shape)

    def _operands(
        self, kind: str, shape: tuple[int, int, int]
    ) -> tuple[FeatureMap, SecondOperand | None]:
        if kind in UNARY:
            return self._operand("IFM", shape), None
        scalars = [name for name in ("IFM", "IFM2") if self._get(f"{name}_BROADCAST", "scalar")]
        if not scalars:
            second = self._operand("IFM2", shape)
            return self._operand("IFM", shape), SecondOperand(second, 0, second.zero_point, False)
        # A scalar that is the first input becomes the second operand, but remains the left one.
        (scalar,), first = scalars, scalars == ["IFM"]
        signed = bool(self._get(f"{scalar}_PRECISION", "signed"))
        zero = _number(self._get(f"{scalar}_ZERO_POINT"), signed)
        operand = SecondOperand(None, self._get("OP_SCALAR"), zero, first)
        return self._operand("IFM2" if first else "IFM", shape), operand

    def _operand(self, name: str, shape: tuple[int, int, int]) -> FeatureMap:
        """An input of an element-wise operation, whose output has the given shape."""
        broadcast = self._fields(f"{name}_BROADCAST")
        height, width, depth = (
            1 if broadcast[axis.lower()] else size for axis, size in zip(_AXES, shape, strict=True)
        )
        return self._map(name, (height, width, depth))

    def _result_scale(
        self, kind: str, padding: WindowPadding, ifm: FeatureMap
    ) -> ScaleFactor | None:
        if kind in WEIGHTED and not self._get("OFM_PRECISION", "global_scale"):
            return None
        scale = self._scale("OFM_SCALE")
        if kind == "mul" and ifm.element_bytes == WIDE:
            return ScaleFactor(1, scale.shift)
        if kind == "argmax":
            # The maximum is below the index, in 16 bits.
            if (scale.scale, scale.shift) != (1, RESIZE_BITS):
                raise self._not_modelled("the index of a maximum with this scale (OFM_SCALE)")
            return ScaleFactor()
        if self.command.format.name == "NPU_OP_RESIZE":
            if scale.scale != 1 or scale.shift < RESIZE_BITS:
                raise self._not_modelled("a resized image with this scale (OFM_SCALE)")
            return ScaleFactor(1, scale.shift - RESIZE_BITS)
        if kind != "average_pool":
            return scale
        if scale.scale != 1 << scale.shift:
            raise self._not_modelled("an average with a scale (OFM_SCALE)")
        return None

    def _resize(self) -> tuple[ResizeAxis, ResizeAxis] | None:
        return (
            (self._axis("Y"), self._axis("X"))
            if self.command.format.name == "NPU_OP_RESIZE"
            else None
        )

    def _axis(self, name: str) -> ResizeAxis:
        step, parts = (
            self._fields(f"RESIZE_{name}_STEP"),
            self._get(f"RESIZE_{name}_SCALE_N_M1") + 1,
        )
        length = step["one_step_int"] * parts + step["one_step_mod"]
        return ResizeAxis(self._get(f"RESIZE_{name}_OFFSET"), length, parts)

    def _result_rounding(self) -> str:
        return self._rounding("OFM_SCALE")

    def _micro_channels(self) -> int:
        code = self._get("ACC_FORMAT", "micro_block")
        block = choice("micro_block", code, self.hardware.family)
        if block is None:
            raise self._not_modelled(f"ACC_FORMAT with micro_block {code}")
        return self.hardware.ofm_channels // prod(block)

    def _slice_channels(self, kind: str, kernel: KernelWindow, element_bytes: int) -> int:
        sparse = self._has_weights(kind, "sparse")
        if kernel.part_kernel_first:
            return PART_KERNEL_CHANNELS
        macs = self.hardware.ofm_channels * U85_PRODUCTS
        few = macs <= FEW_MACS and self._micro_channels() == 16 and not sparse
        if element_bytes == WIDE or few:
            return 32
        return 128 if sparse and element_bytes == 1 else 64

    def _has_weights(self, kind: str, format: str) -> bool:
        return kind in WEIGHTED and bool(self._get("WEIGHT_FORMAT", format))

    def _cores(self) -> int:
        return 1 if self._get("WEIGHT_FORMAT", "fast") else self.hardware.cores

    def _scale_streams(self) -> int:
        return 1

    def _operand_scaling(self, kind: str, element_bytes: int) -> OperandScaling:
        del element_bytes
        if kind in UNARY and kind != "lrelu":
            return OperandScaling(self._scale("IFM_SCALE"))
        if self.command.format.name != "NPU_OP_ELEMENTWISE":
            return OperandScaling()
        return OperandScaling(self._scale("IFM_SCALE"), self._scale("IFM2_SCALE"))

    def _scale(self, name: str) -> ScaleFactor:
        of = self._fields(name)
        return ScaleFactor(of["scale"], of["shift"], of["left"], self._rounding(name))

    def _table(self) -> int | None:
        if self._get("ACTIVATION", "function") == NO_FUNCTION:
            return None
        return self._get("ACTIVATION", "table")

    def _activation(self, ofm: FeatureMap) -> ActivationRange:
        table, dtype = self._table(), ofm.dtype
        if table is not None:
            dtype = np.dtype(self._meaning("table_input", "ACTIVATION", "function"))
        signed, interpolated = dtype.kind == "i", table is not None and dtype.itemsize == 2
        if interpolated and ofm.element_bytes != 2:
            raise self._not_modelled("a look-up table of 16-bit elements for wider outputs")
        lower, upper = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        if not self._get("ACTIVATION", "clip_range"):
            lower = max(lower, _number(self._get("ACTIVATION_MIN"), signed))
            upper = min(upper, _number(self._get("ACTIVATION_MAX"), signed))
        size = 4 * WIDE_ENTRIES if interpolated else TABLE_ENTRIES * ofm.element_bytes
        at = None if table is None else table * size
        return ActivationRange(lower, upper, at, signed, interpolated)


_AXES = ("HEIGHT", "WIDTH", "DEPTH")


def _number(value: int, signed: bool) -> int:
    """A 16-bit register value as a number, in two's complement if `signed` is True."""
    return value - (1 << 16) if signed and value >= 1 << 15 else value
