"""NVIDIA's compute-sanitizer: one tool on one kernel, the process that it watches, and what a verdict makes of it."""
