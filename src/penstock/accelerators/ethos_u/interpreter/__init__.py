"""interpreter: a functional model of Arm's Ethos-U55 and U65, driven by register command streams.

    execute(stream, regions, accelerator)    runs a stream on arrays of bytes, and judges it
    disassemble(stream), assemble(text)      the stream as text, and back
    driver_payload(payload)                  the stream inside what Arm's driver is given

It knows what registers mean, and nothing of who wrote the stream: no compiler, no plan.  It
computes every operation bit for bit, checks that every access lies in its region, and that waits
and block dependencies suffice (`hazards.py`).  It is no model of time.
"""

from __future__ import annotations

from penstock.accelerators.ethos_u.interpreter.assembly import assemble, disassemble
from penstock.accelerators.ethos_u.interpreter.execution import Execution, execute
from penstock.accelerators.ethos_u.interpreter.payload import driver_payload

__all__ = ["Execution", "assemble", "disassemble", "driver_payload", "execute"]
