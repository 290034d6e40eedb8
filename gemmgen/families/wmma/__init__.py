"""Tensor cores through `nvcuda::wmma`. Templates: templates/wmma/."""
