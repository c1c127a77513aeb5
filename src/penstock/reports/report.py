"""The contents of report.json, the only result that summaries, tables, pages and comparisons show.

The keys are a stable interface; there are no times among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path

import numpy as np

from penstock.brief import Brief
from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.ir.tensor import Array, DType, TensorType
from penstock.optional import Dropped
from penstock.reports.accuracy import Evaluation
from penstock.reports.codec import (
    Json,
    NotDecodedError,
    decoded,
    encoded_fields,
    named,
    without_breaks_in_numbers,
)
from penstock.reports.command import CompileCommand
from penstock.reports.formats import ABSENT
from penstock.reports.layer import ConstantChannels, Counted, Layer, Step, linked, with_counts
from penstock.reports.timeline import EngineTimes, Timeline
from penstock.revision import described

# InterfaceTensor: an input or output of the generated code, with its quantisation.


_MAX_STEPS = np.float32(131072)  # Larger than any difference of two elements of 16 bits.


@frozen
class InterfaceTensor:
    """An input or output of the generated code.

    name: key of `sets` and `outputs` in Python.
    element_type: the name of the type in NumPy.
    scale, zero_point: real = scale * (element - zero_point); None without quantisation, and with
        one per channel.
    channels_first: whether the tensor is an input image of shape (N, C, H, W); a row of it, if it
        is streamed, is a channel of H x W elements.
    order: axis a is axis order[a] of the tensor in the model's file; empty if they are the same."""

    name: str
    shape: tuple[int, ...]
    element_type: str
    scale: float | None
    zero_point: int | None
    channels_first: bool = False
    order: tuple[int, ...] = ()

    @staticmethod
    def of(
        name: str,
        type: TensorType,
        *,
        channels_first: bool = False,
        order: tuple[int, ...] = (),
    ) -> InterfaceTensor:
        """The record of a tensor of this type."""
        q = type.quantisation
        single = q is not None and len(q.scales) == len(q.zero_points) == 1
        return InterfaceTensor(
            name,
            type.shape,
            type.dtype.value,
            type.scale if single else None,
            type.zero_point if single else None,
            channels_first,
            order,
        )

    @property
    def file_shape(self) -> tuple[int, ...]:
        """The shape of the tensor in the model's file."""
        return tuple(self.shape[self.order.index(a)] for a in range(len(self.order))) or self.shape

    def quantize(self, array: Array) -> Array:
        """Return the elements nearest to real numbers, ties away from zero, saturated, as the
        function NAME_quantize of the generated header does.  NaN becomes the smallest element.

        Raises UsageError if the elements are not quantised to at most 16 bits."""
        scale, zero_point = self._quantisation
        limits = DType(self.element_type)
        if limits.size_bytes > 2:
            raise self._refused(f"its elements are {self.element_type}, must have at most 16 bits")
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = np.asarray(array, np.float32) / np.float32(scale)
        bounded = np.fmin(np.fmax(quotients, -_MAX_STEPS), _MAX_STEPS)
        whole = np.trunc(bounded)
        remainder = bounded - whole
        steps = whole.astype(np.int64) + (remainder >= 0.5) - (remainder <= -0.5) + zero_point
        return np.clip(steps, limits.lower, limits.upper - 1).astype(self.element_type)

    def dequantize(self, array: Array) -> Array:
        """Return the real numbers that elements represent, as float32.

        Raises UsageError if the elements are not quantised."""
        scale, zero_point = self._quantisation
        steps = np.asarray(array).astype(np.float32) - np.float32(zero_point)
        return np.float32(scale) * steps

    @property
    def _quantisation(self) -> tuple[float, int]:
        if self.scale is None or self.zero_point is None:
            raise self._refused(f"its {self.element_type} elements have no scale and zero point")
        return self.scale, self.zero_point

    def _refused(self, why: str) -> UsageError:
        return UsageError(
            "usage-143",
            "the tensor cannot be converted",
            where=f'"{self.name}"',
            why=why,
            help="pass its elements as they are",
        )


@frozen(repr=False)
class ModelInterface(Brief):
    """The inputs and outputs of the generated code, in the order of the model."""

    inputs: tuple[InterfaceTensor, ...] = ()
    outputs: tuple[InterfaceTensor, ...] = ()


