"""The default target; a module of its own, which help texts import quickly."""

from __future__ import annotations

from typing import Final

# Default of `--target` and of the `target` parameter of the Python API.
DEFAULT_TARGET: Final = "cortex-m4"
