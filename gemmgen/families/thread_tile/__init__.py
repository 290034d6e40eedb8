"""Thread tiles in registers, operands straight from global memory. Templates: templates/thread_tile/."""
