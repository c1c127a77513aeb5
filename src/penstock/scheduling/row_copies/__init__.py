"""Row copies: tensors in slow memory that cascades read from rings in faster memory."""
