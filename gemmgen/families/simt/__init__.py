"""Products on CUDA cores. Templates: templates/simt/."""
