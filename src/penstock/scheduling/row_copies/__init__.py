"""Row copies: tensors in slow memory that cascades read or write in rings in faster memory."""
