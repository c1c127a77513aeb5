"""Network: a compiled network that runs in this process, on real numbers, in batches."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from penstock.brief import shortened
from penstock.errors import UnsupportedError, UsageError, did_you_mean
from penstock.frozen import frozen
from penstock.host_program import HostProgram
from penstock.ir.tensor import Array
from penstock.ladder import without_c
from penstock.pipeline.compilation import Compilation
from penstock.quoting import each_quoted, typed
from penstock.reports.accuracy import Accuracy, accuracy
from penstock.reports.making import model_interface
from penstock.reports.report import InterfaceTensor, ModelInterface

Numbers = ArrayLike | Mapping[str, ArrayLike]
"""An array, or arrays by the name of the input or output."""


@frozen(repr=False)
class Network:
    """A compiled network whose C code runs in this process.

    Inputs and outputs are real numbers; where the generated code has quantised elements, they are
    converted as by its functions NAME_quantize and NAME_dequantize, so results are those of the
    device, to the bit.

    A first axis of extent 1 of an input is its batch axis, which is no part of a sample's shape;
    outputs then have none either.  `inputs` and `outputs` have the shapes of the generated code.

    compilation: the results of all stages.
    interface: inputs and outputs of the generated code."""

    compilation: Compilation
    interface: ModelInterface
    _program: HostProgram

    @staticmethod
    def of(done: Compilation) -> Network:
        """The network of a compilation.

        Raises ToolError without a C compiler, UnsupportedError if an accelerator has no model of
        its driver in C."""
        if missing := without_c(done):
            raise UnsupportedError(
                "execution-002",
                f"{', '.join(missing)} has no model of its driver in C",
                where="penstock.load",
                help="leave the accelerator out; results do not depend on it",
            )
        return Network(done, model_interface(done.model, done.graph), HostProgram.built(done))

    def __repr__(self) -> str:
        ends = (self.inputs, self.outputs)
        shown = (
            ", ".join(f"{t.name}: {typed(t.element_type, t.shape)}" for t in some) for some in ends
        )
        return shortened(f"Network({' -> '.join(shown)})")

    @property
    def inputs(self) -> tuple[InterfaceTensor, ...]:
        """The inputs of the generated code: shape, element type, scale and zero point."""
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[InterfaceTensor, ...]:
        """The outputs of the generated code: shape, element type, scale and zero point."""
        return self.interface.outputs

    def predict(self, x: Numbers, *, sequence: bool = False) -> Array | dict[str, Array]:
        """The outputs for one or more samples.

        x: real numbers, for several inputs a dictionary with an array for each name.  Arrays have
            the shape of a sample, or any number of axes before it, which are then those of the
            outputs.  Inputs without a scale that have integer elements, such as indices of tokens,
            take integers.
        sequence: the last axis before the shape of a sample is time: a network with state keeps it
            from one sample to the next along this axis.  Otherwise, each sample begins anew.

        Returns float32 numbers, or integers of outputs without a scale; for several outputs a
        dictionary.

        Raises UsageError for names, shapes or element types that do not fit, and for NaN."""
        found, _ = self._outputs(x, sequence)
        return found[self.outputs[0].name] if len(self.outputs) == 1 else found

    def evaluate(
        self, x: Numbers, y: Numbers, *, sequence: bool = False
    ) -> Accuracy | dict[str, Accuracy]:
        """The accuracy of the outputs for one or more samples.

        x, sequence: as for `predict`.
        y: for each sample a label, the index of the largest element that is expected along the last
            axis of the output; or the numbers that are expected, in the shape of the output.  For
            several outputs, a dictionary with an array for one or more of them.

        Returns the share of right labels and the mean absolute difference, as far as `y` states
        them; for several outputs a dictionary.

        Raises UsageError as `predict`, also for `y`."""
        names = [output.name for output in self.outputs]
        expected = _by_name("y", y, names, is_partial=True)
        outputs, axes = self._outputs(x, sequence)
        found = {
            name: accuracy(name, outputs[name], _array("y", name, numbers), axes)
            for name, numbers in expected.items()
        }
        return found[names[0]] if len(names) == 1 else found

    def _outputs(self, x: Numbers, sequence: bool) -> tuple[dict[str, Array], int]:
        """The outputs by name, and how many axes come before the shape of a sample."""
        given = _by_name("x", x, [tensor.name for tensor in self.inputs], is_partial=False)
        arrays = {name: _array("x", name, numbers) for name, numbers in given.items()}
        leading = self._leading({t.name: arrays[t.name] for t in self.inputs}, sequence)
        count = math.prod(leading)
        elements = {
            value.name: _elements(arrays[t.name], t, self._file_type(t)).reshape(count, *t.shape)
            for t, value in zip(self.inputs, self.compilation.graph.inputs, strict=True)
        }
        steps = max(1, leading[-1]) if sequence else 1
        made = self._program.run(elements, count, steps)
        is_batched = any(tensor.shape[:1] == (1,) for tensor in self.inputs)
        found = {
            t.name: _numbers(made[t.name], t).reshape(
                *leading, *(_sample_shape(t) if is_batched else t.shape)
            )
            for t in self.outputs
        }
        return found, len(leading)

    def _leading(self, arrays: Mapping[str, Array], sequence: bool) -> tuple[int, ...]:
        """The extents before the shape of a sample, which are equal for all inputs."""
        found = {t.name: _axes_before(arrays[t.name], t) for t in self.inputs}
        (first, leading), *others = found.items()
        for name, other in others:
            if other != leading:
                raise UsageError(
                    "input-011",
                    f'"{first}" has samples {list(leading)}, "{name}" has {list(other)}',
                    where="x",
                    why="one sample consists of an array for each input",
                    help="give all inputs the same axes before the shape of a sample",
                )
        if sequence and (not leading or leading[-1] == 1 < math.prod(leading)):
            sample = list(_sample_shape(self.inputs[0]))
            raise UsageError(
                "input-012",
                "there is no axis of time before the shape of a sample",
                where="x, sequence=True",
                why=f'"{first}" has shape {list(arrays[first].shape)}, one sample {sample}; the '
                "last axis before a sample is time",
                help=f"stack the samples of a sequence along a new first axis: {['time', *sample]}",
            )
        return leading

    def _file_type(self, tensor: InterfaceTensor) -> str:
        """The element type of an input in the model's file."""
        types = {value.name: value.type.dtype.value for value in self.compilation.model.inputs}
        return types[tensor.name]


