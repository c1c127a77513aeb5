"""Accuracy: how well the outputs of a network agree with labels or with expected numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.ir.tensor import Array


@frozen
class Accuracy:
    """The agreement of an output with what is expected.

    samples: the number of samples.
    top_1: the share of labels that are the index of the largest element along the last axis; None
        if what is expected are no labels.
    mean_error: the mean of the absolute differences; None if what is expected are labels by number.
    """

    samples: int
    top_1: float | None
    mean_error: float | None


@frozen
class Evaluation:
    """The accuracy of an output of the generated code, beside that of the model in real numbers.

    compiled: of the generated code; real: of the model as the framework, or onnxruntime, runs it;
        None if there is no such model.
    agreement: the share of rows along the last axis whose largest element is at the same index as
        that of `real`; None for a single element.
    difference: the mean of the absolute differences from `real`."""

    output: str
    compiled: Accuracy
    real: Accuracy | None = None
    agreement: float | None = None
    difference: float | None = None

    def figures(self) -> Iterator[tuple[str, str, str]]:
        """What is known: number, words, and the same figure in float or an empty text."""
        real = self.real or Accuracy(0, None, None)
        for words, found, in_float in (
            ("% top-1", _percent(self.compiled.top_1), _percent(real.top_1)),
            ("mean error", _digits(self.compiled.mean_error), _digits(real.mean_error)),
            ("% same largest element as in float", _percent(self.agreement), ""),
            ("mean difference from float", _digits(self.difference), ""),
        ):
            if found:
                yield found, words, in_float


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _digits(error: float | None) -> str:
    return "" if error is None else f"{error:.4g}"


def evaluation(name: str, outputs: Array, real: Array | None, expected: Array | None) -> Evaluation:
    """The evaluation of an output.

    outputs, real: the samples' outputs, whose first axis is the sample.
    expected: as for `accuracy`.

    Raises UsageError as `accuracy`."""

    def of(found: Array) -> Accuracy:
        if expected is None:
            return Accuracy(len(found), None, None)
        return accuracy(name, found, expected, 1)

    compiled = of(outputs)
    if real is None:
        return Evaluation(name, compiled)
    has_rows = outputs.ndim > 1 and outputs.shape[-1] > 1
    agreement = _mean(outputs.argmax(-1) == real.argmax(-1)) if has_rows else None
    difference = _distance(outputs, real)
    return Evaluation(name, compiled, of(real), agreement, difference)


def accuracy(name: str, outputs: Array, expected: Array, axes: int) -> Accuracy:
    """The accuracy of an output.

    outputs: the samples' outputs, whose first `axes` axes number the samples.
    expected: whole numbers of the same shape without the last axis, which are labels; or numbers of
        the same shape, which are labels, too, where each row is 0 with a single 1.  Of an output of
        whole numbers, such as that of ArgMax, the elements themselves are labels.

    Raises UsageError for other shapes and types, for labels that are out of range, and for NaN."""
    samples, classes = int(np.prod(outputs.shape[:axes])), outputs.shape[-1] if outputs.ndim else 1
    is_whole = expected.dtype.kind in "iub"
    if expected.dtype.kind not in "fiub":
        raise _refused(name, f"the element type is {expected.dtype}", outputs, axes)
    if np.isnan(expected).any():
        raise _refused(name, "an element is NaN", outputs, axes)
    if expected.shape == outputs.shape and outputs.dtype.kind in "iub" and is_whole:
        return Accuracy(samples, _mean(outputs == expected), None)
    if outputs.ndim > axes and classes == 1 and expected.shape == outputs.shape[:-1]:
        expected = expected[..., np.newaxis]  # a single number, such as a probability
    if expected.shape == outputs.shape:
        error = _distance(outputs, expected)
        is_one_hot = classes > 1 and _is_one_hot(expected)
        top = _mean(outputs.argmax(-1) == expected.argmax(-1)) if is_one_hot else None
        return Accuracy(samples, top, error)
    if outputs.ndim <= axes or not is_whole or expected.shape != outputs.shape[:-1]:
        written = ",".join(map(str, expected.shape))
        raise _refused(name, f"{expected.dtype}[{written}] does not fit", outputs, axes)
    if expected.size and not 0 <= int(expected.min()) <= int(expected.max()) < classes:
        wrong = expected[(expected < 0) | (expected >= classes)].flat[0]
        raise _refused(name, f"label {wrong} is not within [0, {classes})", outputs, axes)
    return Accuracy(samples, _mean(outputs.argmax(-1) == expected), None)


def _is_one_hot(expected: Array) -> bool:
    return bool(((expected == 0) | (expected == 1)).all() and (expected.sum(-1) == 1).all())


def _distance(one: Array, other: Array) -> float | None:
    return _mean(np.abs(one.astype(np.float64) - other.astype(np.float64)))


def _mean(array: Array) -> float | None:
    return float(array.mean(dtype=np.float64)) if array.size else None


def _refused(name: str, what: str, outputs: Array, axes: int) -> UsageError:
    shape = outputs.shape
    written = f"numbers of shape [{','.join(map(str, shape))}]"
    if len(shape) > axes and shape[-1] > 1:
        labels = ",".join(map(str, shape[:-1]))
        written = f"labels, whole numbers of shape [{labels}], or {written}"
    return UsageError(
        "input-010",
        f'what is expected of output "{name}" cannot be compared: {what}',
        where=f'y, output "{name}"',
        why=f"this output has {','.join(map(str, shape[axes:]))} elements for each sample"
        if len(shape) > axes
        else "this output has one element for each sample",
        help=f"pass {written}",
    )
