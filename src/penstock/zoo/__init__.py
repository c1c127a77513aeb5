"""Networks without files: well-known architectures with seeded weights, one file each."""
