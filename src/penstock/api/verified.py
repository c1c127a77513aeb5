"""`verify` and `golden`: comparison with the reference, with ground truth and between backends."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np

from penstock import ladder
from penstock.api.arguments import (
    HOPS,
    LAST_RUNGS,
    check_compiler,
    check_count,
    check_flags,
    check_last_rung,
    check_reference,
    check_type,
    ignore_stage,
)
from penstock.api.arrays import drawn_hops, drawn_sets, drawn_steps, input_types, sequence_steps
from penstock.api.compiled import Compiled, compile
from penstock.api.compiling import model_file
from penstock.api.keywords import with_settings
from penstock.api.layer import cut_layer
from penstock.api.reported import Reported
from penstock.api.requested import Model, check_is_model, request
from penstock.api.settings import Settings
from penstock.backends.accelerator import AcceleratorTarget
from penstock.backends.contributions import RUNGS, FileRunner, contribution
from penstock.brief import shortened
from penstock.errors import MismatchError, ModelError, PenstockError, ToolError, UsageError
from penstock.execution import elements
from penstock.frontends.open import model_bytes, model_of
from penstock.frontends.other_formats import looks_like_onnx
from penstock.frontends.reading import Reading
from penstock.frontends.tflite import decode as decode_tflite
from penstock.frontends.tflite import looks_like_tflite
from penstock.frontends.variables import Feedback, feedbacks
from penstock.frozen import frozen
from penstock.ground_truth import golden_inputs, golden_outputs, golden_reals
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.hops import Hops
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.graphs import read, read_request
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.reports.phrases import totals
from penstock.reports.report import NodeReport, RungReport
from penstock.reports.steps import is_offloaded
from penstock.simulators.compare import Difference, JudgedTensor, Judgement, compare_sets
from penstock.simulators.cores import require_tools
from penstock.simulators.drawn_inputs import KINDS
from penstock.simulators.goldens import (
    Goldens,
    Replaced,
    make_goldens,
    read_goldens,
    sequence_length,
    unrolled,
    write_goldens,
)
from penstock.simulators.graph import run_graph, run_sequences
from penstock.simulators.tflite_deviations import Deviating, deviating_nodes
from penstock.simulators.tflite_micro import require_tflite_micro
from penstock.workers import Workers, executor_of

if TYPE_CHECKING:
    from penstock.simulators.onnx_reference import OnnxReference

DRAWN_SETS = 2  # Sets of random inputs that `verify` draws without an archive of goldens.

GOLDENS_MISFIT = "golden-010"  # The code of the error that goldens do not fit the model.
# By whether the reference itself differs from the goldens.
_MISMATCH_HELP = {
    True: "if the goldens belong to this model and are unaltered, please report this with both "
    "files",
    False: "this is a mistake in penstock; please report it with the model",
}
# For tensors that an accelerator computes, by whether generated C ran.
_OFFLOADED_HELP = {
    False: "{engine} computes this tensor: compare what kernel {kernel} hands its driver's "
    "functions, and what their functional models do, with the operators' arithmetic",
    True: "{engine} computes this tensor, and its functional models are correct: compare the "
    "driver's C, or its stub, with them, and the calls that kernel {kernel} makes",
}


@frozen(repr=False)
class Verified(Reported):
    """The result of a verification.

    report: the report, with the number of mismatches on each rung.
    compiled: the compiled model.
    rungs: the comparison on each rung of the ladder, lowest first."""

    compiled: Compiled
    rungs: tuple[ladder.Rung, ...]

    def __repr__(self) -> str:
        found = ", ".join(
            f"{r.step}: {r.note if r.mismatches is None else f'{r.mismatches} mismatches'}"
            for r in self.rungs
        )
        return shortened(f"Verified({found}; {totals(self.report)})")

    def mismatch(self) -> MismatchError | None:
        """The first difference on the lowest rung that has one, as an error; None if all agree."""
        for rung in self.rungs:
            first = rung.comparison and rung.comparison.first
            if first is None:
                continue
            if rung.judgement is not None and rung.judgement.failure is not None:
                return _node_mismatch(rung.judgement, rung.judgement.failure)
            if rung.step == "end to end":
                return _altered_goldens(first)
            return MismatchError(
                "verify-001",
                f"{rung.mismatches} mismatches on rung {rung.step}",
                where=_origin(self.compiled.compilation.model, first.tensor),
                why=str(first),
                help=self._help(rung.step, first.tensor),
            )
        return None

    def error(self) -> PenstockError | None:
        """`mismatch()` or, without one, the error of the lowest rung that exceeded a limit."""
        return self.mismatch() or next((r.error for r in self.rungs if r.error is not None), None)

    def _help(self, step: str, tensor: str) -> str:
        parts = {part.name: part for part in self.compiled.compilation.parts.parts}
        part = parts.get(tensor)
        if step == "reference" or part is None or not is_offloaded(part):
            return _MISMATCH_HELP[step == "reference"]
        return _OFFLOADED_HELP[step in ladder.C_STEPS].format(
            engine=part.engine, kernel=part.kernel.name
        )

    @property
    def vanished(self) -> tuple[str, ...]:
        """Tensors of the model that the compiled graph does not compute."""
        return ladder.vanished(self.compiled.compilation)

    @property
    def converted(self) -> tuple[str, ...]:
        """Inputs and outputs of the model that the caller converts (`--io quantized`)."""
        return ladder.converted(self.compiled.compilation)

    @property
    def added(self) -> tuple[str, ...]:
        """Tensors that passes added; only the tensors computed from them are compared."""
        return ladder.added(self.compiled.compilation)

    @property
    def in_regions(self) -> tuple[str, ...]:
        """Tensors inside region calls; only the tensors computed from them are compared."""
        return tuple(sorted(ladder.in_regions(self.compiled.compilation)))

    @property
    def passed(self) -> bool:
        """Whether no rung failed; rungs that were not run have not."""
        return self.error() is None


@with_settings
def verify(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    goldens: str | Path | None = None,
    *,
    reference: Literal["tflite", "onnx"] | None = None,
    layer: str | None = None,
    every_point: bool = False,
    compiler: str = "zig",
    last_rung: str = "core",
    separate_regions: bool = False,
    hops: int = HOPS,
    workers: Workers = 1,
    on_stage: OnStage = ignore_stage,
    **settings: Unpack[Settings],
) -> Verified:
    """Run the verification ladder for a model, see `penstock.ladder`.

    goldens: an archive of ground truth for the reference.
        Those of an ONNX model are inputs and outputs of onnxruntime, and imply `reference="onnx"`.
    reference: "tflite" takes ground truth from TensorFlow Lite Micro; "onnx" compares each operator
        with onnxruntime, within one quantisation step.  By default, random inputs have no ground
        truth beyond the operators' own arithmetic.
    layer: the name of a layer to verify by itself, with the inputs that it has in the network.
    every_point: run all points of the frontier on the machine, with the first set of inputs.
    compiler: "zig" or "gcc", for the program of the simulated core.
    last_rung: the rung at which to end: "reference" (needs ground truth), "machine", "host", "core"
        or one that an accelerator's package contributes, on which software of its vendor runs.
    separate_regions: run each call of a compiler region, or of a stream of several calls, by
        itself, and compare all tensors on every rung.
    hops: runs of an incremental network, without ground truth.
    workers: number of processes, or an executor; the result does not depend on it.
    on_stage: called with the name of each stage when it begins.

    Raises as `run`."""
    check_reference(reference)
    check_flags("verify", every_point=every_point, separate_regions=separate_regions)
    check_count("verify", "hops", hops, 1)
    check_compiler(compiler)
    check_last_rung(last_rung)
    wanted = request(model, target, **settings)
    cut = None if layer is None else cut_layer(wanted, layer, DRAWN_SETS)
    if cut is not None:
        wanted = cut.request
        if goldens is not None or reference is not None:
            raise _layer_alone(wanted)
    if separate_regions:
        apart = tuple(a.with_separate_calls for a in wanted.accelerators)
        wanted = replace(wanted, accelerators=apart)
    if wanted.graph is not None and reference is not None:
        raise _no_model_file(wanted.graph, reference)
    by_node = reference == "onnx" or (goldens is not None and _is_onnx(wanted))
    vendors = _vendor_rung(wanted, last_rung)
    last = last_rung if vendors is None else LAST_RUNGS[-1]
    _require_tools(wanted, goldens, reference, last, compiler)
    if by_node:
        _check_onnx_reference(wanted)
    with executor_of(workers) as executor:
        compiled = compile(wanted, workers=executor or 1, on_stage=on_stage)
        done = compiled.compilation
        against = _hops(done)
        original = done.model if against is None else against.window
        deviating = _deviating(wanted, original) if goldens or reference == "tflite" else ()
        truth = _truth(done.request, original, goldens, reference, deviating, on_stage)
        judge = onnx_reference(wanted) if by_node else None
        sets, steps = drawn_sets(done, DRAWN_SETS), drawn_steps(done.model)
        if cut is not None:
            sets, steps = cut.sets, 1
        if against is not None:
            sets, steps = drawn_hops(done, hops), hops
        if truth is not None:
            steps = sequence_length(truth)
            truth = unrolled(truth)
            with _located(goldens):
                sets = golden_inputs(original, truth)
            sets, steps = (sets, steps) if against is None else against.fed(sets)
        judged = judge and partial(_judged, judge, original, truth)
        climbing = ladder.climb(
            done,
            ladder.Truth(truth, judged, deviating, goldens is not None, against),
            sets,
            on_stage,
            steps=steps,
            every_point=every_point,
            tools=ladder.Tools(compiler, executor),
        )
        with _located(goldens):
            rungs = tuple(_until(last, every_point, climbing))
        if vendors is not None:
            on_stage(last_rung)
            rungs = (*rungs, vendors.compared(compiled, sets, steps))
    verified = tuple(map(_rung_report, rungs))
    return Verified(replace(compiled.report, verified=verified), compiled, rungs)


def _judged(
    reference: OnnxReference,
    model: Graph,
    truth: Goldens | None,
    results: Sequence[Mapping[str, Array]],
) -> Judgement:
    """The results judged by onnxruntime, on the real numbers of the archive if there is one."""
    if truth is None:
        return reference.judge(results)
    return reference.judge(results, golden_reals(model, truth), golden_outputs(model, truth))


def _rung_report(rung: ladder.Rung) -> RungReport:
    found = rung.comparison
    tensors, elements = (0, 0) if found is None else (found.tensors, found.elements)
    nodes = tuple(map(_node_report, rung.judgement.tensors if rung.judgement else ()))
    error = "" if rung.error is None else rung.error.what
    return RungReport(
        rung.step, tensors, elements, rung.mismatches, rung.note, rung.measured, nodes, error
    )


def _node_report(found: JudgedTensor) -> NodeReport:
    return NodeReport(
        found.node,
        found.group,
        found.tensor,
        found.elements,
        found.differing,
        found.steps,
        found.mismatches,
        found.exception,
    )


def _layer_alone(wanted: Request) -> UsageError:
    return UsageError(
        "usage-182",
        "a layer by itself has no ground truth",
        where=wanted.model,
        why="ground truth is that of the whole network; a layer is compared with the arithmetic of "
        "its operator",
        help="omit --layer to compare all layers with ground truth, or omit --goldens and "
        "--reference",
    )


def _no_model_file(graph: Graph, reference: str) -> UsageError:
    return UsageError(
        "usage-062",
        f"the reference runtime {reference} runs model files only",
        where=f"graph {graph.name}",
        why="the graph was built in Python",
        help="omit `reference`: `verify` compares the graph with the arithmetic of its operators",
    )


def _require_tools(
    wanted: Request, goldens: str | Path | None, reference: str | None, last: str, compiler: str
) -> None:
    """Raises ToolError if a tool of a rung is missing, UsageError if there is no ground truth."""
    if wanted.reading.float16 and (goldens is not None or reference is not None):
        raise UsageError(
            "usage-215",
            "ground truth is that of the model file, whose real numbers are not float16",
            where=wanted.model,
            why="--float16 changes the network; the arithmetic of its operators is the reference",
            help="omit --float16, or omit --goldens and --reference",
        )
    if goldens is None and reference == "tflite":
        require_tflite_micro()
    if not all(map(ladder.has_c, wanted.accelerators)):
        return  # which rungs run depends on the accelerators that the network uses
    if last in ("host", "core"):
        require_tools(wanted.target, compiler, host=True)
    if last == "core" and wanted.target.core is not None:
        require_tools(wanted.target, compiler)


@frozen
class _VendorRung:
    """A rung that an accelerator's package contributes, for an accelerator of a request."""

    name: str
    runner: FileRunner
    target: AcceleratorTarget

    def compared(
        self, compiled: Compiled, sets: Sequence[Mapping[str, Array]], steps: int
    ) -> ladder.Rung:
        """Run the network's file in the vendor's software, and compare its outputs."""
        done = compiled.compilation
        _, file = compiled.file(self.runner.format)
        original = model_file(done).tflite or done.model
        ends = ((original.inputs, done.model.inputs), (original.outputs, done.model.outputs))
        if any([v.dtype for v in one] != [v.dtype for v in two] for one, two in ends):
            note = "not run: inputs or outputs of the file have other element types; use --io model"
            return ladder.Rung(self.name, None, note)
        if steps > 1 or done.model.states:
            return ladder.Rung(self.name, None, "not run: the network has states")
        names = [value.name for value in done.model.outputs]
        size = sum(value.type.size_bytes for value in done.model.outputs)
        found: list[dict[str, Array]] = []
        for inputs in sets:
            given = (np.ascontiguousarray(inputs[v.name]).tobytes() for v in done.model.inputs)
            raw, at = self.runner.run(file, b"".join(given), size, self.target), 0
            found.append({})
            for value in done.model.outputs:
                found[-1][value.name] = elements(raw, value.type, at)
                at += value.type.size_bytes
        expected = [run_graph(done.model, inputs) for inputs in sets]
        return ladder.Rung(self.name, compare_sets(names, found, expected), self.runner.outputs)


