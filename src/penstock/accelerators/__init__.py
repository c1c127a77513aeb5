"""Accelerators that come with penstock, one file or one folder each, through `penstock.uma` alone.

A module of this folder is called as its accelerator, and defines its `UMABackend`.
"""
