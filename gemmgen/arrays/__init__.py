"""A kernel called on the arrays of other libraries, where they lie: no copy of an operand.

kernel.py     ArrayKernel, which `gemmgen.load` gives; a Plan for many launches. Every call comes to `ArrayKernel.seen`,
              and to the complete check, `_checked`, only where operands lie in a way that is not known
fastcall.py   known calls on torch's tensors, by fastcall.c where it can be compiled; all others go the way above
library.py    a library's folder: its products by name, its rules among kernels
view.py       what an array says of itself: address, shape, strides, type, device
dlpack.py     the same of one that speaks DLPack alone
libraries.py  torch, CuPy, PyCUDA, JAX and numpy: new arrays, current streams
overlap.py    whether two of them share an element
binding.py    arrays held against what a kernel takes: the launch's sizes, or what does not fit
load.py       which of the next two runs it
card.py       launches on the caller's context and stream
emulated.py   the same kernel in the emulator, on arrays of the host
"""
