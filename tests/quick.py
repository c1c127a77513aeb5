"""Quick: the test files of `pytest --quick`, a cross-section that ends within a minute on 2 cores.

It holds laws that every operator obeys, the placement and scheduling judges, error messages, one
model from file to simulated core, and the measures of structure.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).resolve().parent
QUICK_FILES = (
    "errors/test_messages.py",
    "laws/test_affine.py",
    "laws/test_alias.py",
    "laws/test_cascades.py",
    "laws/test_fixedpoint.py",
    "laws/test_live_peak.py",
    "laws/test_machine.py",
    "laws/test_placement.py",
    "laws/test_result_type.py",
    "laws/test_row_placement.py",
    "laws/test_samples.py",
    "laws/test_stripe.py",
    "test_architecture.py",
    "test_end_to_end.py",
    "test_structure.py",
    "unit/memory/test_conflict.py",
    "unit/memory/test_greedy.py",
    "unit/memory/test_placement_check.py",
    "unit/memory/test_placement_problem.py",
    "unit/memory/test_rows.py",
    "unit/passes",
    "unit/test_pareto.py",
    "unit/test_public_face.py",
    "unit/tools/test_structure_measures.py",
)
"""Test files and folders, relative to `tests/`."""
QUICK_EXAMPLES = 3
"""Examples that Hypothesis draws for each law."""


def examples(count: int) -> int:
    """The number of examples of a law that asks for `count`: fewer with `--quick`."""
    return QUICK_EXAMPLES if settings().max_examples == QUICK_EXAMPLES else count


def is_quick(path: Path) -> bool:
    """Whether a path is one of QUICK_FILES, inside of one, or a folder on the way to one."""
    chosen = [TESTS / name for name in QUICK_FILES]
    return any(path == one or one in path.parents or path in one.parents for one in chosen)
