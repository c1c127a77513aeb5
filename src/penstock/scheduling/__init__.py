"""Scheduling: which nodes run together, in which order and stripes, and at what cost.

This package names no operator and assigns no address.
"""
