"""The compiler pipeline.  Start with `stages.py`, the table of stages.

read -> simplify -> assign -> schedule -> place -> lower -> write
"""