def _vendor_rung(wanted: Request, name: str) -> _VendorRung | None:
    """The contributed rung of a name; None if the core has it.  Raises UsageError if it cannot run
    the request, ToolError if it needs what is not installed."""
    if name in LAST_RUNGS:
        return None
    found = contribution(RUNGS, name)
    runner = found.load(FileRunner)
    every = (a.target for a in wanted.accelerators if a.name in found.accelerators)
    target = next(every, None)
    if target is None:
        raise UsageError(
            "usage-184",
            f"the rung {name} runs {runner.networks} only",
            where="--last-rung",
            why="no accelerator of the request has software of its vendor that runs files",
            help=f"select an NPU, such as by --accelerator {found.accelerators[0]}",
        )
    runner.require()
    return _VendorRung(name, runner, target)


@contextmanager
def _located(goldens: str | Path | None) -> Generator[None]:
    try:
        yield
    except ModelError as error:
        if goldens is None or error.code != GOLDENS_MISFIT:
            raise
        raise error.at(str(goldens)) from error


def _hops(done: Compilation) -> Hops | None:
    """What an incremental network is compared with; reads the model file again.  None for other
    networks."""
    reading = done.request.reading
    if reading.incremental is None:
        return None
    whole = replace(reading, incremental=None)
    window = read_request(replace(done.request, reading=whole))
    return Hops(window, done.model)


