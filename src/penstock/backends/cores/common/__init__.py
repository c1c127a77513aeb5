"""Code that the core families share: bit-exact requantisation, kernel parameters, cycle models."""
