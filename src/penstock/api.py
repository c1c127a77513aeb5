"""The Python API: one call a verb, as on the command line.

penstock.compile("kws.tflite", target="cortex-m4", sram="64KiB").write("out/")
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import numpy as np

from penstock import execution, ladder, pipeline
from penstock.accelerators.registry import check_is_target, open_accelerators
from penstock.alternatives import Streamed, alternatives, streamed, streamed_of
from penstock.backends.offload import offload
from penstock.brief import Brief, shortened
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.errors import (
    CapacityError,
    MismatchError,
    ModelError,
    OutputError,
    UsageError,
)
from penstock.exploration import Explored, OnProgress, explore_request
from penstock.fixedpoint import Rounding
from penstock.frontends.onnx.file import decode, looks_like_onnx
from penstock.frontends.open import read_bytes, understand_onnx, unpacked
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.hardware.load import DEFAULT_TARGET, load_target
from penstock.hardware.size import parse_size
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array
from penstock.pipeline import (
    DEFAULT_STACK_BYTES,
    Compilation,
    Request,
    compile_request,
)
from penstock.reports.engine_work import Cycles, NodeLine, is_offloaded
from penstock.reports.goal import totals
from penstock.reports.html import framed, render_html
from penstock.reports.report import (
    Checked,
    Flash,
    Instructions,
    Json,
    Layer,
    Point,
    Report,
    layers,
    make_report,
)
from penstock.reports.resource_figure import resource_svg
from penstock.reports.timeline import Timeline, timelines
from penstock.scheduling.options import Options
from penstock.scheduling.selection import Optimize
from penstock.simulators.counts import Counts
from penstock.simulators.drawn_inputs import InputType, draw_inputs
from penstock.simulators.golden_archive import read_goldens, write_goldens
from penstock.simulators.goldens import Goldens, make_goldens
from penstock.simulators.onnx_reference import Judgement, Seen, judge
from penstock.workers import Workers, executor_of, mapped

Size = int | str
OnStage = Callable[[str], None]
NPY_MARK = b"\x93NUMPY"
DRAWN_SETS = 2
"""Sets of inputs that `verify` draws where it has no goldens."""


_MISMATCH_HELP = {
    True: "if the goldens are this model's and unaltered, please report it with both files",
    False: "this is a mistake in penstock; please report it with the model",
}
_OFFLOADED_HELP = {
    False: "{engine} computes this tensor: compare what kernel {kernel} hands its driver's "
    "functions, and what their functional models do, with the operators' arithmetic",
    True: "{engine} computes this tensor, and its functional models do so rightly: compare the "
    "driver's C, or its stub, with them, and the calls that kernel {kernel} makes",
}
"""By whether C ran: where an accelerator computes what differs."""


def _silent(stage: str) -> None:
    """Progress that nobody watches."""


def _unseen(stage: str, done: int = 0, of: int = 1) -> None:
    """The same."""


@dataclass(frozen=True, slots=True, repr=False)
class Compiled(Brief):
    """A compiled model: its nouns, its report, its files."""

    compilation: Compilation
    report: Report

    def __repr__(self) -> str:
        return shortened(f"Compiled({totals(self.report)})")

    def _repr_html_(self) -> str:
        return framed(self.page(self.report))

    def bundle(self) -> Bundle:
        """The files that `write` writes, reports included."""
        text = json.dumps(self.report.as_json(), indent=2) + "\n"
        return self.compilation.bundle.with_files(
            ("report.json", text.encode()), ("report.html", self.page(self.report))
        )

    def page(self, report: Report, measured: Sequence[Counts | None] = ()) -> bytes:
        """A report as a page; `measured`: what a simulated core counted for each step."""
        request = self.compilation.request
        budget = None if request.sram_bytes is None else request.sram_bytes - request.stack_bytes
        return render_html(report, self.layers, self.timelines, measured or None, budget)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return layers(self.compilation.schedule, self.compilation.program)

    @property
    def offloaded_steps(self) -> frozenset[int]:
        """Numbers of the steps that accelerators run."""
        found = (layer.step for layer in self.layers if layer.offloaded)
        return frozenset(step for step in found if step is not None)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """The arena over one inference, then other memories."""
        return timelines(self.compilation.schedule, self.compilation.program)

    def write(self, folder: str | Path) -> None:
        """Writes the bundle into a new folder.  Raises OutputError."""
        write_bundle(self.bundle(), Path(folder))


class Settings(TypedDict, total=False):
    """What every verb takes beside model and target; sizes as numbers or as "64KiB", accelerators
    as "NAME[:attr=value,...]"; `strict`: an error where they leave a node to the processor;
    `assume_int8` and `dimensions`: see `frontends.reading`."""

    sram: Size | None
    memory: Mapping[str, Size]
    flash: Size | None
    stack: Size
    rounding: Literal["double", "single"]
    optimize: Optimize | Literal["speed", "balanced", "size"] | None
    stream_input: bool
    options: Options
    accelerators: Sequence[str]
    strict: bool
    assume_int8: bool
    dimensions: Mapping[str, int]


def request(
    model: str | Path, target: str = DEFAULT_TARGET, **settings: Unpack[Settings]
) -> Request:
    """What is to be compiled, with sizes and names resolved.

    Raises UsageError, TargetError, BackendError."""
    _check_settings(settings)
    check_is_target(target)
    chip = load_target(target)
    sizes = {name: _bytes(size, "--memory") for name, size in settings.get("memory", {}).items()}
    chip = chip.resized(sizes)
    opened = open_accelerators(settings.get("accelerators", ()), chip)
    accelerators = tuple(one.resized(sizes) for one in opened)
    chip = chip.beside(memory for one in accelerators for memory in one.arenas)
    _check_memories(chip, sizes)
    sram, flash = settings.get("sram"), settings.get("flash")
    wanted = settings.get("optimize")
    goal = None if wanted is None else Optimize.of(wanted)
    if goal is Optimize.SIZE:
        chip = chip.optimised_for("size")
    if goal is None and any(m.budget and m.name in sizes for m in chip.memories_for("arena")):
        goal = Optimize.SPEED  # the size of a memory is a budget, too
    return Request(
        str(model),
        chip,
        None if sram is None else _bytes(sram, "--sram"),
        None if flash is None else _bytes(flash, "--flash"),
        _bytes(settings.get("stack", DEFAULT_STACK_BYTES), "--stack"),
        settings.get("stream_input", False),
        _rounding(settings.get("rounding", "double")),
        settings.get("options", Options()),
        accelerators,
        settings.get("strict", False),
        Reading(settings.get("assume_int8", False), tuple(settings.get("dimensions", {}).items())),
        goal,
    )


def _check_settings(settings: Mapping[str, object]) -> None:
    """Raises UsageError where a setting is not known, as of a word that is spelled wrongly."""
    known = Settings.__annotations__
    for name in settings.keys() - known.keys():
        searching = {field.name for field in dataclasses.fields(Options)}
        near = difflib.get_close_matches(name, known, 1)
        help = f"did you mean {near[0]}? " if near else ""
        if name in searching:
            help = f"it is an option of the search: options=Options({name}=..)"
        raise UsageError(
            "usage-031",
            f'there is no setting "{name}"',
            where="the call",
            why=f"the settings are {', '.join(known)}",
            help=help or "see penstock.api.Settings",
        )


def compile(
    model: str | Path | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_stage: OnStage = _silent,
    **settings: Unpack[Settings],
) -> Compiled:
    """Compiles a model: a file, a zoo network, or a request made before.

    `workers`, of every verb: processes that share the work, or an executor; see `workers`.
    Raises ModelError, TargetError, or CapacityError where it does not fit."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    with executor_of(workers) as executor:
        elsewhere = _streamed_elsewhere(wanted, executor) if executor else None
        done = compile_request(wanted, on_stage, executor)
        with_streaming = next(elsewhere) if elsewhere else streamed(done.graph, wanted)
    report = make_report(
        done.model,
        wanted.target.name,
        done.schedule,
        done.placement,
        done.program,
        done.point.free_bytes,
        wanted.stack_bytes,
        frontier_of(done),
        with_streaming.least_bytes,
    )
    report = dataclasses.replace(
        report,
        numbers_assumed=wanted.reading.assume_int8,
        optimize=wanted.goal.value,
        alternatives=alternatives(done, with_streaming),
    )
    _check_flash(report, wanted)
    return Compiled(done, report)


