"""Support for all rooms: errors, whole files and the store of results, processes that may die, clock, version."""
