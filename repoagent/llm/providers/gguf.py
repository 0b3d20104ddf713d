"""A GGUF model file: what its header says, and whether the model fits into memory.

The format is described in github.com/ggml-org/ggml, docs/gguf.md. Only the metadata is read, and none of it is trusted;
llama.cpp checks the rest when it loads the file.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError

# Bounds far above real headers: the largest vocabularies have 300,000 tokens and 600,000 merges.
_MAX_BYTES = 128 << 20
_MAX_ENTRIES = 65_536
_MAX_STRINGS = 4_000_000
_MAX_NUMBERS = 4_096  # of an array: per-layer figures are read, scores of a vocabulary are skipped
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

DEFAULT_WINDOW = 16_384  # tokens; many models take 128k and more, whose cache would need gigabytes
SMALLEST_WINDOW = 2_048  # for the prompt of an edit and its reply
_CACHE_BYTES = 2  # of one number in the cache of keys and values: llama.cpp uses 16-bit floats
_SCRATCH = 200 << 20  # bytes that llama.cpp computes in, and a tenth of the model: measured, then rounded up


@dataclass(frozen=True)
class ModelFile:
    """What a header says. `path` is absolute, `parameters` billions or None, `context` the tokens that the model was
    trained for, `size` the bytes of all parts, `cache_per_token` the bytes of memory for each token of the window."""

    path: Path
    parameters: float | None
    context: int
    size: int
    cache_per_token: int

    def memory(self, window: int) -> int:
        """Bytes needed: the weights, the cache of the window, scratch."""
        return self.size + window * self.cache_per_token + _SCRATCH + self.size // 10


def read_model_file(path: Path) -> ModelFile:
    """The model file at `path`; the first part where a model is split. Raises ModelError when there is none, when it
    is not a language model, or when a part is missing."""
    try:
        path = path.expanduser()
        status = path.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: ~name of an unknown user
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read {path} ({reason}): name a model file, local/PATH") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r} is not a path: name a model file, local/PATH") from error
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, mtime_ns: int, size: int) -> ModelFile:
    header = _header(path)
    kind = header.get("general.type", "model")
    if kind != "model":
        raise ModelError(f"{path} is not a language model but a file of kind {kind!r}: name the model itself")
    try:
        parts = [path, *_other_parts(path, header)]
        architecture = header.get("general.architecture")
        if not isinstance(architecture, str):
            raise ValueError("it does not name its architecture")

        def number(key: str, default: float | None = None) -> int:
            value = header.get(f"{architecture}.{key}", default)
            value = max(value, default=0) if isinstance(value, tuple) else value
            if not isinstance(value, int | float) or not 0 <= value < 1 << 31:
                raise ValueError(f"it has no valid {architecture}.{key}")
            return int(value)

        layers, width, context = (
            number(key) for key in ("block_count", "embedding_length", "context_length")
        )
        if not (layers and width and context):
            raise ValueError("it has no layers or no window")
        heads = number("attention.head_count", 1) or 1
        kv_heads = header.get(f"{architecture}.attention.head_count_kv")
        if isinstance(kv_heads, tuple):
            all_heads = sum(kv_heads[:layers])
        else:
            all_heads = layers * number("attention.head_count_kv", heads)
        head_width = width // heads
        per_head = number("attention.key_length", head_width) + number("attention.value_length", head_width)
        others = [_header(part) for part in parts[1:]]
        weights = sum(int(part["weights"]) for part in (header, *others))
        return ModelFile(
            path.absolute(),
            weights / 1e9 if weights else _size_label(str(header.get("general.size_label", ""))),
            context,
            sum(part.stat().st_size for part in parts),
            max(0, int(all_heads)) * per_head * _CACHE_BYTES,
        )
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise ModelError(f"the model file {path} is damaged, {error}: download or copy it again") from error


def _size_label(label: str) -> float | None:
    """Billions of parameters: "1.5B", "8x7B" or "135M"."""
    match = re.fullmatch(r"(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([BM])", label)
    return int(match[1] or 1) * float(match[2]) / (1 if match[3] == "B" else 1000) if match else None


def _other_parts(path: Path, header: Mapping[str, Any]) -> list[Path]:
    """The second and later parts of a split model; llama.cpp finds them by their names."""
    number, count = int(header.get("split.no", 0)), int(header.get("split.count", 1))
    if count <= 1:
        return []
    match = re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.gguf", path.name)
    if number:
        first = f"{match[1]}-00001-of-{match[3]}.gguf" if match else "the first"
        raise ModelError(f"{path} is part {number + 1} of {count} of a model: name its first part, {first}")
    if not match or int(match[3]) != count or count > 1_000:
        raise ModelError(
            f"{path} is the first of {count} parts of a model, and llama.cpp finds the others by their names: "
            f"give it the name it had, NAME-00001-of-{count:05}.gguf"
        )
    return [path.with_name(f"{match[1]}-{part:05}-of-{match[3]}.gguf") for part in range(2, count + 1)]


def _header(path: Path) -> dict[str, Any]:
    """The metadata of one file, and under "weights" the number of its weights. Raises ModelError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not wait for a fifo
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror}): name a model file, local/PATH") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise ModelError(f"{path} is {kind}: name a model file, local/PATH")
        if reason := _why_not_gguf(os.pread(file, 512, 0)):
            raise ModelError(f"{path} is not a model file that llama.cpp reads: {reason}")
        with mmap.mmap(file, min(status.st_size, _MAX_BYTES), access=mmap.ACCESS_READ) as data:
            return _Reader(data).header()
    except (struct.error, ValueError, OverflowError) as error:
        reason = (
            "its header ends too early" if isinstance(error, struct.error | OverflowError) else str(error)
        )
        raise ModelError(f"the model file {path} is damaged, {reason}: download or copy it again") from error
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror})") from error
    finally:
        os.close(file)


