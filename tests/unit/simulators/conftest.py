"""What several of these tests need: the developers' models, where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of real networks and their goldens, beside the checkout."""
    folder = ROOT.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("the shared models are not beside this checkout")
    return folder


@pytest.fixture
def runtime() -> None:
    """Skips where the reference is not installed."""
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
