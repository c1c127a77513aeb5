"""Grouping: which nodes run as one group, in which order, and in which memory banks.

The tensors between the nodes of a *group* stay on chip; tensors that cross its boundary go through
external memory.  Nodes are abstract (`problem.py`), and so is the cost of a group (`cost.py`).
"""
