"""The accelerators that come with penstock.  Each is a module or package that uses only
`penstock.uma`.

A module of this folder has the name of its accelerator and defines its `UMABackend`.
"""