def _until(last: str, every_point: bool, climbing: Iterator[ladder.Rung]) -> Iterator[ladder.Rung]:
    """The rungs up to one; without ground truth, there is none before the machine."""
    # With `every_point`, the machine runs all points on a further rung, `points`.
    ends = LAST_RUNGS.index(last)
    for rung in climbing:
        yield rung
        follows = every_point and rung.step == "machine"
        at = {"points": "machine", "end to end": "reference"}.get(rung.step, rung.step)
        if not follows and at in LAST_RUNGS and LAST_RUNGS.index(at) >= ends:
            return


def golden(model: Model, output: str | Path, *, states: Mapping[str, str] | None = None) -> Goldens:
    """Write ground truth from TensorFlow Lite Micro to an archive; with state, that of sequences.

    output: the archive to write (.npz).
    states: by the name of an input that is a state, the output with its new elements.

    Raises ModelError, UsageError, ToolError, OutputError."""
    check_is_model(model)
    check_type("states", states, Mapping[str, str] | None, "golden")
    if isinstance(model, Graph):
        raise _no_model_file(model, "tflite")
    reading = Reading(states=tuple((states or {}).items()))
    found = _made_goldens(read(str(model), reading), str(model), reading)
    write_goldens(found, Path(output))
    return found


def onnx_reference(wanted: Request) -> OnnxReference:
    """onnxruntime, to judge an ONNX model node by node.

    Raises UsageError if the model is not ONNX, or is a float model taken as int8; ToolError if
    onnxruntime is missing or does not take it.  Imports the modules that depend on the package
    `onnx` only when called, since that takes long."""
    import onnx

    from penstock.frontends.onnx.file import decode, load_all, with_batch_of_one
    from penstock.frontends.onnx.importer import import_onnx
    from penstock.frontends.onnx.post_training import quantised
    from penstock.simulators.onnx_reference import OnnxReference

    _check_onnx_reference(wanted)
    path = Path(wanted.model)
    raw, reading = model_of(path, wanted.reading)
    file = decode(raw, path.name, path.parent)
    reading = with_batch_of_one(reading, file)
    raw, file = quantised(raw, file, reading, path.parent)
    model = onnx.ModelProto.FromString(raw)
    load_all(model, path.name, path.parent)
    imported = import_onnx(file, reading)
    return OnnxReference(model, file, imported)


