"""The header of a GGUF model file: what it holds and whether it is whole.

Written after the format's description (github.com/ggml-org/ggml, docs/gguf.md). llama.cpp ends the whole process
over some broken files, so they are told apart before it sees them.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.providers.local.gguf_header import Damaged, Header, parse

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


def read(path: Path) -> ModelFile:
    """What the header of `path`, the first part where a model is split, says. The weights are not read.

    Raises ModelError when there is no such file, when it is no model that can write text, or not all of it.
    """
    header = _header(path)
    kind = header.text("general.type") or "model"
    if kind != "model":
        raise ModelError(f"{path} is no language model but a file of kind {kind!r}: name the model itself")
    parts = [header, *(_header(part) for part in _other_parts(path, header))]
    architecture = header.text("general.architecture")
    if not architecture:
        raise _damaged(path, "it does not say which architecture it has")
    try:
        return _model(header, architecture, parts)
    except Damaged as error:
        raise _damaged(path, str(error)) from error


def _model(header: Header, architecture: str, parts: Sequence[Header]) -> ModelFile:
    def number(key: str, default: int | None = None) -> int:
        found = header.number(f"{architecture}.{key}", default)
        if not 0 <= found <= _LARGEST.get(key, 1 << 20):
            raise Damaged(f"its {key} is {found}")
        return found

    layers, embedding, context = (
        number(key) for key in ("block_count", "embedding_length", "context_length")
    )
    if not (layers and embedding and context):
        raise Damaged("it has no layers or no window")
    heads = header.numbers(f"{architecture}.attention.head_count", layers) or [0]
    kv_heads = header.numbers(f"{architecture}.attention.head_count_kv", layers) or heads
    if not all(0 <= count <= 1 << 16 for count in (*heads, *kv_heads)):
        raise Damaged("the number of its heads is out of range")
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
    except Damaged as error:
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
        raise ModelError(f"{path} can't be read ({error.strerror}): name a model file, local/PATH") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r} is no path: name a model file, local/PATH") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ModelError(f"{path} is {what}: name a model file, local/PATH")
        with os.fdopen(os.dup(file), "rb") as stream:
            _check_kind(path, stream.read(512))
            stream.seek(0)
            header = parse(stream, status.st_size)
    except Damaged as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise ModelError(f"{path} can't be read ({error.strerror})") from error
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
        raise ModelError(f"{path} is no model file that llama.cpp reads: {why}")

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
