"""AWQ's tensors of version "gemm": words along N, whose 4-bit codes are interleaved.

qweight  int32, K x N / 8
qzeros   int32, groups x N / 8: zero points as they are, in the same order
scales   groups x N
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.checkpoints.scheme import Scheme
from gemmgen.checkpoints.weight import Codes, QuantisedWeight
from gemmgen.checkpoints.words import array_of, codes_of, require_bits, require_shape, words_of, zeros_of
from gemmgen.support.errors import require

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column, of the 8 of a word, whose code is in the word's half byte i


def awq_weight(tensors: Mapping[str, Any], scheme: Scheme) -> QuantisedWeight:
    """The weight of a layer with these tensors. Raises InvalidInput for tensors that do not fit."""
    require_bits("AWQ", scheme.bits, known=(4,))
    words, scales = words_of(tensors, "qweight"), array_of(tensors, "scales")
    k, n = words.shape[0], words.shape[1] * len(ORDER)
    group = scheme.group_of(k)
    require(k % group == 0, f"K = {k}: AWQ needs a multiple of the group, {group}")
    of_groups = f"qweight of K = {k} and N = {n} in groups of {group} (version gemm)"
    require_shape("scales", scales, (k // group, n), of_groups)
    zero_words = words_of(tensors, "qzeros")
    require_shape("qzeros", zero_words, (k // group, n // len(ORDER)), of_groups)
    zeros = zeros_of(_columns(zero_words), scheme.bits, scheme.symmetric, "is zero_point = false right?")
    return QuantisedWeight(np.ascontiguousarray(_columns(words).T), scales, zeros, group, scheme.bits)


def _columns(words: npt.NDArray[np.uint32]) -> Codes:
    """The codes of each row of words in the order of their columns."""
    stored = codes_of(words, 4).reshape(len(words), -1, len(ORDER))
    return stored[:, :, np.argsort(ORDER)].reshape(len(words), -1)
