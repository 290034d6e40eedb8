"""What to compute: element types, how matrices lie in memory, the GEMM itself, and the cards that it is for."""
