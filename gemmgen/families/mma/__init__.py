"""Products on tensor cores by mma.sync. Templates: templates/mma/."""