def _check_onnx_reference(wanted: Request) -> None:
    """Raises UsageError if onnxruntime cannot judge the model, ToolError if it is missing."""
    from penstock.frontends.onnx.post_training import require_onnxruntime

    if wanted.reading.assume_int8 or not _is_onnx(wanted):
        raise UsageError(
            "usage-033",
            "onnxruntime judges quantised ONNX models only",
            where=wanted.model,
            help="omit --reference and --goldens, or use a quantised .onnx file without "
            "--assume-int8",
        )
    require_onnxruntime("it judges ONNX models node by node")


def _is_onnx(wanted: Request) -> bool:
    if wanted.graph is not None or wanted.model.startswith("zoo:"):
        return False
    path = Path(wanted.model)
    return looks_like_onnx(model_bytes(path, wanted.reading), path.name)


def _node_mismatch(judged: Judgement, failure: JudgedTensor) -> MismatchError:
    differ = f"{failure.mismatches} of {failure.elements} elements differ from {judged.reference}"
    nodes = f"; computed by {', '.join(failure.group)}" if len(failure.group) > 1 else ""
    return MismatchError(
        "verify-002",
        f"on equal inputs, {differ}, by up to {failure.steps} steps",
        where=failure.node,
        why=f"{failure.first}{nodes}",
        help=_MISMATCH_HELP[False],
    )


