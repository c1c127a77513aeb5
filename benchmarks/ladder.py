"""Ladder: every int8 network of the shared folder against its goldens, on all rungs.

    python -m benchmarks.ladder [--models FOLDER] [MODEL ...]

Exits with 1 where an element differs, or where a model that penstock takes fails.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.climb import Climb, climb
from benchmarks.entry import console, entry, first_line
from benchmarks.figures import TARGET
from benchmarks.shared import Shared, find_shared
from penstock import api
from penstock.errors import ModelError, PenstockError


def main(arguments: Sequence[str]) -> int:
    """Prints a line each archive, what is not taken, and totals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description=__doc__)
    parser.add_argument("--models", type=Path, help="folder of models and goldens")
    parser.add_argument("names", nargs="*", metavar="MODEL", help="by file name; default all")
    wanted = parser.parse_args(arguments)
    shared, out = find_shared(wanted.models), console()
    every = (*shared.networks(), *shared.operators())
    models = shared.named(wanted.names) if wanted.names else every
    climbs: list[Climb] = []
    unsupported: list[str] = []
    failed = 0
    for model in models:
        if reason := _not_taken(model):
            unsupported.append(f"{model.stem}: {reason}")
            continue
        try:
            climbs += _climb_all(shared, model, out)
        except PenstockError as error:
            failed += 1
            out.print(f"FAILED {model.stem}: {error}", markup=False)
    for line in unsupported:
        out.print(f"not taken: {line}", markup=False)
    _print_totals(out, climbs, len(unsupported), failed)
    return 1 if failed or any(c.mismatches for c in climbs) else 0


def _not_taken(model: Path) -> str:
    """Why penstock does not take a model; nothing where it does."""
    try:
        api.compile(model, TARGET)
    except ModelError as error:
        return first_line(error)
    return ""


def _climb_all(shared: Shared, model: Path, out: Console) -> Iterator[Climb]:
    for archive in shared.goldens(model):
        found = climb(api.request(model, TARGET), archive)
        out.print(_line(found), markup=False)
        yield found


def _line(found: Climb) -> str:
    """Tensors, elements and mismatches of every rung; the first difference."""
    rungs = "  ".join(f"{r.step} {r.tensors}/{r.elements:,}/{r.mismatches}" for r in found.rungs)
    return f"{found.archive:44} {rungs}  {found.difference}".rstrip()


def _print_totals(out: Console, climbs: Sequence[Climb], unsupported: int, failed: int) -> None:
    out.print("tensors / elements / mismatches of each rung, in all archives:")
    for step in dict.fromkeys(r.step for c in climbs for r in c.rungs):
        rungs = [r for c in climbs for r in c.rungs if r.step == step]
        tensors, elements = sum(r.tensors for r in rungs), sum(r.elements for r in rungs)
        out.print(
            f"  {step:10} {tensors:,} / {elements:,} / {sum(r.mismatches or 0 for r in rungs):,}"
        )
    out.print(f"{len(climbs)} archives, {unsupported} models not taken, {failed} failed")


if __name__ == "__main__":
    entry(main)
