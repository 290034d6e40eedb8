"""Kernels called on arrays of other libraries, in place: no operand is copied.

kernel.py     ArrayKernel, which `gemmgen.load` returns; a Plan for many launches. Every call reaches
              `ArrayKernel.seen`; the complete check, `_checked`, runs only for operands of an unknown layout
fastcall.py   known calls on torch's tensors, by fastcall.c if it can be compiled; all others use kernel.py
library.py    a library's folder: its products by name, its rules among kernels
view.py       an array's own description: address, shape, strides, type, device
dlpack.py     the same for arrays that support only DLPack
libraries.py  torch, CuPy, PyCUDA, JAX and numpy: new arrays, current streams
overlap.py    whether two of them share an element
binding.py    arrays checked against a kernel: the launch's sizes, or an error
load.py       the choice between the next two
card.py       launches on the caller's context and stream
emulated.py   the same kernel in the emulator, on arrays of the host
"""
