"""Code shared by the core families: proved requantisation, kernel parameters, cycle models."""
