"""Which format a checkpoint has, from the quantization_config of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgen.problem.inputs import WHOLE_K
from gemmgen.support.errors import InvalidInput, require, whole

# The tensors of a layer in each format; a name that ends in the first marks a layer.
PARTS = {
    "gptq": ("qweight", "qzeros", "scales", "g_idx"),
    "gptq_v2": ("qweight", "qzeros", "scales", "g_idx"),
    "awq": ("qweight", "qzeros", "scales"),
    "compressed-tensors": ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"),
    "torchao": ("_weight_qdata", "_weight_scale", "_weight_zero_point", "_weight_act_pre_scale"),
}
PACK_QUANTIZED = "pack-quantized"


@dataclass(frozen=True)
class Scheme:
    """A checkpoint format and what its tensors do not say.

    form       one of PARTS
    bits       of a code; torchao's tensors say it themselves
    group      number of elements along K that share a scale; WHOLE_K: all of them. torchao's shapes say it
    symmetric  whether all zero points are the middle code; None: their values decide
    """

    form: str
    bits: int = 4
    group: int = WHOLE_K
    symmetric: bool | None = None

    def __post_init__(self) -> None:
        require(self.form in PARTS, f"format {self.form}: known are {', '.join(PARTS)}")
        require(self.group >= 0, f"groups of {self.group}: at least 1 is needed, or {WHOLE_K} for all of K")

    def group_of(self, k: int) -> int:
        """The length of a group in a layer with K = `k`."""
        return k if self.group == WHOLE_K else self.group


def recognise(config: Mapping[str, Any], names: Iterable[str] = ()) -> Scheme:
    """The scheme of the model whose config.json has `config` as its quantization_config.

    `names` are the names of its tensors, if they are known. Raises InvalidInput for formats that are not read, with the
    reason, and for names without a tensor of the format.
    """
    method = config.get("quant_method") or config.get("method")
    known = ", ".join(METHODS)
    if method not in METHODS:
        raise InvalidInput(f"quant_method = {method!r}: known are {known}")
    scheme = METHODS[method](config)
    ends = {name.rpartition(".")[2] for name in names}
    key = PARTS[scheme.form][0]
    found = ", ".join(sorted(ends)[:8])
    require(key in ends or not ends, f"quant_method = {method!r}, and no tensor is named {key}: names end in {found}")
    desc_act = config.get("desc_act", False) and "g_idx" in PARTS[scheme.form] and bool(ends)
    require(not desc_act or "g_idx" in ends, "desc_act = true, and no tensor g_idx gives the order of K")
    return scheme


def _gptq(config: Mapping[str, Any]) -> Scheme:
    form = config.get("checkpoint_format") or config.get("format") or "gptq"  # AutoGPTQ wrote none
    require(form in ("gptq", "gptq_v2"), f"checkpoint_format = {form!r}: gptq and gptq_v2 are read; others are tiled")
    require(not config.get("is_marlin_format"), "is_marlin_format = true: such weights are tiled for one kernel")
    words = config.get("pack_dtype", "int32")
    require(words == "int32", f"pack_dtype = {words!r}: int32 is read")
    return Scheme(form, _number(config, "bits"), _group(config), _flag(config, "sym"))


def _awq(config: Mapping[str, Any]) -> Scheme:
    form = config.get("version") or config.get("checkpoint_format") or config.get("format") or "gemm"
    gemm = str(form).lower() == "gemm"
    require(gemm, f"version = {form!r}: gemm is read; gemv and gemv_fast store N and K in another order for one kernel")
    # Other backends are a choice of kernels, and leave the order of weights.
    require(config.get("backend") != "llm-awq", "backend = 'llm-awq': it stores weights in another order than autoawq")
    asymmetric = _flag(config, "zero_point")
    symmetric = None if asymmetric is None else not asymmetric
    return Scheme("awq", _number(config, "bits", "w_bit"), _group(config), symmetric)


def _compressed(config: Mapping[str, Any]) -> Scheme:
    schemes = {}
    groups = config.get("config_groups")
    for name, group in groups.items() if isinstance(groups, Mapping) else ():
        spelled = isinstance(group, Mapping)
        require(spelled, f"config_groups.{name} = {group!r}: a scheme with `weights` is needed, not a preset's name")
        weights = group.get("weights")
        if weights is not None:
            form = group.get("format") or config.get("format")
            require(form == PACK_QUANTIZED, f"format = {form!r} of config_groups.{name}: {PACK_QUANTIZED} is read")
            schemes[_args(name, weights)] = name
    require(bool(schemes), f"config_groups = {groups!r}: no group has weights")
    kinds = ", ".join(f"{name}: {scheme.bits} bits, groups of {scheme.group}" for scheme, name in schemes.items())
    require(len(schemes) == 1, f"config_groups differ ({kinds}): one scheme for all layers is read")
    return next(iter(schemes))


def _args(name: str, weights: Mapping[str, Any]) -> Scheme:
    """The scheme that `weights` of a group of compressed-tensors say."""
    kind = weights.get("type", "int")
    require(kind == "int", f"config_groups.{name}: weights of type {kind!r}: int is read")
    strategy = weights.get("strategy") or ("group" if weights.get("group_size") else "channel")
    known = strategy in ("group", "channel")
    require(known, f"config_groups.{name}: strategy = {strategy!r}: group and channel have scales along K of a row")
    group = _group(weights) if strategy == "group" else WHOLE_K
    bits = _number(weights, "num_bits")
    return Scheme("compressed-tensors", bits, group, weights.get("symmetric", True) is True)


def _torchao(_config: Mapping[str, Any]) -> Scheme:
    return Scheme("torchao")


METHODS: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "awq": _awq,
    "compressed-tensors": _compressed,
    "gptq": _gptq,
    "torchao": _torchao,
}


def _number(config: Mapping[str, Any], *names: str) -> int:
    """The whole number under the first of `names` that `config` has."""
    name = next((name for name in names if name in config), None)
    if name is None:
        raise InvalidInput(f"quantization_config has no {' or '.join(names)}")
    return whole(name, config[name])


def _group(config: Mapping[str, Any]) -> int:
    """The group's length; -1 in a config is WHOLE_K here."""
    group = _number(config, "group_size", "q_group_size")
    require(group == -1 or group > 0, f"group_size = {group}: at least 1 is needed, or -1 for all of K")
    return WHOLE_K if group == -1 else group


def _flag(config: Mapping[str, Any], name: str) -> bool | None:
    value = config.get(name)
    require(value in (None, True, False), f"{name} = {value!r}: write true or false")
    return None if value is None else bool(value)
