"""Lengths of the random input sequences for models with state."""

from __future__ import annotations

from typing import Final

SEQUENCE_STEPS: Final = 8
"""Runs of each random sequence for a model with state."""

HOPS: Final = 200
"""Runs of the random sequence for an incremental network."""
