"""Grouping: which nodes run as one group, in which order, and in which memory banks.

The tensors between the nodes of a *group* stay on chip; tensors that cross its boundary are stored
in external memory.  The algorithms depend only on the abstract nodes of `problem.py` and on the
abstract cost of a group, `cost.py`.
"""
