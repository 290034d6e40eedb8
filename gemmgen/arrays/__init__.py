"""Kernels called on arrays of other libraries, in place: no operand is copied.

kernel.py     ArrayKernel, which `gemmgen.load` returns; a Plan for many launches. Every call reaches
              `ArrayKernel.seen`; the complete check, `_checked`, runs only for operands of an unknown layout
fastcall.py   known calls on torch's tensors, by fastcall.c if it can be compiled; all others use kernel.py
library.py    a library's folder: its products by name, its rules among kernels; the choice of the device
view.py       an array's own description: address, shape, strides, type, device; DLPack
libraries.py  torch, CuPy, PyCUDA, JAX and numpy: new arrays, current streams
binding.py    arrays checked against a kernel: the launch's sizes, or an error
checked.py    the result, for later calls of the same layout; whether operands share an element
card.py       launches on the caller's context and stream
emulated.py   the same kernel in the emulator, on arrays of the host
"""
