"""Log: a folder with the files of findings, tests to paste, and a line of JSON for each finding and
for the counts of each turn."""

from __future__ import annotations

import base64
import json
import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from benchmarks.torture.case import Generator, Verdict
from benchmarks.torture.run import Tally
from benchmarks.torture.worker import Answer

NAME = "log.jsonl"
TEST = '''\
def test_{name}() -> None:
    """{summary}"""
    raw = base64.b85decode(
{text}
    )
    case = Case(raw, "{suffix}", {judge}.judge, target="{target}")
    verdict = verdict_on(case, deep=True)
    assert verdict.outcome.right, verdict.note
'''
LARGEST_TEST_BYTES = 4096


class Log:
    """Appends findings to a folder; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self.findings = 0
        self._folder, self._lock = folder, Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, generator: Generator, answer: Answer) -> None:
        """Writes a finding and prints a line about it."""
        verdict = answer.verdict
        stem = f"{_identifier(verdict.outcome.value)}-{generator.name}-{answer.seed}"
        with self._lock:
            self.findings += 1
            self._counts[verdict.signature] += 1
            self._folder.mkdir(parents=True, exist_ok=True)
            file = f"{stem}{answer.suffix}" if answer.raw else ""
            if file:
                (self._folder / file).write_bytes(answer.raw)
                if len(answer.raw) <= LARGEST_TEST_BYTES:
                    text = pasted_test(stem, answer)
                    (self._folder / f"{stem}.txt").write_text(text)
            self._append(
                {
                    "generator": generator.name,
                    "seed": answer.seed,
                    "outcome": verdict.outcome.value,
                    "code": verdict.code,
                    "cause": verdict.cause,
                    "file": file,
                    "bytes": len(answer.raw),
                    "note": verdict.note,
                }
            )
            print(f"{generator.name} {answer.seed}: {_line(verdict)} {file}".rstrip(), flush=True)

    def count(self, first: int, generator: Generator, tally: Tally) -> None:
        """Appends a line with what came of the seeds of a generator so far, from the first on."""
        with self._lock:
            counts = {o.value: n for o, n in tally.outcomes.items()}
            self._append(
                {
                    "generator": generator.name,
                    "first seed": first,
                    "seeds": tally.seeds,
                    "models": tally.models,
                    "counts": counts,
                }
            )

    def _append(self, record: Mapping[str, object]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / NAME).open("a") as file:
            file.write(json.dumps(record) + "\n")


def pasted_test(stem: str, answer: Answer) -> str:
    """A test of the file, ready to paste."""
    encoded = base64.b85encode(answer.raw).decode()
    lines = textwrap.wrap(encoded, 84, break_on_hyphens=False)
    return TEST.format(
        name=_identifier(stem),
        summary=_line(answer.verdict).replace('"', "'").replace("\\", "/"),
        text="\n".join(f"        {line!r}" for line in lines),
        suffix=answer.suffix,
        judge=answer.judge,
        target=answer.target,
    )


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)


def _line(verdict: Verdict) -> str:
    """The outcome in one line; of a traceback, its last."""
    lines = verdict.note.strip().splitlines() or [""]
    said = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    parts = (verdict.outcome.value, verdict.code, verdict.cause, said)
    return ": ".join(part for part in parts if part)
