"""Json: the values of JSON, as reports return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
