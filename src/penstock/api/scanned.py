"""`scan`: which models of a folder compile, and what stops the others."""

from __future__ import annotations

import gc
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Unpack, cast

from penstock.api.arguments import (
    check_count,
    check_flags,
    check_last_rung,
    check_reference,
    ignore_progress,
)
from penstock.api.compiled import compile
from penstock.api.compiling import OTHER_OPTIONS
from penstock.api.requested import request
from penstock.api.settings import Settings
from penstock.api.verified import verify
from penstock.choices import one_of
from penstock.errors import (
    InternalError,
    ModelError,
    PenstockError,
    ToolError,
    UsageError,
    internal_error,
    raise_interruption,
)
from penstock.exploration import OnProgress
from penstock.frontends.open import model_files, operator_count, read_bytes
from penstock.frontends.other_formats import looks_like_onnx
from penstock.frontends.reading import Reading
from penstock.frozen import frozen
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.hardware.quantities import Size, size_bytes
from penstock.limits import (
    SizeLimitError,
    TimeLimitReached,
    check_memory_limit,
    check_time_limit,
    exhausted,
    memory_limit,
    time_limit,
)
from penstock.pipeline.request import STAGE_NAMES, Request
from penstock.pipeline.stages import run_through
from penstock.reports.scan import Scanned, TimeLimitError, Verdict, scanned
from penstock.workers import executor_of, mapped

TERMINATED = "tool-022"  # The code of the error that a worker process was terminated.


class ScanSettings(Settings, total=False):
    """Keyword arguments of `scan`, beside those that all functions share.

    min_operators: leave out models with fewer operators, such as tests of single operators;
        models that cannot be read are not left out.
    stop_after: the last stage to run, such as "read"; by default, models are compiled in full.
    verify: also run the verification ladder.
    reference, last_rung: see `verify`.  Both imply verification.  A reference applies to models of
        its format, and the others are verified without.
    time_limit_seconds: the time after which a model is stopped; the scan goes on with the next.
        Which models are stopped depends on the machine.
    memory_limit: the memory of a process, a number of bytes or a text such as "4GiB", at which a
        model is stopped; not applied to verification, whose sanitizers reserve any amount."""

    min_operators: int
    stop_after: str | None
    verify: bool
    reference: Literal["tflite", "onnx"] | None
    last_rung: str | None
    time_limit_seconds: float | None
    memory_limit: Size | None


@frozen
class Examination:
    """How each model is examined; see `ScanSettings`."""

    request: Request
    min_operators: int
    stop_after: str | None
    verify: bool
    reference: Literal["tflite", "onnx"] | None
    last_rung: str
    time_limit_seconds: float | None
    memory_limit_bytes: int | None

    @staticmethod
    def of(target: str, settings: ScanSettings) -> Examination:
        """The examination that settings ask for.  Raises UsageError, TargetError, BackendError."""
        own = ScanSettings.__annotations__.keys() - Settings.__annotations__.keys()
        shared = {name: value for name, value in settings.items() if name not in own}
        stop_after, reference = settings.get("stop_after"), settings.get("reference")
        last_rung, memory = settings.get("last_rung"), settings.get("memory_limit")
        check_reference(reference)
        if stop_after is not None:
            one_of(stop_after, STAGE_NAMES, "--stop-after")
        check_flags("scan", verify=settings.get("verify", False))
        check_count("scan", "min_operators", settings.get("min_operators", 0), 0)
        verify = settings.get("verify", False) or reference is not None or last_rung is not None
        if verify and stop_after is not None:
            raise UsageError(
                "usage-122",
                f"models that stop after {stop_after} cannot be verified",
                where="--stop-after, --verify",
                why="verification runs the compiled program",
                help="omit one of the two",
            )
        return Examination(
            request("", target, **cast(Settings, shared)),
            settings.get("min_operators", 0),
            stop_after,
            verify,
            reference,
            check_last_rung("core" if last_rung is None else last_rung),
            settings.get("time_limit_seconds"),
            None if memory is None else size_bytes(memory, "--memory-limit"),
        )


@frozen
class ModelFile:
    """A distinct model file: its path, that relative to the folder, and the paths of copies.

    is_outside: the file is a link that leads out of the folder."""

    path: Path
    name: str
    copies: tuple[str, ...]
    is_outside: bool = False


def scan(
    folder: str | Path,
    target: str = DEFAULT_TARGET,
    *,
    workers: int = 1,
    on_progress: OnProgress = ignore_progress,
    **settings: Unpack[ScanSettings],
) -> Iterator[Scanned]:
    """Compile every model of a folder and its subfolders; yield a record for each, in the order of
    their paths.  Files with the same content are one model.

    on_progress: called with the number of models that are done.
    workers: a number of processes.  With more than one, a process that is terminated stops only
        the model that it was at.

    Raises UsageError, TargetError, BackendError at the first `next`; errors of models are part of
    their records."""
    how = Examination.of(target, settings)
    yield from examined(distinct_models(folder), how, workers, on_progress)


def examined(
    found: Sequence[ModelFile],
    how: Examination,
    workers: int,
    on_progress: OnProgress,
    at_interruption: Callable[[Scanned], None] | None = None,
) -> Iterator[Scanned]:
    """Yield the record of each model, in order.  Raises UsageError at the first `next`.

    at_interruption: called with each record that a worker has made before that of an earlier
        model, if an interruption ends the scan."""
    check_time_limit(how.time_limit_seconds, here=workers == 1)
    check_memory_limit(how.memory_limit_bytes)
    on_progress("scan", 0, len(found))
    for done, record in enumerate(_records(found, how, workers, at_interruption), 1):
        yield record
        if done < len(found):
            on_progress("scan", done, len(found))


