"""GPTQ's tensors: rows of K in words, columns of N beside each other.

qweight  int32, ceil(K * bits / 32) x N: the codes of a column follow each other along K, the lowest bits first
qzeros   int32, groups x ceil(N * bits / 32): the zero points of a group follow each other along N
scales   groups x N
g_idx    int32, K: the group of each k; it may be missing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.checkpoints.scheme import Scheme
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.checkpoints.words import (
    WORD_BITS,
    array_of,
    codes_of,
    require_bits,
    require_in_order,
    require_shape,
    words_of,
    zeros_of,
)
from gemmgen.support.errors import require

# Version 1 stores zero points less one. Its writers subtract this from whole words, so that a zero point of 0 borrows
# from the next one; adding it to whole words is the exact inverse.
ONE_IN_EACH = {4: np.uint32(0x11111111), 8: np.uint32(0x01010101)}


def gptq_weight(tensors: Mapping[str, Any], scheme: Scheme) -> QuantisedWeight:
    """The weight of a layer with these tensors. Raises InvalidInput for tensors that do not fit, and for act-order."""
    require_bits("GPTQ", scheme.bits)
    per_word = WORD_BITS // scheme.bits
    words, scales = words_of(tensors, "qweight"), array_of(tensors, "scales")
    rows, n = words.shape
    k = len(array_of(tensors, "g_idx", 1)) if "g_idx" in tensors else rows * per_word
    group = scheme.group_of(k)
    need = f"{-(-k // per_word)} rows"
    require(rows == -(-k // per_word), f"qweight has {rows} rows: g_idx of {k} and {scheme.bits} bits need {need}")
    of_groups = f"W of {n} x {k} in groups of {group}"
    groups = -(-k // group)
    require_shape("scales", scales, (groups, n), of_groups)
    zero_words = words_of(tensors, "qzeros")
    require_shape("qzeros", zero_words, (groups, -(-n // per_word)), f"{of_groups} with {scheme.bits} bits")
    if "g_idx" in tensors:
        require_in_order("g_idx", array_of(tensors, "g_idx", 1), k, group)
    if scheme.form == "gptq":
        zero_words = zero_words + ONE_IN_EACH[scheme.bits]
    zeros = np.ascontiguousarray(codes_of(zero_words, scheme.bits)[:, :n])
    codes = np.ascontiguousarray(codes_of(words.T, scheme.bits)[:, :k])
    found = zeros_of(zeros, scheme.bits, scheme.symmetric, f"is checkpoint_format = {scheme.form} right?")
    return QuantisedWeight(codes, scales, found, group, scheme.bits)