def _why_not_gguf(start: bytes) -> str:
    """Why a file that begins like this is not GGUF of a version that llama.cpp reads; "" if it is."""
    if not start:
        return "it is empty"
    if start.startswith(b"version https://git-lfs"):
        return "it is a git-lfs pointer, `git lfs pull` gets the file itself"
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "it is a web page, download the file itself"
    if not start.startswith(b"GGUF"):
        return "it is not in the GGUF format"
    if len(start) < 8:
        return "it is cut short"
    (version,) = struct.unpack_from("<I", start, 4)
    if version and not version & 0xFFFF:
        return "it was made for big-endian computers, get the other kind"
    return "" if version in {2, 3} else f"its GGUF version is {version}, get one of version 3"


class _Reader:
    """Little-endian values in order. Raises ValueError, and struct.error past the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 8  # after magic and version

    def header(self) -> dict[str, Any]:
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        if pairs > _MAX_ENTRIES or tensors > _MAX_ENTRIES * 16:
            raise ValueError("its header lists more than it can hold")
        values: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            value = self._value(self._scalar("I"))
            if value is not None:
                values[key] = value
        weights = 0
        for _ in range(tensors):
            name, dimensions = self._string(), self._scalar("I")
            if dimensions > 4:
                raise ValueError(f"its tensor {name[:60]!r} has {dimensions} dimensions")
            weights += prod(self._scalar("Q") for _ in range(dimensions))
            self._at += 12  # type and offset
        return {**values, "weights": weights}

    def _scalar(self, code: str) -> int:
        value: int = struct.unpack_from("<" + code, self._data, self._at)[0]
        self._at += struct.calcsize(code)
        return value

    def _string(self) -> str:
        length = self._scalar("Q")
        self._at += length
        if self._at > len(self._data):
            raise ValueError("its header ends too early")
        text = self._data[self._at - length : self._at].decode("utf-8", "replace")
        return "".join(character if character.isprintable() else " " for character in text[:1000])

    def _value(self, kind: int) -> object:
        """The next value, of type `kind`; None for an array that is skipped."""
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            if kind not in _SCALARS:
                raise ValueError(f"its header has a value of the unknown type {kind}")
            value = self._scalar(_SCALARS[kind])
            return value if isfinite(value) else None
        kind, count = self._scalar("I"), self._scalar("Q")
        if kind == _STRING:
            if count > _MAX_STRINGS:
                raise ValueError("its header lists more than it can hold")
            data, at, end = self._data, self._at, len(self._data)
            length_at = struct.Struct("<Q").unpack_from
            for _ in range(count):  # hundreds of thousands
                at += 8 + length_at(data, at)[0]
                if at > end:
                    raise ValueError("its header ends too early")
            self._at = at
            return None
        if kind not in _SCALARS:
            raise ValueError(f"its header has a list of the unknown type {kind}")
        start, code = self._at, _SCALARS[kind]
        self._at += count * struct.calcsize(code)
        if self._at > len(self._data):
            raise ValueError("its header ends too early")
        if count > _MAX_NUMBERS:
            return None
        numbers = struct.unpack_from(f"<{count}{code}", self._data, start)
        return numbers if all(isfinite(number) for number in numbers) else None


def window_for(model: ModelFile, wanted_window: int | None, free: int | None, shown: str) -> int:
    """The window in tokens with which the model fits into `free` bytes of memory (None: unknown).

    Without a wanted window it is the model's own, at most DEFAULT_WINDOW, and smaller where memory is short. `shown` is
    the path for errors. Raises ModelError when the model does not fit, UsageError for an invalid window.
    """
    if wanted_window is not None and wanted_window < 1:
        raise UsageError(f"a window of {wanted_window} tokens is invalid: use a positive number")
    window = min(wanted_window or DEFAULT_WINDOW, model.context)
    while free is not None and model.memory(window) > free:
        if wanted_window or window <= SMALLEST_WINDOW:
            raise ModelError(
                f"{shown} needs about {_gigabytes(model.memory(window))} of memory with a window of {window:,} tokens, "
                f"and {_gigabytes(free)} are free: close other programs, or use a smaller or more quantized model"
            )
        window = max(window // 2, SMALLEST_WINDOW)
    return window


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.2f} GB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes available without swapping, within the limits of the control groups; None if unknown."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if match:
        rooms = [int(match[1]) * 1024]
    else:
        try:  # macOS does not say what is free; it compresses and evicts a lot on demand
            rooms = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4]
        except (ValueError, OSError):
            rooms = []
    base = root / "sys/fs/cgroup"
    own = re.search(r"^0::/?(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    group = base / own[1] if own and ".." not in own[1] else base
    for folder in (group, *group.parents):
        limit, used = _text(folder / "memory.max"), _text(folder / "memory.current")
        if limit.isdigit() and used.isdigit():
            # the pages of files are freed on demand
            files = re.findall(r"^(?:in)?active_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
            rooms.append(max(0, int(limit) - int(used) + min(int(used), max(map(int, files), default=0))))
        if folder == base:
            break
    return min(rooms, default=None)


def cores(root: Path = Path("/")) -> int:
    """Physical cores that this process may use: a second thread on a core makes llama.cpp slower."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # macOS
        return max(os.cpu_count() or 1, 1)
    siblings = {
        _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in allowed
    }
    quota = re.fullmatch(r"(\d+) (\d+)", _text(root / "sys/fs/cgroup/cpu.max"))
    whole = -(-int(quota[1]) // max(int(quota[2]), 1)) if quota else len(siblings)
    return max(1, min(len(siblings), whole))


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""  # another system, or not readable from here
