"""Tests of the verifier: planted bugs, right edits and mutants. Nothing in the product imports it."""
