"""A functional model of Arm's Ethos-U55, U65 and U85 that executes register command streams.

    execute(stream, regions, accelerator)    executes a stream on byte arrays and checks it
    execute_parts(stream, ends, ..)          executes it in parts
    disassemble(stream), assemble(text)      converts a stream to text and back
    driver_payload(payload)                  extracts the stream from a payload of Arm's driver

The model interprets registers and is independent of the code that generates streams. It computes
every operation bit-exactly. It checks that every access is inside its memory region, and that
operations that run concurrently do not conflict (`hazards.py`). It does not model time.
"""

from __future__ import annotations

from penstock_ethos_u.interpreter.commands import assemble, disassemble, driver_payload
from penstock_ethos_u.interpreter.execution import Execution, execute, execute_parts

__all__ = [
    "Execution",
    "assemble",
    "disassemble",
    "driver_payload",
    "execute",
    "execute_parts",
]
