"""The tensors of a folder with safetensors files, by name: one file, or shards with an index.

May import: errors, safetensors, torch.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import torch

from ..errors import ModelError

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class Checkpoint:
    """The files of a folder, opened; iterates over the tensors' names. A context manager."""

    def __init__(self, folder):
        self.folder, self._files, self._stack = Path(folder), {}, ExitStack()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    def _open(self):
        """Name -> opened file for every tensor."""
        index = self.folder / INDEX
        if index.exists():
            shards = _json(index).get("weight_map", {})
        else:
            shards = {None: ONE_FILE}
        opened = {shard: self._stack.enter_context(_opened(self.folder / shard)) for shard in set(shards.values())}
        for file in opened.values():
            self._files |= dict.fromkeys(file.keys(), file)
        for name, shard in shards.items():
            if name is not None and name not in self._files:
                raise ModelError(f"{index} says that {shard} holds {name}; it does not.")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()

    def __str__(self):
        return str(self.folder)

    def __iter__(self):
        return iter(self._files)

    def __contains__(self, name):
        return name in self._files

    def shape(self, name):
        """tuple of int, from the header."""
        return tuple(self._files[name].get_slice(name).get_shape())

    def dtype(self, name):
        """torch.dtype, or the file's own word for one that torch does not have."""
        word = self._files[name].get_slice(name).get_dtype()
        return _DTYPES.get(word, word)

    def read(self, name):
        """The tensor, on the CPU."""
        return self._files[name].get_tensor(name)


def write(path, tensors):
    """Write tensors to a safetensors file, whole or not at all."""
    from safetensors.torch import save_file

    unfinished = path.with_name(path.name + ".part")
    save_file(tensors, unfinished, metadata={"format": "pt"})
    unfinished.replace(path)


def _json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON: {error}.") from None


def _opened(path):
    """The file, its header read and its length compared with it."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise ModelError(f"{path} does not exist; a folder has {ONE_FILE}, or {INDEX} with all of its shards.")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} is no whole safetensors file ({error}); it may be cut short: copy or download it again."
        ) from None
