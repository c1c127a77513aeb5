"""Commands that measure penstock and print its figures beside those of other compilers."""
