"""Operators, one file each: all that an operator means.  `registry` finds them."""