SCHEMA = "penstock-report-1"
FILES = ("report.json", "profile.json")  # What an output directory contains, by preference.
_HELP = "name a report.json, a file with the output of --json, or a directory that contains one"


@frozen
class RamUsage:
    """RAM in bytes. `total` is arena + static + stack; `io`, `scratch` and `state` are inside the
    arena. `state` lasts from run to run."""

    total: int
    arena: int
    static: int
    stack: int
    io: int
    scratch: int
    state: int = 0


@frozen
class Flash:
    """Flash in bytes. `code` is None if nothing was cross-compiled; `weights` are
    the constants as kernels store them, with their tables; `model` are those of the model."""

    total: int
    weights: int
    code: int | None
    model: int = 0


@frozen
class Macs:
    """Nominal multiply-accumulates: of the model, executed by the schedule, and omitted because
    their results do not depend on the input."""

    model: int
    executed: int
    constant: int

    @property
    def factor(self) -> float:
        """F: executed multiply-accumulates, those omitted included, as a multiple of the model's; 1
        if nothing is computed twice."""
        return (self.executed + self.constant) / self.model if self.model else 1.0


@frozen
class Instructions:
    """Instructions executed on a simulated core."""

    simulated: int | None


@frozen
class Point:
    """A point of the frontier. `chosen` marks the compiled one."""

    ram_bytes: int
    cycles: int
    macs_executed: int
    chosen: bool = False


@frozen
class Alternative:
    """RAM and cycles that the same command yields with other options. `condition` is what these
    options demand of the caller, if anything."""

    options: str
    ram_bytes: int
    cycles: int
    condition: str = ""


@frozen
class SmallerKernels:
    """A core family whose kernels are slower, and about how many bytes of flash they save."""

    kernels: str
    saved_bytes: int


@frozen
class Optimality:
    """Certificates: "optimal", or a proved upper bound of the relative gap to the minimum."""

    order: str | float
    partition: str | float
    placement: str | float


@frozen
class RealDifference:
    """Elements that differ from a reference that rounds otherwise, and the largest difference in
    quantisation steps. Within the tolerance, they do not count as mismatches."""

    elements: int
    steps: int


@frozen
class NodeReport:
    """A tensor that the reference computes from penstock's own tensors. `node` computes it;
    `group` lists all nodes of the model that are compared as one. Of `elements`, `differing`
    differ, by at most `steps`; `mismatches` differ by more than is accepted. `exception` is the
    documented deviation that applies, if there is one."""

    node: str
    group: tuple[str, ...]
    tensor: str
    elements: int
    differing: int
    steps: int
    mismatches: int
    exception: str


@frozen
class RungReport:
    """A rung of the verification ladder. `mismatches` is None if the rung was not run. `note` is
    additional text; `measured` is the difference from the reference, on rungs that measure it, and
    `nodes` lists it node by node. `error` states the limit that the rung exceeded, if it did."""

    step: str
    tensors: int
    elements: int
    mismatches: int | None
    note: str = ""
    measured: RealDifference | None = None
    nodes: tuple[NodeReport, ...] = ()
    error: str = ""


@frozen
class CascadeReport:
    """A cascade that runs in stripes: number of layers, maximum rows per stripe, kernel calls."""

    layers: int
    rows: int
    calls: int


@frozen
class CompetingKernel:
    """A kernel that could compute a layer of the processor.

    cycles: its estimated cycles for the whole output.
    lost_by: by how many cycles it exceeds the kernel that computes the layer; 0 for that kernel.
    """

    layer: str
    kernel: str
    cycles: int
    lost_by: int


@frozen
class PortableLayer:
    """A layer that runs in portable C and takes a notable share of the estimated cycles, in [0, 1].

    kernels: the core family of the target, which has kernels, but none that can run the layer.
    needs: what its kernel for the operator needs and the layer lacks; empty if it has none."""

    layer: str
    operator: str
    share: float
    kernels: str
    needs: str


@frozen
class Requantised:
    """A layer with weights: its kernel, and the number of output channels per requantisation
    class."""

    layer: str
    kernel: str
    classes: Mapping[str, int]


