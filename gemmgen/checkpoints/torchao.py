"""torchao's tensors whose zero points are integers.

Int4Tensor                _weight_qdata N x K / 2 bytes of two signed 4-bit values, the first in the low half;
                          _weight_scale and _weight_zero_point groups x N. Zero points are floating-point numbers that
                          are added after scaling: only 0 goes with W's definition here
IntxUnpackedToInt8Tensor  _weight_qdata int8, N x K; _weight_scale and _weight_zero_point N x groups; zero points are
                          int8, or floating-point numbers (likewise)
pairs                     unsigned codes before they are tiled for tinygemm: N x K / 2 bytes, the first code in the
                          high half; scale_and_zero groups x N x 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.checkpoints.weight import Codes, QuantisedWeight, shape_text
from gemmgen.checkpoints.words import array_of, halves_of, require_bits, require_shape, zeros_of
from gemmgen.support.errors import InvalidInput, require

QDATA, SCALE, ZERO_POINT = "_weight_qdata", "_weight_scale", "_weight_zero_point"
REASONS = {
    "Int4TilePackedTo4dTensor": "it is tiled for tinygemm, and its zero points are floating-point numbers",
    "Int4PreshuffledTensor": "it is tiled for one kernel",
    "Int4PlainInt32Tensor": "its words are in the order of kernels for other devices",
}


def torchao_weight(tensors: Mapping[str, Any], record: Mapping[str, Any]) -> QuantisedWeight:
    """The weight of a layer with these tensors, and the record of its type that torchao writes into safetensors files.

    Raises InvalidInput for other types, for tensors that do not fit, and for zero points that are added after scaling.
    """
    kind = record.get("_type")
    if kind not in READERS:
        why = REASONS.get(str(kind), f"{', '.join(READERS)} are read")
        raise InvalidInput(f"a weight of torchao's {kind}: {why}")
    scaled = tensors.get("_weight_act_pre_scale") is not None
    require(not scaled, "the layer has an act_pre_scale: its activations are scaled, too")
    fields = record.get("_data")
    return READERS[kind](tensors, fields if isinstance(fields, Mapping) else {})


def pairs_weight(pairs: object, scale_and_zero: object) -> QuantisedWeight:
    """The weight of `pairs`, with its scales and zero points. Raises InvalidInput as `torchao_weight` does."""
    given = {"pairs": pairs, "scale_and_zero": scale_and_zero}
    both = array_of(given, "scale_and_zero", 3)
    codes = halves_of(_bytes(given, "pairs")).reshape(-1, 2)[:, ::-1].reshape(len(array_of(given, "pairs")), -1)
    require(both.shape[2] == 2, f"scale_and_zero is {shape_text(both.shape)}: groups x N x 2 is needed")
    _require_no_shift("scale_and_zero", both[:, :, 1])
    return _of(np.ascontiguousarray(codes), np.ascontiguousarray(both[:, :, 0]), None, 4)


def _int4(tensors: Mapping[str, Any], _fields: Mapping[str, Any]) -> QuantisedWeight:
    _require_no_shift(ZERO_POINT, array_of(tensors, ZERO_POINT))
    codes = halves_of(_bytes(tensors, QDATA)) ^ np.uint8(8)
    return _of(codes, array_of(tensors, SCALE), None, 4)


def _intx(tensors: Mapping[str, Any], fields: Mapping[str, Any]) -> QuantisedWeight:
    bits = _target_bits(fields)
    require_bits("torchao", bits)
    values, points = array_of(tensors, QDATA), array_of(tensors, ZERO_POINT)
    scales = np.ascontiguousarray(array_of(tensors, SCALE).T)
    require_shape(ZERO_POINT, points.T, scales.shape, f"{SCALE}, transposed,")
    zeros = None
    if points.dtype == np.int8:
        zeros = zeros_of(_moved(ZERO_POINT, np.ascontiguousarray(points.T), bits), bits, None, "")
    else:
        _require_no_shift(ZERO_POINT, points)
    return _of(_moved(QDATA, values, bits), scales, zeros, bits)


READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], QuantisedWeight]] = {
    "Int4Tensor": _int4,
    "IntxUnpackedToInt8Tensor": _intx,
}


def _target_bits(fields: Mapping[str, Any]) -> int:
    """The width in a record's target_dtype: {"_type": "torch.dtype", "_data": "int4"}."""
    target = fields.get("target_dtype")
    name = str(target.get("_data") if isinstance(target, Mapping) else target)
    digits = name.removeprefix("int")
    require(digits.isdecimal(), f"target_dtype = {name}: int4 or int8 is needed")
    return int(digits)


def _bytes(tensors: Mapping[str, Any], name: str) -> Codes:
    array = array_of(tensors, name)
    require(array.dtype in (np.int8, np.uint8), f"{name} of {array.dtype}: bytes of two codes are needed")
    found: Codes = np.ascontiguousarray(array).view(np.uint8)
    return found


def _moved(name: str, values: npt.NDArray[Any], bits: int) -> Codes:
    """Signed values as codes."""
    middle = 2 ** (bits - 1)
    require(values.dtype == np.int8, f"{name} of {values.dtype}: int8 is needed")
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    fits = -middle <= least and most < middle
    require(fits, f"{name} holds {least} to {most}: {bits} bits hold {-middle} to {middle - 1}")
    found: Codes = (values.astype(np.int16) + middle).astype(np.uint8)
    return found


def _require_no_shift(name: str, zeros: npt.NDArray[Any]) -> None:
    """Raise InvalidInput if weights are shifted after scaling."""
    shifted = np.flatnonzero(zeros.astype(np.float32))
    if shifted.size:
        raise InvalidInput(
            f"{name} has a zero point of {float(zeros.reshape(-1)[shifted[0]])}, a floating-point number: such weights "
            "are (q - 8) * scale + zero (tinygemm), another definition than (q - z) * scale with an integer z. "
            "Quantise with integer zero points, or symmetrically"
        )


def _of(codes: Codes, scales: npt.NDArray[Any], zeros: Codes | None, bits: int) -> QuantisedWeight:
    """The record; groups are as long as the number of scales says."""
    k, groups = codes.shape[1], len(scales)
    require(groups > 0 and k % groups == 0, f"K = {k}, and {groups} groups: torchao needs groups of one length")
    return QuantisedWeight(codes, scales, zeros, k // groups, bits)
