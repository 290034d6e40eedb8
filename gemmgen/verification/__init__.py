"""Verification of kernels: situations, the reference and its bound, the verifier, fuzzing, and compute-sanitizer."""
