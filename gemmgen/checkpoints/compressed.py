"""The tensors of compressed-tensors, format "pack-quantized".

weight_packed      int32, N x ceil(K * bits / 32): signed values plus the middle code, the lowest bits of a word first
weight_scale       N x groups
weight_shape       integers N, K
weight_zero_point  int32, ceil(N * bits / 32) x groups: likewise, in words along N; missing in symmetric schemes
weight_g_idx       the group of each k, in act-order
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.checkpoints.scheme import Scheme
from gemmgen.checkpoints.weight import Codes, QuantisedWeight
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


def compressed_weight(tensors: Mapping[str, Any], scheme: Scheme) -> QuantisedWeight:
    """The weight of a layer with these tensors. Raises InvalidInput for tensors that do not fit, and for act-order."""
    require_bits(scheme.form, scheme.bits)  # codes of other widths cross words
    shape = array_of(tensors, "weight_shape", 1)
    require(shape.size == 2, f"weight_shape has {shape.size} numbers: N and K are needed, one expert at a time")
    n, k = (int(size) for size in shape)
    require(min(n, k) > 0, f"weight_shape = {n} x {k}: at least 1 x 1 is needed")
    words, scales = words_of(tensors, "weight_packed"), array_of(tensors, "weight_scale")
    per_word, group = WORD_BITS // scheme.bits, scheme.group_of(k)
    require_shape("weight_packed", words, (n, -(-k // per_word)), f"W of {n} x {k} with {scheme.bits} bits")
    require_shape("weight_scale", scales, (n, -(-k // group)), f"W of {n} x {k} in groups of {group}")
    if "weight_g_idx" in tensors:
        require_in_order("weight_g_idx", array_of(tensors, "weight_g_idx", 1), k, group)
    codes = np.ascontiguousarray(codes_of(words, scheme.bits)[:, :k])
    zeros = _zeros(tensors, scheme, n, -(-k // group))
    return QuantisedWeight(codes, np.ascontiguousarray(scales.T), zeros, group, scheme.bits)


def _zeros(tensors: Mapping[str, Any], scheme: Scheme, n: int, groups: int) -> Codes | None:
    """Zero points, groups x N."""
    if "weight_zero_point" not in tensors:
        require(scheme.symmetric is not False, "no tensor weight_zero_point, and symmetric = false")
        return None
    words = words_of(tensors, "weight_zero_point")
    packed = -(-n * scheme.bits // WORD_BITS)
    require_shape("weight_zero_point", words, (packed, groups), f"N = {n} in {groups} groups, packed along N,")
    zeros = np.ascontiguousarray(codes_of(words.T, scheme.bits)[:, :n])
    return zeros_of(zeros, scheme.bits, scheme.symmetric, "is symmetric = true right?")
