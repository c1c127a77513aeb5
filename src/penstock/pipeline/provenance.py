"""Provenance: the name of a model in generated files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from penstock.codegen.c_text import prefix
from penstock.frontends.open import SUFFIXES, read_bytes
from penstock.pipeline.request import Request


def c_prefix(model_name: str) -> str:
    """The prefix of all public C names: the file name, or the zoo name, without its suffixes."""
    name = model_name.removeprefix("zoo:").removesuffix(".gz")
    suffix = next((s for s in SUFFIXES if s in name), "\0")
    return prefix(name.rsplit(suffix, 1)[0])


def provenance(request: Request) -> str:
    """The model, its digest, the target and how the model was read, for the head of each file."""
    text = f"{_source(request.model)}, for {request.target.name}"
    if request.reading.assume_int8:
        text += ", as if it were int8: scales are made up, answers mean nothing"
    return text


def _source(model: str) -> str:
    """The name of a zoo network, or the name and the SHA-256 digest of a file."""
    if model.startswith("zoo:"):
        return model
    digest = hashlib.sha256(read_bytes(Path(model))).hexdigest()
    return f"{Path(model).name} (sha256 {digest[:16]})"
