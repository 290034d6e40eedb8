"""Is a kernel right? Situations, the reference and its bound, the verifier; fuzzing; seeded bugs; compute-sanitizer."""
