"""A file that an exporter can make, and its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class FileName:
    """What the name of a file says: framework, network, and form.

    form: how it is quantised, after the exporter if the framework has several."""

    framework: str
    network: str
    form: str
    suffix: str

    @classmethod
    def of(cls, name: str) -> FileName:
        """The parts of the name of a file."""
        framework, network, form, suffix = name.split(".")
        return cls(framework, network, form, f".{suffix}")

    def __str__(self) -> str:
        return f"{self.framework}.{self.network}.{self.form}{self.suffix}"

    @property
    def quantisation(self) -> str:
        """The form without the exporter."""
        return self.form.split("-", 1)[1] if self.suffix == ".onnx" else self.form


@dataclass(frozen=True, slots=True)
class Making:
    """The name of a file, and the function that returns its bytes."""

    name: FileName
    make: Callable[[], bytes]
