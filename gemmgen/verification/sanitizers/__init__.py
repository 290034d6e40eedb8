"""NVIDIA's compute-sanitizer: one tool on one kernel, and the process that it watches."""