def _altered_goldens(first: Difference) -> MismatchError:
    return MismatchError(
        "verify-003",
        "the goldens are not what onnxruntime computes from their inputs",
        where=f'output "{first.tensor}"',
        why=f"{first}; every node is within its steps, which do not explain that",
        help="use the goldens of this model, and record them again with onnxruntime, without graph "
        "optimisations",
    )


def _origin(graph: Graph, tensor: str) -> str:
    """The node of the model file that computes a tensor; else the tensor itself."""
    origins = (node.origin for node in graph.nodes if node.name == tensor)
    return next(origins, "") or f'{graph.name}: tensor "{tensor}"'


def _truth(
    wanted: Request,
    model: Graph,
    goldens: str | Path | None,
    reference: str | None,
    deviating: Sequence[Deviating],
    on_stage: OnStage,
) -> Goldens | None:
    """Ground truth from an archive or from TensorFlow Lite Micro, if either was asked for."""
    # TensorFlow Lite Micro does not run nodes that deviate as documented: it takes penstock's
    # elements of their outputs, which the documented arithmetic judges.
    if goldens is not None:
        return read_goldens(Path(goldens), wanted.reading.size_limit_bytes)
    if reference != "tflite":
        return None
    on_stage("tflite")
    return _made_goldens(model, wanted.model, wanted.reading, DRAWN_SETS, deviating)


