"""The path from a problem and a config to a rendered kernel: expressions, contract, launch, model, header text."""
