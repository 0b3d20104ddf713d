"""Reading the header of a model file, and of any other file."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import ModelError
from repoagent.llm.providers.gguf import ModelFile, read_model_file
from tests.llm.providers.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def header(*pairs: bytes, tensors: int = 0, count: int | None = None, version: int = 3) -> bytes:
    return struct.pack(
        "<4sIQQ", b"GGUF", version, tensors, len(pairs) if count is None else count
    ) + b"".join(pairs)


def number(key: bytes, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


ARCHITECTURE = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
SIZES = (
    ARCHITECTURE,
    number(b"llama.block_count", 2),
    number(b"llama.embedding_length", 64),
    number(b"llama.context_length", 4096),
)


def test_the_values_of_the_header(model: Path) -> None:
    found = read_model_file(model)
    assert (found.path, found.context) == (model, 512)
    assert found.size == model.stat().st_size
    assert found.cache_per_token == 2 * (16 + 16) * 2


def test_billions_from_the_label_or_by_the_size(tmp_path: Path) -> None:
    label = text(b"general.size_label") + struct.pack("<I", 8)
    for shown, expected in (("1.5B", 1.5), ("8x7B", 56.0), ("135M", 0.135), ("large", None)):
        path = tmp_path / "model.gguf"
        path.write_bytes(header(*SIZES, label + text(shown.encode())))
        assert read_model_file(path).parameters == (expected or pytest.approx(path.stat().st_size / 0.6e9))


def test_heads_by_layer(tmp_path: Path) -> None:
    heads = text(b"llama.attention.head_count_kv") + struct.pack("<IIQ3I", 9, 4, 3, 4, 0, 9)
    path = tmp_path / "model.gguf"
    path.write_bytes(header(*SIZES, number(b"llama.attention.head_count", 4), heads))
    found = read_model_file(path)
    assert found.cache_per_token == (4 + 0) * (16 + 16) * 2  # for two layers; the third number is unused


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"GGUF", "it is cut short"),
        (b"\n <!DOCTYPE html><html>", "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "git lfs pull"),
        (b"PK\x03\x04" + bytes(90), "not in the GGUF format"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "big-endian"),
        (header(version=1), "its GGUF version is 1"),
        (header(version=0), "its GGUF version is 0"),
        (header(count=1), "its header ends too early"),
        (header(count=1 << 62), "more than it can hold"),
        (header(struct.pack("<Q", 1 << 63) + b"key"), "its header ends too early"),
        (header(text(b"a") + struct.pack("<IIQ", 9, 4, 1 << 62)), "its header ends too early"),
        (header(text(b"a") + struct.pack("<IIQ", 9, 8, 1 << 62)), "more than it can hold"),
        (header(text(b"a") + struct.pack("<IIQ", 9, 9, 1)), "unknown type 9"),
        (header(text(b"a") + struct.pack("<I", 99)), "unknown type 99"),
        (header(), "architecture"),
        (header(ARCHITECTURE), "llama.block_count"),
        (header(*SIZES[:3], number(b"llama.context_length", 0)), "no window"),
        (header(*SIZES, number(b"llama.attention.head_count", 1 << 31)), "attention.head_count"),
    ],
)
def test_invalid_files_are_refused_with_a_reason(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        read_model_file(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_no_file_a_folder_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("none.gguf", "No such file"), (".", "is a folder"), ("fifo", "not a regular file")):
        with pytest.raises(ModelError, match=said):
            read_model_file(tmp_path / name)
    with pytest.raises(ModelError, match="embedded null byte"):
        read_model_file(Path("a\0b"))


def test_a_file_that_belongs_to_a_model(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "adapter.gguf", kind="adapter")
    with pytest.raises(ModelError, match="of kind 'adapter'"):
        read_model_file(path)


def test_a_model_in_parts(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    second = tmp_path / "m-00002-of-00002.gguf"
    write_tiny_model(first, numbers={"split.no": 0, "split.count": 2})
    with pytest.raises(ModelError, match=r"cannot read .*m-00002-of-00002\.gguf"):
        read_model_file(first)
    write_tiny_model(second, numbers={"split.no": 1, "split.count": 2})
    assert read_model_file(first).size == first.stat().st_size + second.stat().st_size
    with pytest.raises(ModelError, match=r"name the first, NAME-00001-of-00002\.gguf"):
        read_model_file(second)
    with pytest.raises(ModelError, match=r"NAME-00001-of-00002\.gguf"):
        read_model_file(first.rename(tmp_path / "m.gguf"))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_raise_one_sentence(model: Path, data: st.DataObject) -> None:
    whole = model.read_bytes()
    content = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    edits = st.tuples(st.integers(4, 6_000), st.binary(min_size=1, max_size=9))
    for at, new in data.draw(st.lists(edits, max_size=4)):
        content[at : at + len(new)] = new
    path = model.with_name("damaged.gguf")
    path.write_bytes(content)
    started = time.monotonic()
    try:
        assert isinstance(read_model_file(path), ModelFile)
    except ModelError as error:
        assert "\n" not in str(error)
    assert time.monotonic() - started < 2