def _streamed_elsewhere(wanted: Request, executor: Executor) -> Iterator[Streamed]:
    """The plan with a streamed input, made by a worker meanwhile."""
    model = pipeline.read(wanted.model, wanted.reading)
    return mapped(partial(streamed_of, request=wanted), (model,), executor)


def explore(
    model: str | Path | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_progress: OnProgress = _unseen,
    **settings: Unpack[Settings],
) -> Explored:
    """The whole frontier of a model: what there is to choose from.

    Raises ModelError, TargetError; never CapacityError: where nothing fits, nothing is chosen."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    with executor_of(workers) as executor:
        return explore_request(wanted, on_progress, executor)


def nodes(wanted: Request) -> tuple[NodeLine, ...]:
    """The nodes of a network as accelerators are shown them, and who runs each.

    Raises ModelError, BackendError."""
    processor = wanted.target.engines[0].name
    found = pipeline.simplify_for(pipeline.read(wanted.model, wanted.reading), wanted)
    if wanted.accelerators:
        found = offload(found, wanted.accelerators, wanted.target).graph
    return tuple(
        NodeLine(
            node.kind,
            node.output.type.shape,
            node.op.engine if isinstance(node.op, Composite) else processor,
            node.name,
        )
        for node in found.nodes
    )


def frontier_of(done: Compilation) -> tuple[Point, ...]:
    """Every point of the frontier, least memory first."""
    pairs = ((p, p.schedule.cost) for p in done.points)
    return tuple(
        Point(p.ram_bytes(done.request), cost.cycles, cost.macs, p is done.point)
        for p, cost in pairs
    )


@dataclass(frozen=True, slots=True, repr=False)
class Ran(Brief):
    """One or more simulated inferences: outputs of each, and the report with simulated figures.

    `steps`: counts of each, None of those that an accelerator runs: what the core executes there is
    a stand-in for its driver.  `functions`: names and bytes of the code on the core.  `unmeasured`:
    of a profile, why no core executed anything; then there are no outputs."""

    compiled: Compiled
    outputs: tuple[Mapping[str, Array], ...]
    report: Report
    steps: tuple[Counts | None, ...]
    functions: tuple[tuple[str, int], ...] = ()
    unmeasured: str = ""

    def __repr__(self) -> str:
        return shortened(f"Ran({len(self.outputs)} inferences, {totals(self.report)})")

    def _repr_html_(self) -> str:
        return framed(self.compiled.page(self.report, self.steps))

    def as_json(self) -> dict[str, Json]:
        """The report, the layers and the functions; why nothing is simulated, where it is not."""
        functions = dict(self.functions)
        return {
            **self.report.as_json(),
            "layers": layer_rows(self),
            "functions": functions,
            "unmeasured": self.unmeasured or None,
        }

    def bundle(self) -> Bundle:
        """profile.json, profile.html; and resources.svg, where an accelerator's author says what
        its layers need."""
        compiled, text = self.compiled, json.dumps(self.as_json(), indent=2) + "\n"
        page = compiled.page(self.report, self.steps)
        files = [("profile.json", text.encode()), ("profile.html", page)]
        picture = resource_svg(compiled.layers)
        if picture is not None:
            files.append(("resources.svg", picture.encode()))
        return Bundle(tuple(files))

    def write(self, folder: str | Path) -> None:
        """Writes the bundle into a new folder.  Raises OutputError."""
        write_bundle(self.bundle(), Path(folder))


def run(
    model: str | Path | Request,
    target: str = DEFAULT_TARGET,
    sets: Sequence[Mapping[str, Array]] | None = None,
    *,
    compiler: str = "zig",
    workers: Workers = 1,
    on_stage: OnStage = _silent,
    **settings: Unpack[Settings],
) -> Ran:
    """Compiles a model and runs it on the target's simulated core, or on the host.

    `sets`: inputs by name, one mapping an inference; drawn where there are none.
    Raises CapacityError where the stack is above its reserve, or code and constants above the
    flash budget."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    compiled = compile(wanted, workers=workers, on_stage=on_stage)
    done = compiled.compilation
    sets = sets if sets is not None else drawn_sets(done, 1)
    on_stage("run")
    if wanted.target.core is None:
        tensors = execution.run_on_host(done, sets).tensors
        outputs = tuple({v.tensor: t[v.tensor] for v in done.program.outputs} for t in tensors)
        return Ran(compiled, outputs, compiled.report, ())
    return _on_core(compiled, sets, compiler)


