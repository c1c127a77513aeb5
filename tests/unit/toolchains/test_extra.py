"""The optional packages: penstock imports without them, and names them when they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import ToolError
from penstock.toolchains.command import extra

IMPORT_WITHOUT_EXTRAS = """
import sys
for name in ("ziglang", "unicorn", "capstone", "elftools"):
    sys.modules[name] = None
import penstock.simulators.cortex_m, penstock.toolchains.cortex_m, penstock.toolchains.host
print("imported")
"""


def test_everything_imports_without_the_optional_packages() -> None:
    words = [sys.executable, "-c", IMPORT_WITHOUT_EXTRAS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("imported\n", "")


def test_a_missing_package_is_a_tool_error() -> None:
    with pytest.raises(ToolError, match="'no_such_package_at_all'") as caught:
        extra("no_such_package_at_all")
    assert (caught.value.code, caught.value.help) == (
        "tool-001",
        "pip install 'penstock[simulate]'",
    )
