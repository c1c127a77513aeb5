"""Kernels without scratch: a second search is made only where they differ from the first ones."""

from __future__ import annotations

from penstock.backends.portable import lean
from penstock.pipeline import Request, parts_of, read, simplify_for
from toy_accelerator import toy_request


def test_what_accelerators_leave_is_no_reason_to_search_again() -> None:
    request: Request = toy_request("zoo:lenet5", "host")
    parts = parts_of(simplify_for(read(request.model), request), request)
    assert parts.left
    assert lean(parts) == parts
