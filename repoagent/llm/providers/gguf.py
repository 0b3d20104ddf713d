"""Parsing a GGUF header: key/values and tensor descriptions, none of which is believed.

The header of a GGUF model file: what it holds and whether it is whole.

Written after the format's description (github.com/ggml-org/ggml, docs/gguf.md). llama.cpp ends the whole process
over some broken files, so they are told apart before it sees them.

Whether a model file fits into memory, and with how large a window.

What this machine has for a model: memory that is free, and cores.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import IO, NoReturn

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError

# Bounds no real header comes near: the largest vocabularies have 300,000 tokens and 600,000 merges.
_MAX_BYTES = 128 << 20
_MAX_STRINGS = 4_000_000
_MAX_VALUES = 65_536
_MAX_NUMBERS = (
    4_096  # entries of an array of numbers; per-layer figures are kept, scores of a vocabulary are not
)
_CHUNK = 1 << 20

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# (numbers in a block, bytes of a block) by tensor type. A type that is not here is not checked for its size.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

Value = int | float | str | tuple[int | float, ...]


class DamagedHeader(RepoagentError):
    """The header contradicts itself; the text says how."""


@dataclass(frozen=True)
class Header:
    """`weights` is how many numbers the tensors hold, `size` the bytes of the file, `needed` how many it must
    have at least."""

    values: Mapping[str, Value]
    weights: int
    size: int
    needed: int

    def text(self, key: str) -> str:
        """The text at `key` on one printable line, "" if there is none."""
        found = self.values.get(key)
        return "".join(c if c.isprintable() else " " for c in found)[:200] if isinstance(found, str) else ""

    def number(self, key: str, default: int | None = None) -> int:
        found = self.values.get(key, default)
        if isinstance(found, tuple):
            found = max(found, default=0)
        if not isinstance(found, int | float) or not isfinite(found):
            raise DamagedHeader(f"it has no number {key}")
        return int(found)

    def numbers(self, key: str, count: int) -> list[int]:
        """`count` numbers: those of the array at `key`, or its only one for all. [] if it is missing."""
        found = self.values.get(key)
        if found is None:
            return []
        if isinstance(found, tuple):
            if len(found) < count or not all(isfinite(number) for number in found):
                raise DamagedHeader(f"it has too few numbers {key}")
            return [int(number) for number in found[:count]]
        return [self.number(key)] * count


def parse(stream: IO[bytes], size: int) -> Header:
    """The header of the GGUF file `stream`, which stands at its start and has `size` bytes. Raises Damaged."""
    reader = _Reader(stream, size)
    reader.skip(8)  # magic and version, checked before
    tensors, pairs = reader.scalar("Q"), reader.scalar("Q")
    if pairs > _MAX_VALUES or tensors > _MAX_VALUES * 16:
        raise DamagedHeader("its header lists more than it can hold")
    values: dict[str, Value] = {}
    for _ in range(pairs):
        key = reader.text()
        value = reader.value(reader.scalar("I"))
        if value is not None:
            values[key] = value
    weights, ends = 0, 0
    for _ in range(tensors):
        numbers, end = _tensor(reader)
        weights += numbers
        ends = max(ends, end)
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise DamagedHeader("its alignment is out of range")
    start = -(-reader.position // alignment) * alignment
    return Header(values, weights, size, start + ends if ends else 0)


def _tensor(reader: _Reader) -> tuple[int, int]:
    """How many numbers the next described tensor holds, and where in the data it ends."""
    name = reader.text()
    dimensions = reader.scalar("I")
    if dimensions > 4:
        raise DamagedHeader(f"its tensor {name[:60]!r} has {dimensions} dimensions")
    shape = [reader.scalar("Q") for _ in range(dimensions)]
    kind, offset = reader.scalar("I"), reader.scalar("Q")
    numbers = prod(shape)
    block, block_bytes = _BLOCKS.get(kind, (1, 0))
    if shape and shape[0] % block:
        raise DamagedHeader(f"its tensor {name[:60]!r} does not fill its blocks")
    return numbers, offset + numbers // block * block_bytes


class _Reader:
    """Little-endian values from a stream, never past the end of the file or of what a header may be."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._end = min(size, _MAX_BYTES)
        self._data = b""
        self._base = 0  # where in the file `_data` starts
        self._at = 0
        self._strings = 0

    @property
    def position(self) -> int:
        return self._base + self._at

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            self._fill(count)
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        if self.position + count > self._end:
            raise DamagedHeader("its header ends too early")
        if self._at + count > len(self._data):
            self._base, self._at, self._data = self.position + count, 0, b""
            self._stream.seek(self._base)
        else:
            self._at += count

    def scalar(self, code: str) -> int:
        value: int = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return value

    def text(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Value | None:
        """The next value, of type `kind`; None for an array that is of no use here."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        if kind not in _SCALARS:
            raise DamagedHeader(f"its header has a value of the unknown type {kind}")
        return self.scalar(_SCALARS[kind])

    def _array(self, kind: int, count: int) -> Value | None:
        if kind == _STRING:
            self._strings += count
            if self._strings > _MAX_STRINGS:
                raise DamagedHeader("its header lists more than it can hold")
            self._skip_strings(count)
            return None
        if kind not in _SCALARS:
            raise DamagedHeader(f"its header has a list of the unknown type {kind}")
        length = count * struct.calcsize(_SCALARS[kind])
        if count > _MAX_NUMBERS:
            self.skip(length)
            return None
        return struct.unpack(f"<{count}{_SCALARS[kind]}", self.take(length))

    def _skip_strings(self, count: int) -> None:
        """Hundreds of thousands of them: those that lie whole in the buffer are stepped over here."""
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if self._at + 8 <= len(self._data):
                after = self._at + 8 + length_at(self._data, self._at)[0]
                if after <= len(self._data):
                    self._at = after
                    continue
            self.skip(self.scalar("Q"))

    def _fill(self, count: int) -> None:
        """Have at least `count` bytes ready."""
        if self.position + count > self._end:
            raise DamagedHeader("its header ends too early")
        self._base, rest, self._at = self.position, self._data[self._at :], 0
        self._data = rest + self._stream.read(max(_CHUNK, count) - len(rest))
        if len(self._data) < count:
            raise DamagedHeader("its header ends too early")


_CACHE_BYTES = 2  # of one number in the cache of keys and values: llama.cpp keeps them as 16-bit floats
_LARGEST = {"block_count": 10_000, "context_length": 1 << 31, "embedding_length": 1 << 20}
_BEFORE_GGUF = (b"lmgg", b"fmgg", b"tjgg", b"algg", b"ggml", b"ggmf", b"ggjt", b"ggla")


@dataclass(frozen=True)
class ModelFile:
    """`parameters` are billions, None if the file does not tell; `context` is in tokens, as the model was
    trained; `size` is in bytes, of all parts; `cache_per_token` bytes of memory are needed for each token
    of the window."""

    architecture: str
    name: str
    parameters: float | None
    context: int
    layers: int
    embedding: int
    heads: int
    kv_heads: int
    size: int
    cache_per_token: int


def read_model_file(path: Path) -> ModelFile:
    """What the header of `path`, the first part where a model is split, says. The weights are not read.

    Raises ModelError when there is no such file, when it is no model that can write text, or not all of it.
    """
    header = _header(path)
    kind = header.text("general.type") or "model"
    if kind != "model":
        raise ModelError(f"{path} is not a language model but a file of kind {kind!r}: name the model itself")
    parts = [header, *(_header(part) for part in _other_parts(path, header))]
    architecture = header.text("general.architecture")
    if not architecture:
        raise _damaged(path, "it does not name its architecture")
    try:
        return _model(header, architecture, parts)
    except DamagedHeader as error:
        raise _damaged(path, str(error)) from error


def _model(header: Header, architecture: str, parts: Sequence[Header]) -> ModelFile:
    def number(key: str, default: int | None = None) -> int:
        found = header.number(f"{architecture}.{key}", default)
        if not 0 <= found <= _LARGEST.get(key, 1 << 20):
            raise DamagedHeader(f"its {key} is {found}")
        return found

    layers, embedding, context = (
        number(key) for key in ("block_count", "embedding_length", "context_length")
    )
    if not (layers and embedding and context):
        raise DamagedHeader("it has no layers or no window")
    heads = header.numbers(f"{architecture}.attention.head_count", layers) or [0]
    kv_heads = header.numbers(f"{architecture}.attention.head_count_kv", layers) or heads
    if not all(0 <= count <= 1 << 16 for count in (*heads, *kv_heads)):
        raise DamagedHeader("the number of its heads is out of range")
    width = embedding // max(*heads, 1)
    one_head = number("attention.key_length", width) + number("attention.value_length", width)
    weights = sum(part.weights for part in parts)
    return ModelFile(
        architecture,
        header.text("general.name"),
        weights / 1e9 if weights else _labelled(header),
        context,
        layers,
        embedding,
        max(heads),
        max(kv_heads),
        sum(part.size for part in parts),
        sum(kv_heads) * one_head * _CACHE_BYTES,
    )


def _labelled(header: Header) -> float | None:
    """Billions of parameters as the file is labelled, "1.5B", "8x7B" or "135M"."""
    label = re.fullmatch(r"(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([BM])", header.text("general.size_label"))
    if not label:
        return None
    return int(label[1] or 1) * float(label[2]) / (1 if label[3] == "B" else 1000)


def _other_parts(path: Path, header: Header) -> list[Path]:
    """Where the second and later parts of a split model are; llama.cpp finds them by their names."""
    try:
        number, count = header.number("split.no", 0), header.number("split.count", 1)
    except DamagedHeader as error:
        raise _damaged(path, str(error)) from error
    if count <= 1:
        return []
    named = re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.gguf", path.name)
    if number:
        first = f"{named[1]}-00001-of-{named[3]}.gguf" if named else "the first"
        raise ModelError(f"{path} is part {number + 1} of {count} of a model: name its first part, {first}")
    if not named or int(named[3]) != count or count > 1_000:
        raise ModelError(
            f"{path} is the first of {count} parts of a model, and llama.cpp finds the others by their names: "
            f"give it the name it had, NAME-00001-of-{count:05}.gguf"
        )
    return [path.with_name(f"{named[1]}-{part:05}-of-{named[3]}.gguf") for part in range(2, count + 1)]


def _header(path: Path) -> Header:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a fifo must not be waited for
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror}): name a model file, local/PATH") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r} is not a path: name a model file, local/PATH") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise ModelError(f"{path} is {what}: name a model file, local/PATH")
        with os.fdopen(os.dup(file), "rb") as stream:
            _check_kind(path, stream.read(512))
            stream.seek(0)
            header = parse(stream, status.st_size)
    except DamagedHeader as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror})") from error
    finally:
        os.close(file)
    if header.needed > status.st_size:
        raise ModelError(
            f"{path} is cut short, {status.st_size:,} bytes of at least {header.needed:,}: "
            "download or copy it again"
        )
    return header


def _check_kind(path: Path, start: bytes) -> None:
    """Raise ModelError unless `start` is that of a GGUF file of a version that llama.cpp reads."""

    def no(why: str) -> NoReturn:
        raise ModelError(f"{path} is not a model file that llama.cpp reads: {why}")

    if not start:
        no("it is empty")
    if start.startswith(b"version https://git-lfs"):
        no("it is a git-lfs pointer, `git lfs pull` gets the file itself")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        no("it is a web page, download the file itself")
    if start.startswith(_BEFORE_GGUF):
        no("it is older than the GGUF format, get a newer one")
    if not start.startswith(b"GGUF"):
        no("it is not in the GGUF format")
    if len(start) < 8:
        no("it is cut short")
    (version,) = struct.unpack_from("<I", start, 4)
    if version and not version & 0xFFFF:
        no("it was made for big-endian computers, get the other kind")
    if version not in (2, 3):
        no(f"its GGUF version is {version}, get one of version 3")


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"the model file {path} is damaged, {why}: download or copy it again")


DEFAULT_WINDOW = 16_384  # tokens; many models know 128k and more, whose cache would take gigabytes
SMALLEST_WINDOW = 2_048  # less than that holds no prompt of an edit and its reply
_SCRATCH = 200 << 20  # bytes that llama.cpp computes in, and a tenth of the model: measured, then rounded up


@dataclass(frozen=True)
class LocatedModel:
    """A model file that is there: `file` is absolute, `shown` as the user wrote it; `stamp` changes with it."""

    file: Path
    shown: str
    stamp: tuple[int, int]
    model: ModelFile


@dataclass(frozen=True)
class LoadPlan:
    """How to load it: `window` in tokens, `wished` what was asked for; `need` bytes of memory."""

    found: LocatedModel
    wished: int | None
    window: int
    need: int


def locate(path: str) -> LocatedModel:
    """The model file at `path`, `~` and the current folder taken into account. Raises ModelError."""
    try:
        written = Path(path).expanduser()
    except RuntimeError as error:  # ~name of nobody
        raise ModelError(f"no such file: {path}; name a model file, local/PATH") from error
    stamp = _stamp(written)
    return LocatedModel(written.absolute(), path, stamp, _read(written, stamp))


def make_plan(found: LocatedModel, wished: int | None, free: int | None) -> LoadPlan:
    """How to load the model into `free` bytes of memory (None: unknown) with a window of `wished` tokens.

    Without a wish the window is the model's own, at most DEFAULT_WINDOW, and smaller where memory is short.
    Raises ModelError when it does not fit, UsageError for a window that is none.
    """
    if wished is not None and wished < 1:
        raise UsageError(f"a window of {wished} tokens is invalid: use a positive number")
    model = found.model
    windows = [min(wished, model.context)] if wished else _windows(model.context)
    for window in windows:
        if free is None or need(model, window) <= free:
            return LoadPlan(found, wished, window, need(model, window))
    raise ModelError(_too_large(found.shown, model, windows[-1], free or 0))


def need(model: ModelFile, window: int) -> int:
    """Bytes of memory that `model` takes: its weights, the cache of the window, what it computes in."""
    return model.size + window * model.cache_per_token + _SCRATCH + model.size // 10


def _windows(trained: int) -> list[int]:
    """The windows to try, largest first."""
    size = min(trained, DEFAULT_WINDOW)
    windows = [size]
    while size > SMALLEST_WINDOW:
        size = max(size // 2, SMALLEST_WINDOW)
        windows.append(size)
    return windows


def _too_large(path: str, model: ModelFile, window: int, free: int) -> str:
    return (
        f"{path} needs about {_gigabytes(need(model, window))} of memory with a window of {window:,} tokens, and "
        f"{_gigabytes(free)} are free: close other programs, or use a smaller or more quantized model"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.2f} GB"


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file is replaced or rewritten."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return (0, 0)  # reading says why
    return (status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int]) -> ModelFile:
    return read_model_file(path)


_UNLIMITED = 1 << 60  # version 1 writes a number about so large for "no limit"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping, within the limits of the control groups; None if not known."""
    known = [_free(root), *_cgroup_memory(root)]
    return min((room for room in known if room is not None), default=None)


def cores(root: Path = Path("/")) -> int:
    """Physical cores that this process may use: a second thread on a core makes llama.cpp slower."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return max(os.cpu_count() or 1, 1)
    siblings = {
        _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in allowed
    }
    return max(1, min(len(siblings), _quota(root) or len(siblings)))


def _free(root: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    try:  # macOS does not say what is free; it compresses and evicts a lot for who needs memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    except (ValueError, OSError):
        return None


def _cgroup_memory(root: Path) -> list[int | None]:
    """What each control group above this process still allows; pages of files are given back on demand."""
    rooms: list[int | None] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, used = (
                root / "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        else:
            continue
        for group in _upwards(base, path):
            most, now = _number(group / limit), _number(group / used)
            if most is not None and now is not None and most < _UNLIMITED:
                files = re.findall(
                    r"^(?:total_)?(?:in)?active_file (\d+)", _text(group / "memory.stat"), re.MULTILINE
                )
                rooms.append(max(0, most - now + min(now, max(map(int, files), default=0))))
    return rooms


def _upwards(base: Path, path: str) -> list[Path]:
    """The folders of a group and those above it. In a container the path may be that of the host: only `base`
    is there then."""
    folders = [base]
    for name in path.strip("/").split("/"):
        if name not in ("", ".", ".."):
            folders.append(folders[-1] / name)
    return folders


def _quota(root: Path) -> int | None:
    """How many whole cores the control group's share of time comes to."""
    found = re.fullmatch(r"(\d+) (\d+)", _text(root / "sys/fs/cgroup/cpu.max"))
    return -(-int(found[1]) // max(int(found[2]), 1)) if found else None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""  # another system, or not readable from in here
