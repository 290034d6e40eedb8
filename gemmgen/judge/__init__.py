"""Comparison of a kernel with cuBLASLt or another kernel: bench, explain, diff."""