def profile(
    wanted: Request,
    *,
    simulate: bool = True,
    compiler: str = "zig",
    workers: Workers = 1,
    on_stage: OnStage = _silent,
) -> Ran:
    """Compiles a model and counts its layers on the target's simulated core.

    All figures are estimates where `simulate` is false, where the target has no simulated core, and
    where the driver of an accelerator has no model in C; `Ran.unmeasured` says which.  Raises as
    `run`, and ToolError where a compiler or simulator fails."""
    compiled = compile(wanted, workers=workers, on_stage=on_stage)
    on_stage("run")
    why = "" if simulate else "as asked for"
    if not why and wanted.target.core is None:
        why = f"target {wanted.target.name} has no simulated core"
    if not why and (missing := ladder.without_c(compiled.compilation)):
        why = f"{', '.join(missing)} has no model of its driver in C"
    if why:
        return Ran(compiled, (), compiled.report, (), unmeasured=why)
    return _on_core(compiled, drawn_sets(compiled.compilation, 1), compiler)


def _on_core(compiled: Compiled, sets: Sequence[Mapping[str, Array]], compiler: str) -> Ran:
    """Runs a model on the target's simulated core."""
    done = compiled.compilation
    with execution.firmware(done, compiler) as chip:
        runs = [chip.run(inputs) for inputs in sets]
        report = _with_measurements(compiled, runs, chip.sections)
        functions = chip.functions
    _check_flash(report, done.request)
    offloaded = compiled.offloaded_steps
    steps = (None if k in offloaded else counts for k, counts in enumerate(runs[0].steps))
    return Ran(compiled, tuple(r.tensors for r in runs), report, tuple(steps), functions)


