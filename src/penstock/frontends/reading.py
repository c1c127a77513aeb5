"""Reading: options for the import of a model file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.allowance import DEFAULT_SIZE_LIMIT_BYTES
from penstock.errors import UsageError


@dataclass(frozen=True, slots=True)
class Reading:
    """`assume_int8`: import a floating-point model as if it were quantised, with arbitrary scales.
        Shapes and costs are right; results are meaningless.
    `dimensions`: (name, extent) of symbolic dimensions.
    `states`: (input, output) pairs by name: the input is a state, whose new elements are the
        output, see `frontends.explicit_states`.
    `incremental`: frames that the network consumes per run, see `passes.incremental`; None: all of
        its window.
    `same_interface`: refuse an ONNX model whose inputs or outputs would have other element types
        than in the file.
    `channels_last`: names of inputs of an ONNX model that the caller supplies as (N, H, W, C),
        where the file has (N, C, H, W).
    `calibration`: archive of samples with which to quantise a floating-point ONNX model, see
        `frontends.onnx.post_training`.
    `size_limit_bytes`: memory that reading the model, or an archive, may take, see `allowance`."""

    assume_int8: bool = False
    dimensions: tuple[tuple[str, int], ...] = ()
    states: tuple[tuple[str, str], ...] = ()
    incremental: int | None = None
    same_interface: bool = False
    calibration: Path | None = None
    channels_last: tuple[str, ...] = ()
    size_limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES


def refused_calibration(model: str, why: str) -> UsageError:
    """The error that a model cannot be quantised."""
    return UsageError(
        "usage-145",
        "--quantise takes float ONNX models only",
        where=model,
        why=why,
        help="leave --quantise out",
    )


AS_IT_IS = Reading()
