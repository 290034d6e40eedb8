"""Checkpoints in safetensors files. A layer is read when it is asked for; nothing else is held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.checkpoints.awq import awq_weight
from gemmgen.checkpoints.compressed import compressed_weight
from gemmgen.checkpoints.gptq import gptq_weight
from gemmgen.checkpoints.scheme import PARTS, Scheme, recognise
from gemmgen.checkpoints.torchao import torchao_weight
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.jsontext import json_value

INSTALL = "pip install 'gemmgen[checkpoints]'"
INDEX = "model.safetensors.index.json"
READERS = {
    "gptq": gptq_weight,
    "gptq_v2": gptq_weight,
    "awq": awq_weight,
    "compressed-tensors": compressed_weight,
}


@dataclass(frozen=True, eq=False)
class Checkpoint(Mapping[str, QuantisedWeight]):
    """The quantised linear layers of a checkpoint: name -> QuantisedWeight, read at each look-up.

    A look-up raises KeyError for a name that is no quantised layer's, and InvalidInput, with the layer's name and the
    reason, for a layer in a form that is not read.

    scheme  the format of all layers
    layers  the names of each layer's tensors, by the layer's name
    plain   names of all other tensors: embeddings, norms, biases, layers that are not quantised
    files   the file of each tensor
    """

    scheme: Scheme
    layers: Mapping[str, tuple[str, ...]]
    plain: tuple[str, ...]
    files: Mapping[str, Path]

    def __getitem__(self, name: str) -> QuantisedWeight:
        tensors, record = {}, None
        for full in self.layers[name]:
            with _opened(self.files[full]) as file:
                tensors[full.removeprefix(f"{name}.")] = file.get_tensor(full)
                record = record or (file.metadata() or {}).get(f"{name}.weight")
        try:
            if self.scheme.form == "torchao":
                return torchao_weight(tensors, _mapping(record or "{}", f"the metadata of {name}.weight"))
            return READERS[self.scheme.form](tensors, self.scheme)
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)


def open_checkpoint(path: Path | str, config: Mapping[str, Any] | None = None) -> Checkpoint:
    """Open a safetensors file, or a folder with one or with several and their index.

    `config` is the model's quantization_config; by default that of the config.json in the folder. Raises InvalidInput
    if a file cannot be read, and for other formats than GPTQ, AWQ, compressed-tensors and torchao.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    files = {name: file for file in _files(path) for name in _names(file)}
    scheme = recognise(_config(folder) if config is None else config, files)
    parts = PARTS[scheme.form]
    key = f".{parts[0]}"
    marked = sorted(name.removesuffix(key) for name in files if name.endswith(key))
    named = {layer: [f"{layer}.{part}" for part in parts] for layer in marked}
    layers = {layer: tuple(name for name in names if name in files) for layer, names in named.items()}
    taken = {name for names in layers.values() for name in names}
    return Checkpoint(scheme, layers, tuple(sorted(files.keys() - taken)), files)


def _files(path: Path) -> list[Path]:
    """The safetensors files of a checkpoint."""
    if not path.is_dir():
        return [path]
    index = path / INDEX
    if not index.exists():
        found = sorted(path.glob("*.safetensors"))
        require(bool(found), f"{path} has no safetensors file")
        return found
    names = _json(index).get("weight_map")
    require(isinstance(names, Mapping), f"{index} has no weight_map")
    assert isinstance(names, Mapping)
    beside = sorted(set(map(str, names.values())))
    wrong = [name for name in beside if Path(name).name != name]
    require(not wrong, f"{index} names {', '.join(wrong)}: files in its own folder are read")
    return [path / name for name in beside]


def _config(folder: Path) -> Mapping[str, Any]:
    """The quantization_config of the model in `folder`."""
    path = folder / "config.json"
    require(path.exists(), f"{folder} has no config.json, whose quantization_config names the format")
    found = _json(path).get("quantization_config")
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{path} has no quantization_config: the model is not quantised")
    return found


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return _mapping(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error


def _mapping(text: str | bytes, what: str) -> Mapping[str, Any]:
    try:
        value = json_value(text)
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is {value!r}: a JSON object is needed")
    return value


def _names(path: Path) -> list[str]:
    with _opened(path) as file:
        return list(file.keys())


def _opened(path: Path) -> Any:
    """The file, open for reading. Raises InvalidInput."""
    try:
        import ml_dtypes  # noqa: F401  # gives numpy the bfloat16 that safetensors asks it for by name
        from safetensors import SafetensorError, safe_open  # optional
    except ImportError:
        raise InvalidInput(f"safetensors is missing: {INSTALL}") from None
    try:
        return safe_open(path, framework="np")
    except (OSError, SafetensorError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
