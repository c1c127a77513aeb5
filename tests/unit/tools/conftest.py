"""What several of these tests need: the reference runtime."""

from __future__ import annotations

import pytest


@pytest.fixture
def runtime() -> None:
    """Skips where the reference is not installed."""
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
