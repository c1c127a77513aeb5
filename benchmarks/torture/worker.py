"""The process that draws and judges the cases of one generator."""

from __future__ import annotations

import os
import traceback
import warnings
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from benchmarks.torture.case import Case, Generator, Outcome, Verdict
from benchmarks.torture.judging import verdict_on
from benchmarks.torture.minimise import minimised
from benchmarks.torture.registry import every_generator
from benchmarks.watched_process import READY, limit_memory


@dataclass(frozen=True, slots=True)
class Task:
    """A seed to draw and judge; or a file to make smaller while its verdict stays the same."""

    seed: int
    deep: bool = False
    smaller_than: bytes = b""
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict on a case.  `raw` is the file of a finding; `models` is 0 if the seed has none;
    `judge` is the module of the judge."""

    seed: int
    verdict: Verdict
    models: int = 0
    share: bool = False
    raw: bytes = b""
    suffix: str = ""
    target: str = ""
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Said before the judgement begins: from now on, the limit on time is that of a judgement.
    `answer` has the case, and is the answer if the process ends."""

    answer: Answer


def serve(pipe: Connection, name: str) -> None:
    """Answers tasks until the pipe is closed."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _silence()
    generator = every_generator()[name]
    warnings.simplefilter("ignore")
    pipe.send(READY)
    while True:
        try:
            task: Task = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(pipe, generator, task))


def _silence() -> None:
    """Discards what libraries write to the terminal, from C too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _answer(pipe: Connection, generator: Generator, task: Task) -> Answer:
    case = generator.draw(task.seed)
    if case is None:
        return Answer(task.seed, Verdict(Outcome.NOT_JUDGED))
    pipe.send(Drawn(_answered(case, task, Verdict(Outcome.NOT_JUDGED), case.raw)))
    if task.verdict is not None:
        return _smaller(case, task, task.verdict)
    limit_memory(generator.limits.memory_bytes)
    try:
        verdict = verdict_on(case, task.deep)
    except Exception as error:  # of the judge itself: a finding about this command
        verdict = Verdict(Outcome.INTERNAL, "judge", type(error).__name__, traceback.format_exc())
    finally:
        limit_memory(None)
    kept = b"" if verdict.outcome.right else case.raw
    return _answered(case, task, verdict, kept)


def _smaller(case: Case, task: Task, verdict: Verdict) -> Answer:
    case = replace(case, raw=task.smaller_than)
    found, verdict = minimised(case, verdict)
    return _answered(case, task, verdict, found.raw)


def _answered(case: Case, task: Task, verdict: Verdict, raw: bytes) -> Answer:
    judge = case.judge.__module__.rpartition(".")[2]
    return Answer(task.seed, verdict, case.models, case.share, raw, case.suffix, case.target, judge)
