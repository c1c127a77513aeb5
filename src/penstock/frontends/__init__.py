"""Import of model files: decoders, which are independent of operators, and `open`, which selects a
decoder."""
