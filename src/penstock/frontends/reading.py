"""Reading: options for the import of a model file."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.limits import DEFAULT_SIZE_LIMIT_BYTES
from penstock.setting import (
    CONSTANTS,
    COUNT,
    EXTENTS,
    FILE,
    FLAG,
    INTEGERS,
    MODEL,
    READING,
    SIZE,
    STATES,
    TEXTS,
    Setting,
    declared,
)

# Names in model files, made safe for terminals and C comments.


MOST_NAME = 1000  # Names are truncated to this many characters.


def printable(text: bytes | str | None) -> str:
    """The name with control characters replaced by "?", truncated to `MOST_NAME` characters."""
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
    return "".join(c if c.isprintable() else "?" for c in decoded[:MOST_NAME])


@frozen(kw_only=True)
class Reading:
    """How to interpret a model file.

    assume_int8: import a floating-point model as if it were quantised, with arbitrary scales.
        Shapes and costs are right; results are meaningless.
    calibration: archive of samples with which to quantise a floating-point model, see
        `frontends.onnx.post_training` and `frontends.frameworks`.
    size_limit_bytes: memory that reading the model, or an archive, may take, see `allowance`.
    dimensions: (name, extent) of symbolic dimensions.
    channels_last: names of inputs of an ONNX model that the caller supplies as (N, H, W, C),
        where the file has (N, C, H, W).
    constants: (input, file) pairs: the input of an ONNX model is a constant, whose elements the
        .npy file holds.
    integers: (input, element type) pairs: the integers that an input of a network of Deeploy's
        dialect holds, whose tensors the file declares as real numbers; int8 if not stated.
    states: (input, output) pairs by name: the input is a state, whose new elements are the
        output, see `frontends.explicit_states`.
    incremental: frames that the network consumes per run, see `passes.incremental`; None: all of
        its window.
    float16: store real numbers in float16, see `passes.half_precision`.
    free_layout: inputs and outputs of an ONNX model may have their channels last, where that saves
        a transposition: it was made of a file whose users never see it.
    same_interface: refuse an ONNX model whose inputs or outputs would have other element types
        than in the file.
    """

    assume_int8: bool = declared(
        False,
        Setting(
            FLAG,
            "Treat a float ONNX model as int8, with arbitrary scales; for estimates only, since "
            "the outputs are meaningless (see --quantise).",
            "treat a float ONNX model as int8 with arbitrary scales; for estimates only",
            group=MODEL,
            commands=READING,
        ),
    )
    calibration: Path | None = declared(
        None,
        Setting(
            FILE,
            "Quantise a float ONNX, Keras or PyTorch model to int8, with representative inputs: an "
            "array per input, whose first axis is the sample.",
            "quantise a float ONNX, Keras or PyTorch model to int8, with the samples in this .npz "
            "archive: an array per input, whose first axis is the sample",
            name="quantise",
            group=MODEL,
            metavar="FILE.npz",
            commands=READING,
        ),
    )
    size_limit_bytes: int = declared(
        DEFAULT_SIZE_LIMIT_BYTES,
        Setting(
            SIZE,
            "Memory that reading the model, or an archive of arrays, may take: a limit for files "
            "of strangers, which may ask for more memory than there is.",
            "memory that reading the model, or an archive of arrays, may take: a limit for files "
            "that ask for more than there is",
            name="size_limit",
            group=MODEL,
            commands=READING,
        ),
    )
    dimensions: tuple[tuple[str, int], ...] = declared(
        (),
        Setting(
            EXTENTS,
            "Value of a dynamic dimension of the model; repeatable.",
            "values of dynamic dimensions of the model, by name",
            option="dimension",
            group=MODEL,
            commands=READING,
            example='{"batch": 1}',
        ),
    )
    channels_last: tuple[str, ...] = declared(
        (),
        Setting(
            TEXTS,
            "Supply INPUT of an ONNX model with its channels last (N x H x W x C), where the file "
            "has N x C x H x W; a streamed row is then a row of the image; repeatable.",
            "names of inputs of an ONNX model that the caller supplies with their channels last",
            group=MODEL,
            metavar="INPUT",
            commands=READING,
            example='["image"]',
        ),
    )
    constants: tuple[tuple[str, Path], ...] = declared(
        (),
        Setting(
            CONSTANTS,
            "Make input NAME of an ONNX model a constant, whose elements an .npy file holds, such "
            "as a shape or axes; repeatable.",
            "by the name of an input of an ONNX model that becomes a constant, the .npy file with "
            "its elements",
            option="constant",
            group=MODEL,
            commands=READING,
            example='{"axes": "axes.npy"}',
        ),
    )
    integers: tuple[tuple[str, str], ...] = declared(
        (),
        Setting(
            INTEGERS,
            "Element type of INPUT of a network of Deeploy's dialect, whose integers the file "
            "declares as float32: int8 (by default), uint8 or int32; repeatable.",
            "by the name of an input of a network of Deeploy's dialect, the element type of its "
            "integers",
            group=MODEL,
            commands=READING,
            example='{"image": "uint8"}',
        ),
    )
    states: tuple[tuple[str, str], ...] = declared(
        (),
        Setting(
            STATES,
            "Make INPUT a state: in each run, it contains the elements of OUTPUT of the previous "
            "run; in the first run, it represents 0; repeatable.",
            "by the name of an input that is a state, the output with its new elements",
            option="state",
            group=MODEL,
            commands=(*READING, "golden"),
            example='{"state_in": "state_out"}',
        ),
    )
    incremental: int | None = declared(
        None,
        Setting(
            COUNT,
            "For a network whose input is a window of frames, along the first axis after the "
            "batch: consume only HOP new frames per run, and keep the results of earlier runs that "
            "later runs need.  Before the first run, all frames are 0.",
            "number of new frames that a network with a window of frames consumes per run",
            group=MODEL,
            metavar="HOP",
            commands=READING,
        ),
    )
    float16: bool = declared(
        False,
        Setting(
            FLAG,
            "Store real numbers in float16: round the results and constants of float32 layers, "
            "which still add in float32.  Outputs differ from those of the model file.",
            "store the real numbers of a float model in float16; outputs differ from the file's",
            group=MODEL,
            commands=READING,
        ),
    )
    free_layout: bool = False
    same_interface: bool = False


def refused_calibration(model: str, why: str) -> UsageError:
    """The error that a model cannot be quantised."""
    return UsageError(
        "usage-145",
        "--quantise takes float ONNX, Keras and PyTorch models only",
        where=model,
        why=why,
        help="leave --quantise out",
    )


AS_IT_IS = Reading()