@dataclass(frozen=True, slots=True, repr=False)
class Verified(Brief):
    """How the ladder went."""

    compiled: Compiled
    rungs: tuple[ladder.Rung, ...]
    report: Report

    def __repr__(self) -> str:
        found = ", ".join(f"{r.step}: {r.comparison.mismatches} mismatches" for r in self.rungs)
        return shortened(f"Verified({found}; {totals(self.report)})")

    def _repr_html_(self) -> str:
        return framed(self.compiled.page(self.report))

    def mismatch(self) -> MismatchError | None:
        """The lowest rung's first difference, as an error; None where every rung agrees."""
        for rung in self.rungs:
            first = rung.comparison.first
            if first is not None:
                return MismatchError(
                    "verify-001",
                    f"{rung.comparison.mismatches} mismatches on rung {rung.step}",
                    where=_origin(self.compiled.compilation.model, first.tensor),
                    why=str(first),
                    help=self._help(rung.step, first.tensor),
                )
        return None

    def _help(self, step: str, tensor: str) -> str:
        """What to do where a tensor differs on a rung for the first time."""
        parts = {part.name: part for part in self.compiled.compilation.parts.parts}
        part = parts.get(tensor)
        if step == "reference" or part is None or not is_offloaded(part):
            return _MISMATCH_HELP[step == "reference"]
        return _OFFLOADED_HELP[step in ladder.C_STEPS].format(
            engine=part.engine, kernel=part.kernel.name
        )

    @property
    def vanished(self) -> tuple[str, ...]:
        """Tensors of the model that simplification removed: nothing computes them."""
        return ladder.vanished(self.compiled.compilation)

    @property
    def added(self) -> tuple[str, ...]:
        """Tensors that simplification put in: compared is only what is made of them."""
        return ladder.added(self.compiled.compilation)

    @property
    def passed(self) -> bool:
        return all(rung.comparison.mismatches == 0 for rung in self.rungs)


def _origin(graph: Graph, tensor: str) -> str:
    """The node of the model file that computes a tensor, or the tensor, in the user's words."""
    origins = (node.origin for node in graph.nodes if node.name == tensor)
    return next(origins, "") or f'{graph.name}: tensor "{tensor}"'


