"""UMABackend, the base class of accelerator descriptions: registration, validation, source files.

Source of the interface: TVM RFC 0060 (UMA).
"""
