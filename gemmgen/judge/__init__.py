"""One kernel beside cuBLASLt or another kernel: bench, explain, diff."""
