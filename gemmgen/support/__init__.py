"""What every room uses: errors, whole files and the store of results, processes that may die, clock, version."""
