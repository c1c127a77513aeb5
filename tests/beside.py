"""The folder `shared` beside the repository: models, cases and figures of others.

The repository does not contain it, and everything but the tests that need it works without.  Every
use in tests goes through this module, so that these tests skip with one message, by which a later
run finds them (`--only`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("PENSTOCK_SHARED") or REPOSITORY.parent / "shared")
"""The environment variable serves a clone that has nothing beside it."""
MODELS, CASES = FOLDER / "models", FOLDER / "cases"
REASON = "needs the folder 'shared' beside the repository"


def needed(path: Path) -> Path:
    """A path in the folder; skips the test if it does not exist."""
    if not path.exists():
        pytest.skip(f"{REASON}: {path.name}")
    return path


def need(path: Path) -> pytest.MarkDecorator:
    """A mark that skips a test if a path in the folder does not exist."""
    return pytest.mark.skipif(not path.exists(), reason=f"{REASON}: {path.name}")


def is_missing(reason: object) -> bool:
    """Whether a test was skipped because the folder is missing."""
    return REASON in str(reason)
