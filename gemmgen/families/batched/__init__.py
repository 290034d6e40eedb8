"""Many small products on CUDA cores. Templates: templates/batched/."""
