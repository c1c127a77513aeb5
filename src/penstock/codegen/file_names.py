"""Names that are derived from the name of a model."""

from __future__ import annotations

from pathlib import Path

from penstock.codegen.c_text import prefix
from penstock.frontends.suffixes import MODEL_SUFFIXES


def c_prefix(model_name: str) -> str:
    """Return the prefix of all public C names, derived from the name of a file or zoo network.

    A file suffix and everything after it are removed.
    """
    name = model_name.removeprefix("zoo:").removesuffix(".gz")
    suffix = next((s for s in MODEL_SUFFIXES if s in name), "\0")
    return prefix(name.rsplit(suffix, 1)[0])


def default_folder(model: str) -> str:
    """Return the name of the default output directory of a model file or zoo network."""
    is_zoo = model.startswith("zoo:")
    return c_prefix(model.split(":")[1] if is_zoo else Path(model).name)
