"""Is the verifier right? Planted bugs, right edits and mutants. Nothing of the product imports it."""