def _by_name(
    which: str, given: Numbers, names: list[str], *, is_partial: bool
) -> Mapping[str, ArrayLike]:
    """What is given by the names of inputs or outputs.  Raises UsageError."""
    role = "input" if which == "x" else "output"
    if not isinstance(given, Mapping):
        if len(names) == 1:
            return {names[0]: given}
        raise UsageError(
            "input-013",
            f"{which} is a {type(given).__name__}, must be a dictionary",
            where=which,
            why=f"the network has {len(names)} {role}s: {each_quoted(names)}",
            help=f"write {{{', '.join(f'{name!r}: ..' for name in names)}}}",
        )
    wrong = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if wrong or not given or (missing and not is_partial):
        what = (
            f"the network has no {role} {wrong[0]!r}"
            if wrong
            else f'there is no array for {role} "{missing[0]}"'
        )
        raise UsageError(
            "input-013",
            what,
            where=which,
            why=f"its {role}s are {each_quoted(names)}",
            help=(did_you_mean(str(wrong[0]), names) if wrong else "")
            + f"name each array after an {role}",
        )
    return given


def _array(which: str, name: str, numbers: ArrayLike) -> Array:
    try:
        found = np.asarray(numbers)
    except ValueError as error:  # of lists whose lengths differ
        raise _no_array(which, name, str(error)) from error
    if found.dtype.kind not in "biuf":
        raise _no_array(which, name, f"the element type is {found.dtype}")
    return found


def _no_array(which: str, name: str, why: str) -> UsageError:
    return UsageError(
        "input-014",
        f'{which} for "{name}" is no array of numbers',
        where=which,
        why=why,
        help="pass a NumPy array of integers or of real numbers",
    )


def _sample_shape(tensor: InterfaceTensor) -> tuple[int, ...]:
    return tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape


def _axes_before(array: Array, tensor: InterfaceTensor) -> tuple[int, ...]:
    sample = _sample_shape(tensor)
    before = array.ndim - len(sample)
    if before >= 0 and array.shape[before:] == sample:
        return array.shape[:before]
    written = ",".join(map(str, array.shape))
    raise UsageError(
        "input-015",
        f'"{tensor.name}" has shape [{written}], must be {list(sample)}, or end with it',
        where=f'x, input "{tensor.name}"',
        why=f"the input of the network is {typed(tensor.element_type, tensor.shape)}",
        help="pass one sample, or samples stacked along axes before it",
    )


def _elements(array: Array, tensor: InterfaceTensor, file_type: str) -> Array:
    """The elements that the generated code takes.  Raises UsageError."""
    where = f'x, input "{tensor.name}"'
    is_real = tensor.scale is not None or tensor.element_type == "float32"
    if not is_real:
        return _whole(array, tensor, where)
    if (
        array.dtype.name in ("int8", "uint8", "int16")
        and array.dtype.name in (tensor.element_type, file_type)
        and (tensor.scale, tensor.zero_point) != (1.0, 0)
    ):
        raise UsageError(
            "input-016",
            f"the array is {array.dtype}, as the quantised elements of the network are",
            where=where,
            why=f"they represent {tensor.scale:.6g} * (element - ({tensor.zero_point}))",
            help="pass real numbers: multiply elements by the scale as above, or convert numbers "
            "to float32",
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        index = [int(k) for k in np.argwhere(np.isnan(array))[0]]
        raise UsageError(
            "input-017",
            f"element {index} is NaN",
            where=where,
            why="NaN is no real number",
            help="replace it in the samples",
        )
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    return numbers if tensor.scale is None else tensor.quantize(numbers)


def _whole(array: Array, tensor: InterfaceTensor, where: str) -> Array:
    """The elements of an input without a scale, which are integers or booleans."""
    wanted = np.dtype(tensor.element_type)
    lower, upper = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    if array.dtype.kind == "f" or (array.size and not lower <= array.min() <= array.max() <= upper):
        what = (
            f"the array is {array.dtype}"
            if array.dtype.kind == "f"
            else f"the numbers are within [{array.min()}, {array.max()}]"
        )
        raise UsageError(
            "input-018",
            f"{what}, must be integers within [{lower}, {upper}]",
            where=where,
            why=f"the input is {wanted}, without a scale",
            help=f"convert the array: x.astype(np.{wanted})",
        )
    return array.astype(wanted)


def _numbers(elements: Array, tensor: InterfaceTensor) -> Array:
    """The real numbers of an output, or its elements if it has no scale."""
    return elements if tensor.scale is None else tensor.dequantize(elements)
