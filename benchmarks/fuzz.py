"""Fuzz: damaged model files get an error message, never a traceback; what compiles is right.

    python -m benchmarks.fuzz [MODEL ...] [--mutants 1000] [--seed 0] [--workers 2]
    python -m benchmarks.fuzz --onnx [--mutants 1000] [--seed 0] [--workers 2]
    python -m benchmarks.fuzz --replay MUTANT.tflite

Each mutant of a real model file is compiled in a process with limits on memory and time.  It must
be refused with a message that says what and where, or compile; what compiles is verified, bit for
bit: the operators' arithmetic by TensorFlow Lite Micro, and the machine.  One mutant in ten is also
run as C, on this machine under sanitizers and on a simulated core: that takes seconds.
Findings are saved, with the command that replays them, and make the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fuzz_worker import Outcome, Task, judge, serve
from benchmarks.mutations import Mutant, Subject, mutant
from benchmarks.onnx_subjects import onnx_subjects
from benchmarks.watched_process import Lost, WatchedProcess

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_MODELS = ("tests/models/*.tflite", "src/penstock/demo/*.tflite")
SHARED_MODELS = ("*_int8.tflite", "*quant*.tflite", "*.tflite", "ops/*.tflite")
LARGEST_MODEL_BYTES = 200_000
ONE_IN_C = 10
"""One mutant in this number also runs as generated C."""
COMPILE_SECONDS = 30.0
VERIFY_SECONDS = 120.0
"""Limits on a worker's time on the processor."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what came of it."""

    mutant: Mutant
    outcome: Outcome


class Worker:
    """A process that judges mutants one after the other; a new one after each hang or crash."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-fuzz-")
        self._process = WatchedProcess(serve)

    def judge(self, subject: Mutant) -> Outcome:
        path = Path(self._folder.name) / f"mutant{subject.suffix}"
        path.write_bytes(subject.raw)
        self._process.send(Task(str(path), in_c=subject.number % ONE_IN_C == 0))
        seconds, stage = COMPILE_SECONDS, "compile"
        while True:
            answer: Outcome | str | Lost = self._process.receive(seconds)
            if isinstance(answer, Lost):
                if answer.exit_code is None:
                    return Outcome("hang", stage, f"no answer in {seconds} s")
                return Outcome("crash", str(answer.exit_code), f"the process ended in {stage}")
            if isinstance(answer, Outcome):
                return answer
            seconds, stage = VERIFY_SECONDS, "verify"

    def close(self) -> None:
        self._process.close()
        self._folder.cleanup()


def fuzz(subjects: Sequence[Subject], seed: int, count: int, workers: int) -> Iterator[Judged]:
    """Every mutant with its outcome, in their order."""
    every = [Worker() for _ in range(workers)]
    free = list(every)

    def judged(number: int) -> Judged:
        worker = free.pop()
        made = mutant(subjects, seed, number)
        outcome = worker.judge(made)
        free.append(worker)
        return Judged(made, outcome)

    try:
        with ThreadPoolExecutor(workers) as executor:
            yield from executor.map(judged, range(count))
    finally:
        for worker in every:
            worker.close()


def model_files(names: Sequence[str]) -> list[Path]:
    """The named model files, or those of the repository and of the folder beside it."""
    if names:
        return [Path(name) for name in names]
    shared = REPOSITORY.parent / "shared" / "models"
    found = [p for pattern in DEFAULT_MODELS for p in sorted(REPOSITORY.glob(pattern))]
    found += [p for pattern in SHARED_MODELS for p in sorted(shared.glob(pattern))]
    small = (p for p in found if p.stat().st_size <= LARGEST_MODEL_BYTES)
    return list({path.resolve(): path for path in small}.values())


def _models(names: Sequence[str], onnx: bool) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every model that is mutated."""
    if onnx:
        yield from onnx_subjects().items()
        return
    for path in model_files(names):
        yield path.name, path.read_bytes()


def table(judged: Sequence[Judged]) -> str:
    """Outcomes counted, by kind and code, the frequent ones first within what is right and not."""
    counts = Counter((j.outcome.right, j.outcome.kind, j.outcome.code) for j in judged)
    lines = [f"{'mutants':>8}  outcome"]
    for (_, kind, code), count in sorted(counts.items(), key=lambda i: (not i[0][0], -i[1], i[0])):
        lines.append(f"{count:>8}  {kind} {code}".rstrip())
    return "\n".join(lines)


def save(finding: Judged, folder: Path) -> str:
    """Saves a finding and says what it is and how to see it again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"mutant-{finding.mutant.number:05d}{finding.mutant.suffix}"
    path.write_bytes(finding.mutant.raw)
    path.with_suffix(".txt").write_text(f"{finding.mutant.story}\n{finding.outcome.note}\n")
    last = finding.outcome.note.strip().splitlines()[-1:] or [""]
    return (
        f"{finding.outcome.kind} {finding.outcome.code}: {finding.mutant.story}\n"
        f"    {last[0]}\n    python -m benchmarks.fuzz --replay {path}"
    )


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0, or 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="model files to mutate")
    parser.add_argument("--onnx", action="store_true", help="mutate small ONNX models instead")
    parser.add_argument("--mutants", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="other mutants (default: 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder")
    parser.add_argument("--replay", metavar="MUTANT", help="judge this file as it is, here")
    chosen = parser.parse_args(arguments)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread reserves memory that the limit counts
    if chosen.replay:
        outcome = judge(Task(chosen.replay))
        print(f"{outcome.kind} {outcome.code}\n{outcome.note}")
        return int(not outcome.right)
    subjects = [Subject.of(name, raw) for name, raw in _models(chosen.models, chosen.onnx)]
    print(f"{chosen.mutants} mutants of {len(subjects)} models, seed {chosen.seed}", flush=True)
    judged: list[Judged] = []
    for each in fuzz(subjects, chosen.seed, chosen.mutants, chosen.workers):
        judged.append(each)
        if not each.outcome.right:
            print(save(each, chosen.findings), flush=True)
    print(table(judged))
    skipped = sum(each.outcome.kind == "compiled" for each in judged)
    print(f"{skipped} that compiled were too large to run")
    return int(any(not each.outcome.right for each in judged))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
