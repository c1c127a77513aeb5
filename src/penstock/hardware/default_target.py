"""The default target; a module of its own, which help texts import quickly."""

from __future__ import annotations

from typing import Final

DEFAULT_TARGET: Final = "cortex-m4"
"""Default of `--target` and of the `target` parameter of the Python API."""
