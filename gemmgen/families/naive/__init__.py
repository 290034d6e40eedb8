"""One thread per element of C, operands straight from global memory. Templates: templates/naive/."""
