"""The compiler pipeline: `stages.py` lists the stages in order; read that file first.

read -> simplify -> assign -> schedule -> place -> lower -> write
"""
