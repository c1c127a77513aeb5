"""UMABackend, the description of an accelerator: registration, validation, memories, files.

Source of the interface: TVM RFC 0060 (UMA).
"""
