"""The accelerators that come with penstock.

Each is a module or package that uses only `penstock.uma`, is named after its accelerator, and
defines its `UMABackend`.
"""
