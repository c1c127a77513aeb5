"""Run: every generator in turn in worker processes, each case within limits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from threading import Lock

from benchmarks.torture.case import Generator, Outcome, Verdict
from benchmarks.torture.minimise import SECONDS as MINIMISING_SECONDS
from benchmarks.torture.minimise import same
from benchmarks.torture.worker import Answer, Drawn, Task, serve
from benchmarks.watched_process import Lost, WatchedProcess

CRASH = "crash"
DRAWING_SECONDS = 120.0
TURN_SECONDS = (10.0, 600.0)
"""Each turn begins with a new process, which imports torch and TensorFlow."""
SMALLER_PER_CLASS = 3
"""So many findings of a class are made small; of the others, only the seed is kept."""


@dataclass
class Tally:
    """What came of the cases of a generator, of so many seeds.  `shared` counts the networks of
    which a share is stated (`Case.share`), and those of them that compile."""

    seeds: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    refusals: Counter[str] = field(default_factory=Counter[str])
    shared: Counter[bool] = field(default_factory=Counter[bool])
    seconds: float = 0.0

    @property
    def models(self) -> int:
        return sum(self.outcomes.values())

    def add(self, answer: Answer) -> None:
        self.seeds += 1
        if not answer.models:
            return
        verdict = answer.verdict
        self.outcomes[verdict.outcome] += answer.models
        refused = (Outcome.REFUSED, Outcome.NO_REMEDY, Outcome.MALFORMED)
        if verdict.outcome in refused:
            self.refusals[f"{verdict.code} {verdict.cause}"] += answer.models
        if answer.share:
            self.shared[verdict.outcome not in refused] += answer.models


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: seeds from `seed` on, until `seconds` have passed or each generator has drawn
    `count` seeds."""

    generators: Sequence[Generator]
    seed: int
    seconds: float
    count: int | None = None
    workers: int = 2
    minimise: bool = True


class Run:
    """A run in progress.  `on_finding` receives each finding, made small unless there are many;
    `on_turn` what came of a generator so far, whenever its turn is over."""

    def __init__(
        self,
        plan: Plan,
        on_finding: Callable[[Generator, Answer], None],
        on_turn: Callable[[Generator, Tally], None],
    ) -> None:
        self._plan, self._on_finding, self._on_turn = plan, on_finding, on_turn
        self.tallies: Mapping[str, Tally] = {g.name: Tally() for g in plan.generators}
        self._seeds = {g.name: iter(_seeds(plan)) for g in plan.generators}
        self._waiting = list(plan.generators)
        self._classes: Counter[tuple[str, ...]] = Counter()
        self._lock = Lock()
        self._end = time.monotonic() + plan.seconds
        share = plan.seconds * plan.workers / max(1, 2 * len(plan.generators))
        least, most = TURN_SECONDS
        self._turn = min(max(share, least), most)

    def finish(self) -> None:
        """Returns when the time is over or every generator has drawn its seeds."""
        with ThreadPoolExecutor(self._plan.workers) as executor:
            slots = [executor.submit(self._slot) for _ in range(self._plan.workers)]
            for slot in as_completed(slots):
                slot.result()

    def _slot(self) -> None:
        """Takes turns of generators until nothing is left."""
        while time.monotonic() < self._end:
            with self._lock:
                if not self._waiting:
                    return
                generator = self._waiting.pop(0)
            if self._take_turn(generator):
                with self._lock:
                    self._waiting.append(generator)

    def _take_turn(self, generator: Generator) -> bool:
        """Whether the generator has seeds left when its turn is over."""
        process, begin = WatchedProcess(serve, generator.name), time.monotonic()
        tally = self.tallies[generator.name]
        try:
            while time.monotonic() < min(begin + self._turn, self._end):
                seed = next(self._seeds[generator.name], None)
                if seed is None:
                    return False
                answer = self._answer(process, generator, Task(seed, seed % generator.deep == 0))
                with self._lock:
                    tally.add(answer)
                if not answer.verdict.outcome.right:
                    self._found(process, generator, answer)
            return True
        finally:
            tally.seconds += time.monotonic() - begin
            process.close()
            self._on_turn(generator, tally)

    def _answer(self, process: WatchedProcess, generator: Generator, task: Task) -> Answer:
        process.send(task)
        answer: Answer | Drawn | Lost = process.receive(DRAWING_SECONDS)
        if isinstance(answer, Lost):  # no finding: the tools of others crash
            return Answer(task.seed, Verdict(Outcome.NOT_JUDGED))
        if isinstance(answer, Answer):
            return answer
        drawn, extra = answer.answer, MINIMISING_SECONDS * 2 if task.verdict else 0.0
        judged: Answer | Lost = process.receive(generator.limits.seconds + extra)
        return _lost(drawn, judged) if isinstance(judged, Lost) else judged

    def _found(self, process: WatchedProcess, generator: Generator, answer: Answer) -> None:
        verdict = answer.verdict
        with self._lock:
            self._classes[verdict.signature] += 1
            many = self._classes[verdict.signature] > SMALLER_PER_CLASS
        is_lost = verdict.outcome is Outcome.TIME or verdict.code == CRASH
        if many or is_lost or not answer.raw or not self._plan.minimise:
            self._on_finding(generator, answer)
            return
        task = Task(answer.seed, False, answer.raw, verdict)
        smaller = self._answer(process, generator, task)
        self._on_finding(generator, smaller if same(smaller.verdict, verdict) else answer)


def _seeds(plan: Plan) -> Iterator[int]:
    seed = plan.seed
    while plan.count is None or seed < plan.seed + plan.count:
        yield seed
        seed += 1


def _lost(drawn: Answer, lost: Lost) -> Answer:
    """The answer for a process that gave none on a case."""
    if lost.exit_code is None:
        verdict = Verdict(Outcome.TIME, note="computed for longer than the limit")
    else:
        verdict = Verdict(Outcome.INTERNAL, CRASH, str(lost.exit_code), "the process ended")
    return replace(drawn, verdict=verdict)
