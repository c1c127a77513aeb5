"""uint8 models: drawn int8 models as TensorFlow 1 would have quantised them, judged by TensorFlow.

    python -m benchmarks.operators.unsigned [--family NAME ...] [--count N] [--write FILE.npz]

Every int8 tensor of a drawn model becomes uint8; weights get a random zero point and one scale.
TensorFlow Lite Micro has no kernels for them: the judge are TensorFlow's reference kernels.
TensorFlow from 2.20 on (extra `torture`) rounds fully connected layers otherwise; 2.19 judges all
families. Prints what came of the models of each family; `--write` records those on which both
agree, with inputs and TensorFlow's outputs, for tests on machines without TensorFlow.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.entry import entry
from benchmarks.operators.drawing import Array, Drawing, Drawn
from benchmarks.operators.families import FAMILIES, draw
from benchmarks.operators.judging import evaluated, first_difference, ulps_of
from benchmarks.torture.tflite_judge import by_tensorflow
from penstock.errors import PenstockError
from tools.tflite_writer import OperatorSpec, TensorSpec

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
COUNT = 20
RECORDED = 2  # Models of a family that are recorded.


def as_unsigned(drawn: Drawn, seed: int) -> Drawn:
    """The model with uint8 in place of int8."""
    rng = np.random.default_rng(seed)
    weights = {op.inputs[1] for op in drawn.operators if op.name in LAYERS}
    biases = {op.inputs[-1] for op in drawn.operators if op.name in LAYERS and len(op.inputs) > 2}
    tensors = [
        _unsigned_weights(t, rng) if k in weights and t.data is not None else _unsigned(t)
        for k, t in enumerate(drawn.tensors)
    ]
    for k in biases:
        if k >= 0 and len(tensors[k].scales) > 1:
            tensors[k] = replace(tensors[k], scales=tensors[k].scales[:1], zero_points=(0,))
    values = tuple(_shifted(x) if x.dtype == np.int8 else x for x in drawn.values)
    return replace(drawn, tensors=tuple(tensors), values=values)


def _shifted(elements: Array) -> Array:
    return elements.view(np.uint8) ^ np.uint8(128)


def _unsigned(spec: TensorSpec) -> TensorSpec:
    if spec.dtype != "int8" or not spec.scales:
        return spec
    zeros = tuple(zero + 128 for zero in spec.zero_points)
    data = None if spec.data is None else _shifted(spec.data)
    return replace(spec, dtype="uint8", zero_points=zeros, data=data)


def _unsigned_weights(spec: TensorSpec, rng: np.random.Generator) -> TensorSpec:
    """Weights with a zero point such that some, or all, differ from it by more than int8 holds."""
    assert spec.data is not None
    zero = int(rng.choice((0, 128, 255, *rng.integers(0, 256, 3), *rng.integers(100, 156, 3))))
    data = np.clip(spec.data.astype(np.int64) + zero, 0, 255).astype(np.uint8)
    return replace(
        spec,
        dtype="uint8",
        scales=spec.scales[:1],
        zero_points=(zero,),
        quantized_dimension=0,
        data=data,
    )


def judged(drawn: Drawn) -> tuple[str, tuple[Array, ...]]:
    """What came of a model, and TensorFlow's outputs where both agree."""
    try:
        found = evaluated(drawn)
    except PenstockError as error:
        refused = by_tensorflow(drawn.tflite(), drawn.values) is None
        return f"{'both refuse' if refused else 'refused'}: {error.what}", ()
    answer = by_tensorflow(drawn.tflite(), drawn.values)
    if answer is None:
        return "TensorFlow refuses", ()
    if drawn.operator.name == DETECTIONS:  # what follows the last one is undefined
        boxes, classes, scores, (count,) = answer
        for output in (boxes, classes, scores):
            output[:, int(count) :] = 0
    difference = first_difference(found, answer, ulps=ulps_of(drawn))
    return (f"MISMATCH: {difference}", ()) if difference else ("agrees", answer)


DETECTIONS = "CUSTOM:TFLite_Detection_PostProcess"


UNSIGNED_FAMILIES = (*FAMILIES, DETECTIONS)


