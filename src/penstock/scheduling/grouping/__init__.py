"""Grouping: which nodes of a network run as one group, in which order, and in which banks.

A *group* keeps the tensors between its nodes on the chip; what crosses its border goes through
external memory.  Nodes are abstract here (`problem.py`), and so is what a group costs (`cost.py`).
"""