def _deviating(wanted: Request, model: Graph) -> tuple[Deviating, ...]:
    """The nodes of a TFLite model on which TensorFlow Lite Micro deviates as documented."""
    if wanted.graph is not None or wanted.model.startswith("zoo:") or _is_onnx(wanted):
        return ()
    path = Path(wanted.model)
    raw = model_bytes(path, wanted.reading)
    if not looks_like_tflite(raw):
        return ()
    known = {value.name for value in model.variables()}
    return deviating_nodes(decode_tflite(raw, path.name), known)


def _replaced(model: Graph, deviating: Sequence[Deviating]) -> Replaced | None:
    if not deviating:
        return None
    names = [value.name for value in model.inputs]
    outputs = [one.node.y.name for one in deviating]

    def of_set(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        if not model.states:
            found = run_graph(model, dict(zip(names, arrays, strict=True)))
            return tuple(found[name] for name in outputs)
        runs = [dict(zip(names, now, strict=True)) for now in zip(*arrays, strict=True)]
        every = run_sequences(model, runs, len(runs))
        return tuple(np.stack([found[name] for found in every]) for name in outputs)

    return Replaced(
        tuple(one.index for one in deviating), lambda sets: [of_set(arrays) for arrays in sets]
    )


def _made_goldens(
    graph: Graph,
    model: str,
    reading: Reading,
    set_count: int = len(KINDS),
    deviating: Sequence[Deviating] = (),
) -> Goldens:
    raw, types = _file_bytes(model, reading), input_types(graph.inputs)
    _check_dequantised(raw, model)
    found = make_goldens(
        raw,
        types,
        graph.name,
        set_count,
        sequence_steps(graph),
        _feedbacks(model, reading),
        _replaced(graph, deviating),
    )
    computed = dict(found.sets[0].tensors)
    for value in graph.variables():
        if value.origin in computed and computed[value.origin].size != value.elements:
            raise ToolError(
                "tool-041",
                f"TensorFlow Lite Micro computes {computed[value.origin].size} elements of "
                f'"{value.name}", must be {value.elements}',
                where=model,
                why="the file leaves its batch open and states shapes that are not those of one "
                "sample; TensorFlow Lite Micro takes them as they are",
                help="convert the model with a batch of one, or verify without --reference",
            )
    return found


def _check_dequantised(raw: bytes, model: str) -> None:
    """Raises ToolError if TensorFlow Lite Micro does not dequantise weights as they are meant."""
    for node in decode_tflite(raw, Path(model).name).nodes:
        quantisation = node.x.quantisation if node.name == "DEQUANTIZE" else None
        if quantisation is not None and len(quantisation.scales) > 1:
            raise ToolError(
                "tool-041",
                "TensorFlow Lite Micro dequantises all channels by the scale of the first one",
                where=node.where,
                why="the weights have a scale for each channel",
                help="verify without --reference; TensorFlow takes the scale of each channel",
            )


def _feedbacks(model: str, reading: Reading) -> tuple[Feedback, ...]:
    """The explicit states of a model file; reads the file again if there are any."""
    if not reading.states:
        return ()
    return feedbacks(read(model, replace(reading, states=())), reading)


def _file_bytes(model: str, reading: Reading) -> bytes:
    """The contents of a TFLite file, unpacked.  Raises UsageError for other models."""
    is_zoo = model.startswith("zoo:")
    raw = b"" if is_zoo else model_bytes(Path(model), reading)
    if not looks_like_tflite(raw):
        reference = "without --reference" if is_zoo else "with --reference onnx"
        raise UsageError(
            "usage-010",
            "TensorFlow Lite Micro runs .tflite files only",
            where=model,
            help=f"use a .tflite file, or `penstock verify` {reference}",
        )
    return raw
