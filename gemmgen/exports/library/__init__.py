"""Libraries of kernels with one dispatcher: `gemmgen library`."""
