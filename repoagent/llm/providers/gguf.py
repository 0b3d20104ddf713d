"""Read the header of a GGUF model file, and determine whether the model fits into memory.

The format is described in github.com/ggml-org/ggml, docs/gguf.md. Only the metadata is read, without trusting it;
llama.cpp checks the rest when it loads the file.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError

# Bounds far above real headers: the largest vocabularies have 300,000 tokens and 600,000 merges.
_MAX_BYTES = 128 << 20
_MAX_ENTRIES = 65_536
_MAX_STRINGS = 4_000_000
_MAX_NUMBERS = 4_096  # of an array: per-layer numbers are read, scores of a vocabulary are skipped
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

DEFAULT_WINDOW = 16_384  # tokens; the cache for 128k and more, as many models support, would need gigabytes
SMALLEST_WINDOW = 2_048  # for the prompt of an edit and its reply
_CACHE_BYTES = 2  # per number in the cache of keys and values: llama.cpp uses 16-bit floats
_SCRATCH = 200 << 20  # bytes of compute buffers, in addition to a tenth of the model; measured and rounded up
_BYTES_PER_WEIGHT = 0.6  # at the usual quantization to 4 bits


@dataclass(frozen=True)
class ModelFile:
    """The properties of a model file. `path` is absolute, `parameters` in billions, `context` the training window in
    tokens, `size` the bytes of all parts, `cache_per_token` the bytes of memory per token of the window."""

    path: Path
    parameters: float
    context: int
    size: int
    cache_per_token: int

    def memory(self, window: int) -> int:
        """The bytes needed for the weights, the cache of the window, and compute buffers."""
        return self.size + window * self.cache_per_token + _SCRATCH + self.size // 10


def read_model_file(path: Path) -> ModelFile:
    """The model file at `path`, the first part of a split model. Raises ModelError if it does not exist, is not a
    language model, or a part is missing."""
    try:
        path = path.expanduser()
        status = path.stat()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~name of an unknown user
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read {path} ({reason}): name a model file, local/PATH") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ModelError(f"{path} is {kind}: name a model file, local/PATH")
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, mtime_ns: int, size: int) -> ModelFile:
    try:
        with path.open("rb") as file:
            if reason := _why_not_gguf(file.read(512)):
                raise ModelError(f"{path} is not a model file that llama.cpp reads: {reason}")
            with mmap.mmap(file.fileno(), min(size, _MAX_BYTES), access=mmap.ACCESS_READ) as data:
                header = _metadata(data)
        kind = header.get("general.type", "model")
        if kind != "model":
            raise ModelError(
                f"{path} is not a language model but a file of kind {kind!r}: name the model itself"
            )
        if int(header.get("split.count", 1)) > 1:
            size = sum(part.stat().st_size for part in _parts(path, int(header["split.count"])))
        return _model_file(path, header, size)
    except (struct.error, ValueError, TypeError, OverflowError) as error:
        short = isinstance(error, struct.error | OverflowError)
        reason = "its header ends too early" if short else str(error)
        raise ModelError(f"the model file {path} is damaged, {reason}: download or copy it again") from error
    except OSError as error:
        raise ModelError(f"cannot read {error.filename or path} ({error.strerror})") from error


def _model_file(path: Path, header: dict[str, Any], size: int) -> ModelFile:
    architecture = header.get("general.architecture")
    if not isinstance(architecture, str):
        raise ValueError("it does not name its architecture")

    def number(key: str, default: float | None = None) -> int:
        value = header.get(f"{architecture}.{key}", default)
        value = max(value, default=0) if isinstance(value, tuple) else value
        if not isinstance(value, int | float) or not 0 <= value < 1 << 31:
            raise ValueError(f"it has no valid {architecture}.{key}")
        return int(value)

    layers, width, context = (number(key) for key in ("block_count", "embedding_length", "context_length"))
    if not (layers and width and context):
        raise ValueError("it has no layers or no window")
    heads = number("attention.head_count", 1) or 1
    by_layer = header.get(f"{architecture}.attention.head_count_kv")
    if isinstance(by_layer, tuple):
        all_heads = max(0, int(sum(by_layer[:layers])))
    else:
        all_heads = layers * number("attention.head_count_kv", heads)
    head_width = width // heads
    per_head = number("attention.key_length", head_width) + number("attention.value_length", head_width)
    label = str(header.get("general.size_label", ""))  # "1.5B", "8x7B" or "135M"
    match = re.fullmatch(r"(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([BM])", label)
    billions = size / _BYTES_PER_WEIGHT / 1e9
    if match:
        billions = int(match[1] or 1) * float(match[2]) / (1 if match[3] == "B" else 1000)
    return ModelFile(path.absolute(), billions, context, size, all_heads * per_head * _CACHE_BYTES)


def _parts(path: Path, count: int) -> list[Path]:
    """The files of a split model, of which `path` must be the first; llama.cpp finds the others by their names."""
    match = re.fullmatch(r"(.+)-00001-of-(\d{5})\.gguf", path.name)
    if not match or int(match[2]) != count or count > 1_000:
        raise ModelError(
            f"{path} is one of {count} parts of a model: name the first, NAME-00001-of-{count:05}.gguf, with the "
            "others in the same folder"
        )
    return [path.with_name(f"{match[1]}-{part:05}-of-{match[2]}.gguf") for part in range(1, count + 1)]


def _why_not_gguf(start: bytes) -> str:
    """Why a file that begins with `start` is not GGUF of a version that llama.cpp supports; "" if it is."""
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
    version = int.from_bytes(start[4:8], "little")
    if version and not version & 0xFFFF:
        return "it was made for big-endian computers, get the other kind"
    return "" if version in {2, 3} else f"its GGUF version is {version}, get one of version 3"


def _metadata(data: mmap.mmap) -> dict[str, Any]:
    """The values of the header without long arrays. Raises ValueError or, past the end, struct.error."""
    at = 8  # after magic and version

    def number(code: str = "Q") -> Any:
        nonlocal at
        value = struct.unpack_from("<" + code, data, at)[0]
        at += struct.calcsize(code)
        return value

    def skip(size: int) -> int:
        nonlocal at
        at += size
        if at > len(data):
            raise ValueError("its header ends too early")
        return at - size

    def string() -> str:
        length = number()
        start = skip(length)
        text = data[start : start + min(length, 1000)].decode("utf-8", "replace")
        return "".join(character if character.isprintable() else " " for character in text)

    def array() -> tuple[Any, ...] | None:
        nonlocal at
        kind, count = number("I"), number()
        if kind == _STRING:
            if count > _MAX_STRINGS:
                raise ValueError("its header lists more than it can hold")
            read_length, end = struct.Struct("<Q").unpack_from, len(data)
            for _ in range(count):  # hundreds of thousands
                at += 8 + read_length(data, at)[0]
                if at > end:
                    raise ValueError("its header ends too early")
            return None
        if kind not in _SCALARS:
            raise ValueError(f"its header has a list of the unknown type {kind}")
        start = skip(count * struct.calcsize(_SCALARS[kind]))
        return None if count > _MAX_NUMBERS else struct.unpack_from(f"<{count}{_SCALARS[kind]}", data, start)

    number()  # of tensors
    values: dict[str, Any] = {}
    if (pairs := number()) > _MAX_ENTRIES:
        raise ValueError("its header lists more than it can hold")
    for _ in range(pairs):
        key, kind = string(), number("I")
        if kind in _SCALARS:
            values[key] = number(_SCALARS[kind])
        elif kind == _STRING:
            values[key] = string()
        elif kind == _ARRAY:
            values[key] = array()
        else:
            raise ValueError(f"its header has a value of the unknown type {kind}")
    return {key: value for key, value in values.items() if value is not None}


def window_for(model: ModelFile, wanted_window: int | None, free: int | None, shown: str) -> int:
    """The window in tokens for which the model fits into `free` bytes of memory (None: unknown).

    By default it is the model's window, at most DEFAULT_WINDOW, and smaller if memory is short. `shown` is the path for
    errors. Raises ModelError if the model does not fit, UsageError for an invalid window.
    """
    if wanted_window is not None and wanted_window < 1:
        raise UsageError(f"a window of {wanted_window} tokens is invalid: use a positive number")
    window = min(wanted_window or DEFAULT_WINDOW, model.context)
    while free is not None and model.memory(window) > free:
        if wanted_window or window <= SMALLEST_WINDOW:
            raise ModelError(
                f"{shown} needs about {model.memory(window) / 1e9:.2f} GB of memory with a window of {window:,} "
                f"tokens, and {free / 1e9:.2f} GB are free: close other programs, or use a smaller model"
            )
        window = max(window // 2, SMALLEST_WINDOW)
    return window


def available_memory(root: Path = Path("/")) -> int | None:
    """The bytes available without swapping, within the limits of control groups; None if unknown."""
    sizes: list[int] = []
    if match := re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE):
        sizes.append(int(match[1]) * 1024)
    elif "SC_PHYS_PAGES" in os.sysconf_names:
        # macOS does not report free memory, and compresses and evicts a lot on demand
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4)
    base = root / "sys/fs/cgroup"
    own = re.search(r"^0::/?(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    group = base / own[1] if own and ".." not in own[1] else base
    for folder in (group, *group.parents):
        limit, used = _text(folder / "memory.max"), _text(folder / "memory.current")
        if limit.isdigit() and used.isdigit():
            # the pages of files are freed on demand
            files = re.findall(r"^(?:in)?active_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
            sizes.append(max(0, int(limit) - int(used) + min(int(used), max(map(int, files), default=0))))
        if folder == base:
            break
    return min(sizes, default=None)


def cores(root: Path = Path("/")) -> int:
    """The number of physical cores that this process may use: a second thread per core makes llama.cpp slower."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # macOS
        return max(os.cpu_count() or 1, 1)
    topology = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {_text(root / topology.format(cpu)) or str(cpu) for cpu in allowed}
    quota = re.fullmatch(r"(\d+) (\d+)", _text(root / "sys/fs/cgroup/cpu.max"))
    whole = -(-int(quota[1]) // max(int(quota[2]), 1)) if quota else len(siblings)
    return max(1, min(len(siblings), whole))


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""  # another system, or not readable