def detections(number: int) -> Drawn:
    """Detections of random boxes; many have equal scores, and overlap."""
    d = Drawing(np.random.default_rng(number))
    boxes, classes, most = d.integer(5, 60), d.integer(1, 6), d.integer(1, 15)
    codes = TensorSpec("codes", (1, boxes, 4), "uint8", (d.integer(10, 80) / 1000,), (130,))
    columns, step = classes + d.integer(0, 1), d.choose(1 / 256, 0.0123)
    scores = TensorSpec("scores", (1, boxes, columns), "uint8", (step,), (0,))
    sizes = d.rng.integers(20, 250, (boxes, 4)).astype(np.uint8)
    anchors = TensorSpec("anchors", (boxes, 4), "uint8", (0.004,), (0,), data=sizes)
    shapes = ((1, most, 4), (1, most), (1, most), (1,))
    outputs = [TensorSpec(f"y{k}", shape, "float32") for k, shape in enumerate(shapes)]
    options = {
        "max_detections": most,
        "max_classes_per_detection": 1,
        "num_classes": classes,
        "use_regular_nms": False,
        "nms_score_threshold": d.choose(-1.0, 0.25, 0.5),
        "nms_iou_threshold": d.choose(0.25, 0.5, 0.75),
        "y_scale": 10.0,
        "x_scale": d.choose(10.0, 9.0),
        "h_scale": 5.0,
        "w_scale": d.choose(5.0, 4.0),
    }
    elements = d.rng.integers(0, 256, codes.shape), d.rng.integers(100, 256, scores.shape)
    return Drawn(
        (codes, scores, anchors, *outputs),
        (OperatorSpec(DETECTIONS, (0, 1, 2), (3, 4, 5, 6), options),),
        (0, 1),
        (3, 4, 5, 6),
        tuple(array.astype(np.uint8) for array in elements),
    )


def models(family: str, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Models of a family that have uint8 tensors, and whose results TensorFlow defines."""
    if family == DETECTIONS:
        yield from map(detections, range(seed * count, (seed + 1) * count))
        return
    for number in range(count):
        drawn = as_unsigned(draw(family, seed, number), number)
        if any(spec.dtype == "uint8" for spec in drawn.tensors) and _is_defined(drawn):
            yield drawn


def _is_defined(drawn: Drawn) -> bool:
    """Whether the reference shifts no number by a negative count, and converts no clamp to int32
    that exceeds it."""
    operator = drawn.operator
    y = drawn.tensors[operator.outputs[0]]
    if operator.name in ("ADD", "SUB"):
        largest = max(drawn.tensors[k].scales[0] for k in operator.inputs)
        return 2 * largest < y.scales[0] * 2**20
    fused = operator.options.get("fused_activation_function", "NONE")
    clamps = fused != "NONE" or operator.name.startswith("RELU")
    return not clamps or not y.scales or 6 / y.scales[0] < 2**31


def main(arguments: Sequence[str]) -> int:
    """Judges models of each family, and records some."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operators.unsigned", description=__doc__
    )
    parser.add_argument(
        "--family", action="append", choices=UNSIGNED_FAMILIES, help="only this one"
    )
    parser.add_argument("--count", type=int, default=COUNT, help="models of each family")
    parser.add_argument("--write", type=Path, help="record models on which both agree")
    wanted = parser.parse_args(arguments)
    recorded: dict[str, Array] = {}
    wrong = 0
    for family in wanted.family or UNSIGNED_FAMILIES:
        outcomes: Counter[str] = Counter()
        for number, drawn in enumerate(models(family, wanted.count)):
            outcome, outputs = judged(drawn)
            outcomes[outcome] += 1
            if "MISMATCH" in outcome:
                wrong += 1
                print(f"  {number}: {drawn.describe()}\n     {outcome}")
            if outputs and outcomes[outcome] <= RECORDED:
                name = f"{family}/{number}"
                recorded[f"{name}/model"] = np.frombuffer(drawn.tflite(), np.uint8)
                recorded |= {f"{name}/in{k}": x for k, x in enumerate(drawn.values)}
                recorded |= {f"{name}/out{k}": y for k, y in enumerate(outputs)}
        for outcome, count in outcomes.most_common():
            print(f"{family}: {count} {outcome}")
    if wanted.write:
        np.savez_compressed(wanted.write, **recorded)  # pyright: ignore[reportArgumentType]
    return int(wrong > 0)


if __name__ == "__main__":
    entry(main)
