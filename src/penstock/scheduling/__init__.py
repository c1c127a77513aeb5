"""Scheduling: which nodes run together, in which order and stripes, and at what cost.

This package contains no operator-specific code and assigns no addresses.
"""
