"""The path from a problem and a config to a rendered kernel: expressions, constants, launch, model, header text."""
