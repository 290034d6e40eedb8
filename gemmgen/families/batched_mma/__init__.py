"""Many small products on tensor cores. Templates: templates/batched_mma/."""
