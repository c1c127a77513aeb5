"""Progress callbacks that do nothing: the defaults of the API's functions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class _Ignored:
    """Ignores the beginning of a stage, and its progress.  `help` shows `name` as the default."""

    name: str

    def __call__(self, name: str, done: int = 0, of: int = 1) -> None:
        pass

    def __repr__(self) -> str:
        return self.name


ignore_stage = _Ignored("ignore_stage")
ignore_progress = _Ignored("ignore_progress")
