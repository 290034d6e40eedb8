"""Running kernels: the executor's contract, NVRTC, machine code, the GPU and the emulator."""