def distinct_models(where: str | Path) -> tuple[ModelFile, ...]:
    """The models of a folder, each content once.  Raises UsageError if there is none."""
    folder = Path(where)
    groups: dict[str, list[Path]] = {}
    for path in model_files(folder):
        digest = str(path) if _is_outside(path, folder) else _digest(path)
        groups.setdefault(digest, []).append(path)
    if not groups:
        what = "the folder contains no model" if folder.is_dir() else "there is no such folder"
        raise UsageError(
            "usage-121",
            "this is a file, not a folder" if folder.is_file() else what,
            where=str(folder),
            why="models are files whose names end in .tflite or .onnx, or in these and .gz",
            help="name a folder that contains models, here or in its subfolders"
            + ("; `penstock compile` takes a single model" if folder.is_file() else ""),
        )
    return tuple(
        ModelFile(
            first,
            _relative(first, folder),
            tuple(_relative(path, folder) for path in others),
            _is_outside(first, folder),
        )
        for first, *others in groups.values()
    )


def _is_outside(path: Path, folder: Path) -> bool:
    return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())


def _digest(path: Path) -> str:
    """A digest of a file's content; the path if the file cannot be read, or is large."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except ModelError:
        return str(path)


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _operators(path: Path, how: Examination) -> int | None:
    limit_bytes = how.request.reading.size_limit_bytes
    try:
        return operator_count(read_bytes(path, limit_bytes), path.name, limit_bytes)
    except ModelError:
        return None


def _records(
    found: Sequence[ModelFile],
    how: Examination,
    workers: int,
    at_interruption: Callable[[Scanned], None] | None,
) -> Iterator[Scanned]:
    """The records of models, in order.  If a worker process is terminated, the models at hand run
    in processes of their own, which shows which of them is the reason."""
    left = deque(found)
    alone = 0
    while left:
        count = 1 if alone else len(left)
        try:
            with executor_of(workers) as executor:
                now = tuple(left)[:count]
                for record in mapped(partial(scan_one, how=how), now, executor, at_interruption):
                    left.popleft()
                    yield record
        except ToolError as error:
            if error.code != TERMINATED:
                raise
            if alone or len(left) == 1:
                yield _terminated(left.popleft(), error)
            else:
                alone = min(workers, len(left)) + 1
        alone = max(alone - 1, 0)


def scan_one(one: ModelFile, how: Examination) -> Scanned:
    """The record of a model.  Only an interruption ends the scan."""
    if one.is_outside:
        return scanned(one.name, one.copies, None, _outside(one))
    operators: int | None = None
    error: PenstockError | None = None
    compiles = False
    memory_limit_bytes = None if how.verify else how.memory_limit_bytes
    try:
        with time_limit(how.time_limit_seconds), memory_limit(memory_limit_bytes):
            operators = _operators(one.path, how)
            if operators is not None and operators < how.min_operators:
                return Scanned(one.name, one.copies, operators, Verdict.LEFT_OUT)
            error = _examine(one.path, how)
            compiles = True
    except TimeLimitReached:
        error = _time_limit_error(how.time_limit_seconds or 0)
    except MemoryError:
        error = exhausted()
    except PenstockError as found:
        error = found
    except Exception as found:
        try:
            raise_interruption(found)
            error = internal_error(found)
        except TimeLimitReached:
            error = _time_limit_error(how.time_limit_seconds or 0)
    if isinstance(error, SizeLimitError):
        gc.collect()  # frames of tracebacks form cycles, which hold what the next model may need
    passes = how.stop_after is not None
    return scanned(one.name, one.copies, operators, error, passes=passes, compiles=compiles)


def _time_limit_error(seconds: float) -> TimeLimitError:
    return TimeLimitError(
        "limit-001",
        f"stopped after {seconds:g} s",
        where="--time-limit",
        why="the model takes longer on this machine",
        help="raise the limit, or compile the model on its own",
    )


def _outside(one: ModelFile) -> ModelError:
    return ModelError(
        "model-032",
        "the file is a link that leads out of the folder",
        where=one.name,
        why="someone else may have made the link, so its target is not read",
        help="scan the folder of its target, or compile the file on its own",
        cause="a link that leads out of the folder",
    )


def _terminated(one: ModelFile, error: ToolError) -> Scanned:
    """The record of a model whose process was terminated.  The file is not read again, which could
    terminate this process."""
    dead = InternalError(error.code, error.what, where="its process", why=error.why)
    return scanned(one.name, one.copies, None, dead)


def _examine(path: Path, how: Examination) -> PenstockError | None:
    """Compile and verify a model.  Raises the error that stops its compilation; returns that of its
    verification."""
    reading = how.request.reading
    format = _format(path, reading)
    if format == "tflite":
        reading = replace(reading, assume_int8=False, calibration=None)
    wanted = replace(how.request, model=str(path), reading=reading)
    if how.stop_after is not None:
        run_through(wanted, how.stop_after)
    elif how.verify:
        return _verification(wanted, how, format)
    else:
        compile(wanted)
    return None


def _verification(wanted: Request, how: Examination, format: str) -> PenstockError | None:
    """The error of a model's verification, even if that ends before the model is compiled, since a
    tool is missing.  Raises the error that stops its compilation."""
    reference = how.reference if how.reference == format else None
    last = how.last_rung if reference or how.last_rung != "reference" else "machine"
    stages: list[str] = []
    try:
        return verify(wanted, reference=reference, last_rung=last, on_stage=stages.append).error()
    except ToolError as error:
        if OTHER_OPTIONS not in stages:
            compile(wanted)
        return error


def _format(path: Path, reading: Reading) -> Literal["tflite", "onnx"]:
    raw = read_bytes(path, reading.size_limit_bytes)
    return "onnx" if looks_like_onnx(raw, path.name) else "tflite"
