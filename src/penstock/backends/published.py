"""published: the accelerators whose packages are in penstock's repository, for messages.

Nothing else in the core names an accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED: Mapping[str, str] = {
    "dot4": "dot4",
    "ethos_u55": "ethos-u",
    "ethos_u65": "ethos-u",
    "ethos_u65_256": "ethos-u",
    "nvdla": "nvdla",
    "smv": "smv",
    "ultra_trail": "ultra-trail",
    "vanilla": "vanilla",
}
"""By the name of an accelerator, the extra of penstock that installs its package.  The extra "x"
installs the package penstock-x, which is in the folder accelerators/penstock-x."""
