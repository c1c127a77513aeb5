"""Import of model files: decoders, which know no operators, and `open`, which selects one."""
