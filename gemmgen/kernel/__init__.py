"""From a problem and a config to a rendered kernel: families, constants, launch, model, header text, templates."""