def verify(
    model: str | Path | Request,
    target: str = DEFAULT_TARGET,
    goldens: str | Path | None = None,
    *,
    reference: Literal["tflite", "onnx"] | None = None,
    every_point: bool = False,
    compiler: str = "zig",
    workers: Workers = 1,
    on_stage: OnStage = _silent,
    **settings: Unpack[Settings],
) -> Verified:
    """Walks the verification ladder for a model; with `every_point`, the machine runs every point
    of the frontier, on the first set of inputs.  `compiler`: of the simulated core's program.

    With `goldens`, against that archive; with `reference` "tflite", against TensorFlow Lite Micro;
    with "onnx", each operator against ONNX's reference evaluator, a step allowed; else each rung
    against the operators' arithmetic, on seeded inputs."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    with executor_of(workers) as executor:
        compiled = compile(wanted, workers=executor or 1, on_stage=on_stage)
        done = compiled.compilation
        truth = _truth(done, goldens, reference, on_stage)
        real = real_judge(wanted) if reference == "onnx" else None
        sets = drawn_sets(done, DRAWN_SETS)
        if truth is not None:
            sets = ladder.golden_inputs(done.model, truth)
        climbing = ladder.climb(
            done,
            truth,
            sets,
            on_stage,
            real=real,
            every_point=every_point,
            compiler=compiler,
            executor=executor,
        )
        rungs = tuple(climbing)
    verified = tuple(
        Checked(
            r.step,
            r.comparison.tensors,
            r.comparison.elements,
            r.comparison.mismatches,
            r.note,
            r.measured,
        )
        for r in rungs
    )
    return Verified(compiled, rungs, dataclasses.replace(compiled.report, verified=verified))


def golden(model: str | Path, output: str | Path) -> Goldens:
    """Writes ground truth from TensorFlow Lite Micro.  Raises ToolError, OutputError."""
    inputs = _input_types(pipeline.read(str(model)).inputs)
    found = make_goldens(_file_bytes(str(model)), inputs, Path(model).name)
    write_goldens(found, Path(output))
    return found


def read_inputs(
    model: str, paths: Sequence[Path], reading: Reading = AS_IT_IS
) -> Mapping[str, Array]:
    """The inputs in .npy files, in the model's order.  Raises ModelError where they do not fit."""
    values = pipeline.read(model, reading).inputs
    if len(paths) != len(values):
        raise ModelError(
            "input-001",
            f"{len(paths)} inputs are given, the model has {len(values)}",
            where=model,
            help="give --input once for each: " + ", ".join(f'"{v.name}"' for v in values),
        )
    return {v.name: _read_array(path, v) for path, v in zip(paths, values, strict=True)}


def _read_array(path: Path, value: Value) -> Array:
    try:
        # Mapped, so that a file that promises more elements than it has takes no memory.
        array: object = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _no_input(path, _why_no_array(path, error)) from error
    if not isinstance(array, np.ndarray):
        if isinstance(array, np.lib.npyio.NpzFile):
            array.close()
        raise _no_input(path, "it is an archive of arrays (.npz)")
    if (array.shape, array.dtype.name) != (value.type.shape, value.type.dtype.value):
        raise ModelError(
            "input-003",
            f"the array is {array.dtype.name}{list(array.shape)}, must be {value.type}",
            where=f'{path}, input "{value.name}"',
            help="inputs are given in the model's order, in its types",
        )
    return np.array(array)


