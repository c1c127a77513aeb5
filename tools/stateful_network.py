"""Random networks with state variables, as `.tflite` files.

A network processes a few frames at a time.  Each of its layers keeps state of one kind:

    queue       the last frames, concatenated with the new ones and convolved
    residual    the layer's previous output, which is added to its input
    delay       its previous input, which is its output
    two delays  the input before the previous one

`draw_stateful` draws a network with variables, `draw_explicit` one whose states are inputs and
outputs; equal seeds draw equal networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tools.tflite_writer import OperatorSpec, OptionValue, SubgraphSpec, TensorSpec, write_tflite

KINDS = ("queue", "residual", "delay", "two delays")
UNMASKED = dict.fromkeys(("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "begin_mask"), 0)


@dataclass(slots=True)
class StatefulNetwork:
    """Collects the tensors and operators of a network with state."""

    rng: np.random.Generator
    tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])
    first_tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    first_operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])

    def tensor(self, shape: tuple[int, ...], scale: float, zero: int, name: str = "x") -> int:
        """A new int8 tensor."""
        return self.add(TensorSpec(f"{name}{len(self.tensors)}", shape, "int8", (scale,), (zero,)))

    def add(self, spec: TensorSpec) -> int:
        """Appends a tensor and returns its index."""
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def alike(self, x: int, rows: int) -> int:
        """A new tensor like `x` with another number of rows."""
        spec = self.tensors[x]
        shape = (1, rows, *spec.shape[2:])
        return self.tensor(shape, spec.scales[0], spec.zero_points[0])

    def integers(self, *values: int) -> int:
        """A constant list of int32."""
        data = np.array(values, np.int32)
        return self.add(TensorSpec(f"list{len(self.tensors)}", data.shape, "int32", data=data))

    def apply(self, name: str, inputs: tuple[int, ...], output: int, **options: OptionValue) -> int:
        """Appends an operator and returns its output."""
        self.operators.append(OperatorSpec(name, inputs, (output,), options))
        return output

    def variable(self, like: int, rows: int) -> tuple[int, int]:
        """A new variable; returns its handle, and its value when the invocation begins."""
        number = sum(spec.dtype == "resource" for spec in self.tensors)
        options: dict[str, OptionValue] = {"container": "", "shared_name": f"state{number}"}
        handle = self.add(TensorSpec(f"handle{number}", (), "resource"))
        self.apply("VAR_HANDLE", (), handle, **options)
        value = self.alike(like, rows)
        self.apply("READ_VARIABLE", (handle,), value)
        self._initialise(number, options, self.tensors[value])
        return handle, value

    def _initialise(self, number: int, options: dict[str, OptionValue], spec: TensorSpec) -> None:
        """Lets the first invocation assign the zero point to a variable."""
        data = np.full(spec.shape, spec.zero_points[0], np.int8)
        handle = len(self.first_tensors)
        self.first_tensors += [
            TensorSpec(f"first{number}", (), "resource"),
            TensorSpec(f"zero{number}", spec.shape, "int8", spec.scales, spec.zero_points, 0, data),
        ]
        self.first_operators += [
            OperatorSpec("VAR_HANDLE", (), (handle,), options),
            OperatorSpec("ASSIGN_VARIABLE", (handle, handle + 1), ()),
        ]

    def assign(self, handle: int, value: int) -> None:
        """Assigns a new value to a variable."""
        self.operators.append(OperatorSpec("ASSIGN_VARIABLE", (handle, value), ()))

    def queue(self, x: int) -> int:
        """Convolves the last frames and the new ones."""
        frames, kept = self.tensors[x].shape[1], int(self.rng.integers(1, 5))
        if self.rng.integers(3) == 0:
            return self._shifted_queue(x, frames, kept)
        handle, old = self.variable(x, kept)
        window = self.alike(x, kept + frames)
        self.apply("CONCATENATION", (old, x), window, axis=1)
        last = self._last_rows(window, kept)
        if self.rng.integers(2):
            self.assign(handle, last)
            return self._convolved(*self._section(window, kept + 1))
        y = self._convolved(*self._section(window, kept + 1))
        self.assign(handle, last)
        return y

    def _shifted_queue(self, x: int, frames: int, kept: int) -> int:
        """Convolves a window that is a variable, of which the first frames are dropped before the
        new ones are appended."""
        handle, old = self.variable(x, kept + frames)
        window = self.alike(x, kept + frames)
        self.apply("CONCATENATION", (self._last_rows(old, kept), x), window, axis=1)
        self.assign(handle, window)
        return self._convolved(window, kept + 1)

    def _section(self, window: int, taps: int) -> tuple[int, int]:
        """The window or, at times, its last rows of some channels; and the taps of a convolution
        that yields as many frames as one with `taps` on the window."""
        spec = self.tensors[window]
        _, rows, _, channels = spec.shape
        if self.rng.integers(2):
            return window, taps
        row, first = int(self.rng.integers(taps)), int(self.rng.integers(channels))
        end = int(self.rng.integers(first, channels)) + 1
        begins, ends = self.integers(0, row, 0, first), self.integers(0, rows, 0, end)
        shape = (1, rows - row, 1, end - first)
        y = self.tensor(shape, spec.scales[0], spec.zero_points[0])
        masks = {**UNMASKED, "begin_mask": 0b0101, "end_mask": 0b0101}
        step = self.integers(1, 1, 1, 1)
        return self.apply("STRIDED_SLICE", (window, begins, ends, step), y, **masks), taps - row

    def _last_rows(self, x: int, count: int) -> int:
        """The last rows of a tensor."""
        rows = self.tensors[x].shape[1]
        begin = self.integers(0, rows - count, 0, 0)
        end, step = self.integers(0, rows, 0, 0), self.integers(1, 1, 1, 1)
        masks = {**UNMASKED, "begin_mask": 0b1101, "end_mask": 0b1111}
        return self.apply("STRIDED_SLICE", (x, begin, end, step), self.alike(x, count), **masks)

    def _convolved(self, x: int, taps: int) -> int:
        """A convolution over `taps` frames without padding."""
        spec = self.tensors[x]
        channels, made = spec.shape[3], int(self.rng.integers(1, 6))
        weights = self.rng.integers(-127, 128, (made, taps, 1, channels)).astype(np.int8)
        w = self.add(TensorSpec("weights", weights.shape, "int8", (0.01,), (0,), 0, weights))
        bias = np.array(self.rng.integers(-500, 500, made), np.int32)
        scale = float(np.float32(spec.scales[0]) * np.float32(0.01))
        b = self.add(TensorSpec("bias", bias.shape, "int32", (scale,), (0,), 0, bias))
        y = self.tensor((1, spec.shape[1] - taps + 1, 1, made), self._scale(), self._zero())
        options: dict[str, OptionValue] = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
        options |= {"dilation_w_factor": 1, "dilation_h_factor": 1}
        return self.apply("CONV_2D", (x, w, b), y, **options)

    def residual(self, x: int) -> int:
        """Adds the previous output, at the output's scale."""
        rows = self.tensors[x].shape[1]
        y = self.tensor(self.tensors[x].shape, self._scale(), self._zero())
        handle, old = self.variable(y, rows)
        self.apply("ADD", (x, old), y)
        self.assign(handle, y)
        return y

    def delay(self, x: int) -> int:
        """The previous input."""
        handle, old = self.variable(x, self.tensors[x].shape[1])
        self.assign(handle, x)
        return self._passed(old)

    def two_delays(self, x: int) -> int:
        """The input before the previous one, from two variables."""
        rows = self.tensors[x].shape[1]
        (newer, one), (older, two) = self.variable(x, rows), self.variable(x, rows)
        self.assign(older, one)
        self.assign(newer, x)
        return self._passed(two)

    def _passed(self, x: int) -> int:
        """A tensor requantised, so that a node computes with it."""
        y = self.tensor(self.tensors[x].shape, self._scale(), self._zero())
        return self.apply("QUANTIZE", (x,), y)

    def _scale(self) -> float:
        return float(np.float32(self.rng.uniform(0.02, 0.2)))

    def _zero(self) -> int:
        return int(self.rng.integers(-128, 128))

    def tflite(self, x: int, y: int, *others: int) -> bytes:
        """The file of the network from input `x`, and `others`, to output `y`."""
        return self.file((x, *others), (y,))

    def file(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> bytes:
        """The file of the network from some inputs to some outputs."""
        once = OperatorSpec("CALL_ONCE", (), (), {"init_subgraph_index": 1})
        first = SubgraphSpec(tuple(self.first_tensors), tuple(self.first_operators))
        return write_tflite(
            self.tensors, (once, *self.operators), inputs, outputs, "random state", (first,)
        )


@dataclass(slots=True)
class ExplicitNetwork(StatefulNetwork):
    """A network whose states are inputs and outputs; handles are positions in both lists."""

    before: list[int] = field(default_factory=list[int])
    after: list[int] = field(default_factory=list[int])

    def variable(self, like: int, rows: int) -> tuple[int, int]:
        """A new input, and its place among the states."""
        self.before.append(self.alike(like, rows))
        self.after.append(self.before[-1])
        return len(self.before) - 1, self.before[-1]

    def assign(self, handle: int, value: int) -> None:
        """Makes a value the output that belongs to a state."""
        self.after[handle] = value

    def tflite(self, x: int, y: int, *others: int) -> bytes:
        """The file of the network; the states follow the other inputs, and the output."""
        inputs, outputs = (x, *others, *self.before), (*self.after, y)
        return write_tflite(self.tensors, self.operators, inputs, outputs, "explicit state")

    def states(self) -> dict[str, str]:
        """The output of each state by its input."""
        pairs = zip(self.before, self.after, strict=True)
        return {self.tensors[x].name: self.tensors[y].name for x, y in pairs}


def draw_stateful(seed: int, number: int) -> bytes:
    """A random network of one to four layers with state.  In half of them more tensors are outputs,
    among them the old elements of states."""
    net = StatefulNetwork(np.random.default_rng([seed, number]))
    first, last = _grown(net)
    computed = [y for operator in net.operators for y in operator.outputs]
    others = [y for y in computed if net.tensors[y].dtype == "int8" and y != last]
    count = int(net.rng.integers(1, 4)) if net.rng.integers(2) else 0
    shown = net.rng.permutation(others)[:count].tolist()
    return net.file((first,), (last, *shown))


def draw_explicit(seed: int, number: int) -> tuple[bytes, dict[str, str]]:
    """A random network of one to four layers whose states are inputs and outputs: the file, and the
    output of each state by its input."""
    net = ExplicitNetwork(np.random.default_rng([seed, number]))
    return net.tflite(*_grown(net)), net.states()


def _grown(net: StatefulNetwork) -> tuple[int, int]:
    """Adds an input and layers; returns the input and the output of the last layer."""
    frames, channels = net.rng.integers(1, 4), net.rng.integers(1, 5)
    first = net.tensor((1, int(frames), 1, int(channels)), 0.05, -3, "input")
    x = first
    for kind in net.rng.choice(KINDS, int(net.rng.integers(1, 5))):
        layer = {
            "queue": net.queue,
            "residual": net.residual,
            "delay": net.delay,
            "two delays": net.two_delays,
        }[str(kind)]
        x = layer(x)
    return first, x
