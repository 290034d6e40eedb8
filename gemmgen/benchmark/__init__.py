"""Against cuBLASLt: bench, the suite and its scores, the gallery; explanations; studies."""
