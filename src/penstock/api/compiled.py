"""`compile` and its result: the compilation, its report and its files.

If the result is that of an earlier run, nothing of the compiler is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from penstock.api.arguments import C, check_flags, check_format, ignore_stage
from penstock.api.cache import REPORT, Key, find, keep, key_of, report_of
from penstock.api.keywords import with_settings
from penstock.api.reported import Reported
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.codegen.packages import DEFAULT_PACKAGES
from penstock.errors import UsageError
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.optional import attempt, recorded
from penstock.pipeline.request import Request
from penstock.reports.layer import Layer, Step
from penstock.reports.report import InterfaceTensor
from penstock.reports.timeline import Timeline

if TYPE_CHECKING:
    from penstock.api.requested import Model
    from penstock.api.settings import Settings
    from penstock.pipeline.compilation import Compilation
    from penstock.pipeline.stages import OnStage
    from penstock.workers import Workers


@dataclass(frozen=True, repr=False)
class Compiled(Reported):
    """A compiled model.

    report: the figures, as report.json contains them.
    origin: the results of all stages, or what computes them.
    key: of the results in the cache; None: they are not kept."""

    origin: Compilation | Callable[[], Compilation] = field(compare=False)
    key: Key | None = field(default=None, compare=False)

    @cached_property
    def compilation(self) -> Compilation:
        """The results of all stages.  If the report is that of an earlier run, they are computed on
        first use.

        Raises UsageError if a file has changed since."""
        return self.origin() if callable(self.origin) else self.origin

    @property
    def seconds(self) -> tuple[tuple[str, float], ...]:
        """(stage name, run time in seconds) for each stage that ran; none if the result is that of
        an earlier run."""
        return () if callable(self.origin) else self.origin.seconds

    def bundle(
        self, packages: str | Sequence[str] = DEFAULT_PACKAGES, *, format: str = C
    ) -> Bundle:
        """The C files in the layouts of build systems, with report.json and report.html.

        packages: package formats, or "all"; several are in folders named after them.
        format: "c", or a format that an accelerator's package contributes (`file`), instead of C.

        Raises UsageError for an unknown format, and as `file`."""
        check_format(format)
        key = None if self.key is None else self.key.of_bundle(packages, format)
        if (kept := find(key)) is not None:
            return kept
        with recorded() as dropped:
            page = attempt("report.html", self.page, lambda: None)
        report = dataclasses.replace(self.report, dropped=(*self.report.dropped, *dropped))
        more = [(REPORT, report.text().encode())]
        if page is not None:
            more.append(("report.html", page))
        from penstock.api.compiling import files

        bundle = files(self.compilation, packages, format).with_files(*more)
        if not report.dropped:
            keep(key, bundle)
        return bundle

    def file(self, format: str) -> tuple[str, bytes]:
        """The file of a format that an accelerator's package contributes: its name and contents.

        If the format cannot state the compiled schedule, the file has the fastest other one that
        fits and that it can state, maybe one that computes layer by layer.

        Raises UsageError for an unknown format, UnsupportedError if it can state none of them."""
        check_format(format)
        from penstock.api.compiling import file

        return file(self.compilation, format)

    @property
    def inputs(self) -> tuple[InterfaceTensor, ...]:
        """The inputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.inputs

    @property
    def outputs(self) -> tuple[InterfaceTensor, ...]:
        """The outputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.outputs

    @property
    def layers(self) -> tuple[Step, ...]:
        """One record per step, in execution order: a layer, or equal bands of one."""
        return self.report.layers

    @property
    def model_layers(self) -> tuple[Layer, ...]:
        """One record per operator of the model file, in the order of the model: the sum over the
        steps that compute it."""
        return self.report.model_layers

    @property
    def offloaded_steps(self) -> frozenset[int]:
        """Indices of the steps that accelerators run."""
        found = (layer.step for layer in self.layers if layer.offloaded)
        return frozenset(step for step in found if step is not None)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """The contents of each memory over one inference, the arena first."""
        return self.report.timelines

    def write(
        self,
        folder: str | Path,
        packages: str | Sequence[str] = DEFAULT_PACKAGES,
        *,
        format: str = C,
        force: bool = False,
    ) -> None:
        """Write the bundle into a new folder, or over an unchanged earlier bundle, completely or
        not at all; with `force`, replace files of the same names in any folder.

        packages, format: see `bundle`.

        Raises OutputError, and as `bundle`."""
        bundle = self.bundle(packages, format=format)
        write_bundle(bundle.with_manifest(), Path(folder), force=force)


@with_settings
def compile(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_stage: OnStage = ignore_stage,
    cache: bool = True,
    **settings: Unpack[Settings],
) -> Compiled:
    """Compile a model: a file, a zoo network `zoo:NAME`, a graph built in Python, or a request.

    `workers` is a number of processes, or an executor, see `penstock.workers`; the result does not
    depend on it.  `on_stage` receives the name of each stage as it begins.  With `cache`, the
    result of an earlier run is reused, if neither files nor settings nor programs have changed.

    Raises ModelError, UnsupportedError, TargetError, BackendError, UsageError; CapacityError if the
    network exceeds a budget."""
    check_flags("the call", cache=cache)
    key = key_of(model, target, settings) if cache else None
    if not isinstance(model, Request) and (kept := report_of(find(key))) is not None:
        return Compiled(kept, partial(_again, model, target, settings, key), key)
    from penstock.api.compiling import compiled
    from penstock.api.requested import request

    wanted = request(model, target, **settings)
    done, report = compiled(wanted, workers, on_stage)
    if not report.dropped:
        keep(key, Bundle(((REPORT, report.text().encode()),)))
    return Compiled(report, done, key)


def _again(model: Model, target: str, settings: Settings, key: Key | None) -> Compilation:
    """The compilation of which the cache holds the report."""
    if key != key_of(model, target, settings):
        raise UsageError(
            "usage-214",
            "the model has changed since its report was read",
            where=str(model),
            why="the report is that of an earlier run, and all other results are computed on first "
            "use",
            help="call penstock.compile again, with cache=False for all results at once",
        )
    from penstock.api.requested import request
    from penstock.pipeline.compilation import compile_request

    return compile_request(request(model, target, **settings))