@frozen
class CycleCounts:
    """Cycles by the cost model, and by the timing model of a simulated core."""

    estimated: int
    simulated: int | None


@frozen
class EngineWork:
    """The work of one engine: nodes, kernel calls, multiply-accumulates and cycles. Simulated
    cycles exist only for engines that a simulated core executes."""

    name: str
    nodes: int
    calls: int
    macs: int
    cycles: CycleCounts

    def simulated(self, cycles: int) -> EngineWork:
        """Return a copy with simulated cycles."""
        return replace(self, cycles=CycleCounts(self.cycles.estimated, cycles))


@frozen
class FallbackReport:
    """A node that falls back to the CPU: its position in the model file, the reason, and its
    estimated cycles on the processor."""

    node: str
    origin: str
    reason: str
    cycles: int

    @property
    def where(self) -> str:
        """Its position in the model file, without the name of the model."""
        return self.origin.split(": ", 1)[-1] or self.node

    @property
    def why(self) -> str:
        return self.reason or ABSENT


@frozen(repr=False)
class Report(Brief):
    """The facts about a compiled model that report.json contains.

    `engines` and `left_to_cpu` are empty without accelerators. `numbers_assumed` is True if the
    scales are arbitrary (`--assume-int8`) and outputs are meaningless. `free_bytes` maps memories
    that do not count as RAM, such as those of accelerators, to bytes; `memory_bytes` maps every
    memory that holds tensors to the bytes that a linker places there. `optimize` is the goal that
    selected the point; `alternatives` are the results of other options. `version` and `commit` are
    those of penstock; the commit is empty if it is not known. `command` states the request.
    `clock_hz` is the clock of the target, if known. `smaller_kernels` save much flash, if there are
    any. `interface` lists the inputs and outputs of the generated code. `optimised_for` is what the
    C compiler optimises: "speed" (-O3) or "size" (-Os); estimated cycles are always those of -O3.
    `portable_layers` take many cycles because the core family has no kernel for them.
    `competing_kernels` are those among which a kernel was selected for each layer.
    `dropped` lists optional work that failed because of a defect of penstock. `layers` are the
    steps of the schedule, `model_layers` the layers that they compute. `timelines` are the contents
    of each memory, the arena first, and `engine_times` what each engine does, over one inference.
    `functions` are the bytes of each function of the model's code, if it was compiled;
    `evaluations` state the accuracy of each output, if samples with labels were given.
    `unmeasured` is the reason why a profile simulated nothing, if it did not.
    """

    model: str
    target: str
    ram_bytes: RamUsage
    flash_bytes: Flash
    macs: Macs
    cycles: CycleCounts
    instructions: Instructions
    frontier: tuple[Point, ...]
    optimality: Optimality
    command: CompileCommand = field(metadata=named("command_parts"))
    ram_bytes_streamed_input: int | None = None
    cascades: tuple[CascadeReport, ...] = ()
    verified: tuple[RungReport, ...] = ()
    stack_bytes_measured: int | None = None
    engines: tuple[EngineWork, ...] = ()
    left_to_cpu: tuple[FallbackReport, ...] = ()
    requantisation: tuple[Requantised, ...] = ()
    constant_channels: tuple[ConstantChannels, ...] = ()
    numbers_assumed: bool = False
    free_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    memory_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    optimize: str = "balanced"
    alternatives: tuple[Alternative, ...] = ()
    version: str = ""
    commit: str = ""
    clock_hz: int | None = None
    smaller_kernels: SmallerKernels | None = None
    interface: ModelInterface = field(default_factory=ModelInterface)
    optimised_for: str = "speed"
    evaluations: tuple[Evaluation, ...] = ()
    portable_layers: tuple[PortableLayer, ...] = ()
    competing_kernels: tuple[CompetingKernel, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    layers: tuple[Step, ...] = ()
    model_layers: tuple[Layer, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    engine_times: EngineTimes | None = None
    functions: Mapping[str, int] = field(default_factory=dict[str, int])
    unmeasured: str | None = None

    @property
    def estimated_note(self) -> str:
        """A continuation of "estimated" that states for which flags, where the code has others."""
        return " for -O3" if self.optimised_for == "size" else ""

    @property
    def compiler(self) -> str:
        """The compiler, with its version, and its commit if that is known."""
        return f"penstock {described(self.version, self.commit)}"

    def with_counts(self, counts: Sequence[Counted | None]) -> Report:
        """Return the report with the simulated figures of each step, see `layer.with_counts`."""
        steps = with_counts(self.layers, counts)
        return replace(self, layers=steps, model_layers=linked(self.model_layers, steps))

    def as_json(self) -> dict[str, Json]:
        """Return the contents of report.json."""
        return {
            "schema": SCHEMA,
            **encoded_fields(self),
            **times(self.cycles, self.clock_hz),
            "command": str(self.command),
            "alternatives": [
                {**encoded_fields(one), "command": str(self.command.with_options(one.options))}
                for one in self.alternatives
            ],
        }

    def text(self) -> str:
        """Return report.json."""
        return without_breaks_in_numbers(json.dumps(self.as_json(), indent=2)) + "\n"

    @staticmethod
    def from_json(found: Mapping[str, Json]) -> Report:
        """Return the report that `as_json` has written.  Raises NotDecodedError."""
        report = decoded(Report, found)
        known = set(range(len(report.layers)))
        if not all(one.indices and known.issuperset(one.indices) for one in report.model_layers):
            raise NotDecodedError('a record of "model_layers" does not name steps of "layers"')
        return replace(report, model_layers=linked(report.model_layers, report.layers))


def cascade_words(cascades: Iterable[CascadeReport]) -> str:
    """Return cascades as layers × rows."""
    return " ".join(f"{c.layers}×{c.rows}" for c in cascades) or ABSENT


def has_simulated(engines: Sequence[EngineWork]) -> bool:
    """Return whether one of the engines has simulated cycles."""
    return any(engine.cycles.simulated is not None for engine in engines)


def shares(engines: Sequence[EngineWork]) -> tuple[float, ...]:
    """Return the fraction of the estimated cycles of each engine, in [0, 1]."""
    total = max(1, sum(engine.cycles.estimated for engine in engines))
    return tuple(engine.cycles.estimated / total for engine in engines)


def times(cycles: CycleCounts, clock_hz: int | None) -> dict[str, Json]:
    """Return the duration of an inference in milliseconds, and inferences per second, by kind of
    cycles.

    >>> times(CycleCounts(84_000, None), 168_000_000)["milliseconds"]
    {'estimated': 0.5, 'simulated': None}
    """
    kinds = asdict(cycles)
    seconds = {k: n / clock_hz if n and clock_hz else None for k, n in kinds.items()}
    return {
        "milliseconds": {k: s and round(1000 * s, 6) for k, s in seconds.items()},
        "inferences_per_second": {k: s and round(1 / s, 6) for k, s in seconds.items()},
    }


def report_json(name: str) -> Mapping[str, Json]:
    """Return the JSON object of a report.json, of a profile.json or of the output of `--json`.

    Raises UsageError."""
    path = _file(Path(name))
    try:
        found: Json = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            "usage-141",
            "the report cannot be read",
            where=name,
            why=str(error.strerror or error).lower(),
            help=_HELP,
        ) from None
    except UnicodeDecodeError:
        raise no_report(name, "the file is not JSON") from None
    except ValueError as error:
        raise no_report(name, f"the file is not JSON: {error}") from None
    if not isinstance(found, Mapping) or "schema" not in found:
        raise no_report(name, 'the JSON value has no key "schema"')
    if found["schema"] != SCHEMA:
        raise no_report(name, f"its schema is {found['schema']!r}, must be {SCHEMA!r}")
    return found


def read_report(name: str) -> Report:
    """Return the report of a file, see `report_json`; it shows what the compilation shows.

    Raises UsageError, also for the report of an older version that lacks a key."""
    try:
        return Report.from_json(report_json(name))
    except NotDecodedError as error:
        raise no_report(name, str(error)) from None


def no_report(where: str, why: str) -> UsageError:
    """Return the error for a file that contains no report."""
    return UsageError("usage-142", "this is not a report", where=where, why=why, help=_HELP)


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    inside = next((path / file for file in FILES if (path / file).is_file()), None)
    if inside is None:
        raise no_report(str(path), f"the directory contains neither {' nor '.join(FILES)}")
    return inside