def _why_no_array(path: Path, error: Exception) -> str:
    """NumPy's words, but where it takes any other file for pickled Python objects."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    begins = path.read_bytes()[: len(NPY_MARK)]
    return str(error) if begins == NPY_MARK else f"it begins with {begins!r}, not {NPY_MARK!r}"


def _no_input(path: Path, why: str) -> ModelError:
    return ModelError(
        "input-002",
        "not a .npy file",
        where=str(path),
        why=why,
        help="write it with numpy.save",
    )


def write_array(path: Path, array: Array) -> None:
    """Writes an array as .npy.  Raises OutputError."""
    try:
        with path.open("wb") as file:
            np.save(file, array)
    except OSError as error:
        raise OutputError(
            "output-003",
            f"the output cannot be written: {error.strerror}",
            where=str(path),
            help="name a file in a folder that exists and may be written to",
        ) from error


def layer_rows(ran: Ran) -> list[Json]:
    """The layers of a run as JSON objects, with their simulated figures."""
    found: list[Json] = []
    for layer in ran.compiled.layers:
        row: dict[str, Json] = dataclasses.asdict(layer)
        if layer.breakdown is not None:
            row["limited_by"], row["utilisation"] = layer.limit, layer.utilisation
        if ran.steps:
            counts = None if layer.step is None else ran.steps[layer.step]
            row["simulated_cycles"] = counts.cycles if counts else None
            row["simulated_instructions"] = counts.instructions if counts else None
        found.append(row)
    return found


def real_judge(wanted: Request) -> ladder.RealJudge:
    """Who judges the operators of an ONNX model by real arithmetic.

    Raises UsageError where the model is none, or has no numbers of its own."""
    path = Path(wanted.model)
    raw = b"" if wanted.model.startswith("zoo:") else unpacked(read_bytes(path), path.name)
    if wanted.reading.assume_int8 or not looks_like_onnx(raw, path.name):
        raise UsageError(
            "usage-033",
            "ONNX's reference evaluator runs quantised ONNX models only",
            where=wanted.model,
            help="leave --reference out, or give a quantised .onnx file without --assume-int8",
        )
    understood = understand_onnx(decode(raw, path.name, path.parent), wanted.reading)
    types = {value.name: value.type for value in understood.graph.variables()}

    def judged(tensors: Mapping[str, Array]) -> Judgement:
        def find(name: str) -> Seen | None:
            place, order = understood.places.get(name, ("", ()))
            if place not in tensors:
                return None
            back = tuple(order.index(a) for a in range(len(order)))
            return Seen(tensors[place].transpose(back), types[place])

        return judge(raw, path.parent, find)

    return judged


def drawn_sets(compilation: Compilation, count: int) -> tuple[Mapping[str, Array], ...]:
    """Seeded inputs, the same for the same model."""
    inputs = compilation.model.inputs
    drawn = (draw_inputs(_input_types(inputs), k, seed=0) for k in range(count))
    names = [value.name for value in inputs]
    return tuple(dict(zip(names, arrays, strict=True)) for arrays in drawn)


def _input_types(inputs: Sequence[Value]) -> list[InputType]:
    return [(v.type.shape, v.type.dtype.value, v.type.zero_point) for v in inputs]


def _truth(
    done: Compilation,
    goldens: str | Path | None,
    reference: str | None,
    on_stage: OnStage,
) -> Goldens | None:
    if goldens is not None:
        return read_goldens(Path(goldens))
    if reference != "tflite":
        return None
    on_stage("tflite")
    raw = _file_bytes(done.request.model)
    return make_goldens(raw, _input_types(done.model.inputs), done.model.name, DRAWN_SETS)


def _file_bytes(model: str) -> bytes:
    if model.startswith("zoo:"):
        raise UsageError(
            "usage-010",
            "TensorFlow Lite Micro runs model files only",
            where=model,
            help="verify it without --reference, or give a .tflite file",
        )
    return read_bytes(Path(model))


def _with_measurements(
    compiled: Compiled, runs: Sequence[execution.CoreRun], sections: execution.Sections
) -> Report:
    """The report with what was measured on the simulated core: the worst of the runs.

    Where accelerators run steps, only the processor's part is known; stand-ins for their drivers
    say nothing of the whole."""
    offloaded = compiled.offloaded_steps
    counts = max((_of_processor(run, offloaded) for run in runs), key=lambda c: c.cycles)
    report, processor = compiled.report, compiled.compilation.request.target.engines[0]
    return dataclasses.replace(
        report,
        flash_bytes=Flash(sections.code + sections.weights, sections.weights, sections.code),
        cycles=Cycles(report.cycles.estimated, None if offloaded else counts.cycles),
        instructions=Instructions(None if offloaded else counts.instructions),
        stack_bytes_measured=max(run.stack_bytes for run in runs),
        engines=tuple(
            engine.simulated(counts.cycles) if engine.name == processor.name else engine
            for engine in report.engines
        ),
    )


def _of_processor(run: execution.CoreRun, offloaded: Collection[int]) -> Counts:
    """What the core executed of its own, not in place of an accelerator."""
    stand_ins = sum((run.steps[k] for k in offloaded), Counts())
    return run.counts - stand_ins


def _check_flash(report: Report, wanted: Request) -> None:
    memory = wanted.target.memory_for("constant")
    budget = memory.size_bytes if wanted.flash_bytes is None else wanted.flash_bytes
    limit = min(memory.size_bytes, budget)
    if report.flash_bytes.total > limit:
        raise CapacityError(
            "capacity-002",
            f"constants and code need {report.flash_bytes.total} bytes of {memory.name}, "
            f"there are {limit}",
            where=report.model,
            help="give more --flash, or a network with fewer weights",
        )


def _rounding(name: str) -> Rounding:
    """Raises UsageError where there is none of that name."""
    try:
        return Rounding(name)
    except ValueError:
        raise UsageError(
            "usage-013",
            f"{name!r} is not known",
            where="--rounding",
            help=f"take one of {', '.join(r.value for r in Rounding)}",
        ) from None


def _bytes(size: Size, option: str) -> int:
    """Bytes of a size.  Raises UsageError where it is none, such as a negative number."""
    if isinstance(size, int) and size >= 0:
        return size
    try:
        return parse_size(str(size))
    except UsageError as error:
        raise error.at(option) from None


def _check_memories(target: Target, wanted: Iterable[str]) -> None:
    """Raises UsageError where neither the target nor an accelerator has a memory that is named."""
    names = [memory.name for memory in target.memories]
    for region in wanted:
        if region not in names:
            raise UsageError(
                "usage-011",
                f"target {target.name} has no memory {region!r}",
                where="--memory",
                help=f"its memories are {', '.join(names)}",
            )
