"""Code shared by the core families: certified layers, kernel parameters, cycle models."""
