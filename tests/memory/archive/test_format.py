"""The archive file: the same bytes for the same memories, and refused as a whole where anything in it is wrong."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from dataclasses import replace

import pytest

from repoagent.errors import Refused
from repoagent.memory import archive
from repoagent.memory.archive import KIND, SHARED, ArchivedMemory, dumps, pack_memory, read_archive
from repoagent.memory.edit_records import append_edit
from repoagent.storage.json_files import NewerFormat
from tests.memory.archive.conftest import Pair, edit_of, fill, state
from tests.memory.conftest import fail

IDENTITY = json.dumps({"version": 1, "path": "a.py", "blobs": ["1" * 40]}).encode()
CONVERSATION = b"# repoagent conversation, version 1, nonce 7f3a9c21\n\n## [7f3a9c21] user\nhello\n"


def packed(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def archive_of(*members: tuple[tarfile.TarInfo | str, bytes], **other: object) -> bytes:
    """An archive of these members and a manifest."""
    manifest = json.dumps({"version": 1, "kind": KIND, **other}).encode()
    return packed(("manifest.json", manifest), *members)


def with_file(path: str, data: bytes, **other: object) -> bytes:
    """An archive of one memory with one more file."""
    return archive_of(("memory/a-1/identity.json", IDENTITY), (f"memory/a-1/{path}", data), **other)


def with_identity(old: bytes, new: bytes) -> bytes:
    return archive_of(("memory/a-1/identity.json", IDENTITY.replace(old, new)))


def read(data: bytes) -> list[ArchivedMemory]:
    return read_archive(io.BytesIO(data), "x.tar.gz")


INVALID = {
    "empty": b"",
    "text": b"not an archive\n" * 50,
    "gzip of text": gzip.compress(b"not an archive\n" * 100),
    "no manifest": packed(("memory/a-1/identity.json", IDENTITY)),
    "another kind": with_file("notes.md", b"- x\n", kind="backup"),
    "no identity": archive_of(("memory/a-1/notes.md", b"- x\n")),
    "not a conversation": with_file("conversation.md", b"hello\n"),
    "a newer conversation": with_file("conversation.md", CONVERSATION.replace(b"version 1", b"version 2")),
    "a path out of the work tree": with_identity(b"a.py", b"../a.py"),
    "a path in .git": with_identity(b"a.py", b".git/config"),
    "a commit that is an option": with_identity(b'"blobs"', b'"commit": "--output=x", "blobs"'),
    "cut short": with_file("notes.md", random.Random(1).randbytes(3000).hex().encode())[:-900],
    "a wrong checksum": with_file("notes.md", b"- x\n")[:-8] + b"\0" * 8,
}  # fmt: skip
IGNORED = {
    "up and out": ("memory/a-1/../../../../etc/passwd", None),
    "absolute": ("/etc/cron.d/x", None),
    "another folder": ("config.toml", None),
    "a hidden folder": ("memory/.x/notes.md", None),
    "a file of no memory": ("memory/a-1/hooks.sh", None),
    "a lock": ("memory/a-1/notes.md.lock", None),
    "a symbolic link": ("memory/a-1/notes.md", tarfile.SYMTYPE),
    "a hard link": ("memory/a-1/notes.md", tarfile.LNKTYPE),
    "a device": ("memory/a-1/notes.md", tarfile.CHRTYPE),
    "a fifo": ("memory/a-1/notes.md", tarfile.FIFOTYPE),
    "a sparse file": ("memory/a-1/notes.md", tarfile.GNUTYPE_SPARSE),
}


@pytest.mark.parametrize("kind", IGNORED)
def test_what_does_not_belong_to_a_memory_is_ignored(kind: str) -> None:
    name, type_ = IGNORED[kind]
    member = tarfile.TarInfo(name)
    member.type, member.linkname = type_ or tarfile.REGTYPE, "/etc/passwd" if type_ else ""
    (memory,) = read(archive_of(("memory/a-1/identity.json", IDENTITY), (member, b"")))
    assert (memory.name, memory.files) == ("a-1", {})


@pytest.mark.parametrize("kind", INVALID)
def test_an_invalid_archive_is_refused_as_a_whole(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        read(INVALID[kind])
    sentence = str(caught.value)
    assert sentence.startswith("x.tar.gz ") and "\n" not in sentence and len(sentence) < 400


@pytest.mark.parametrize("path", ["notes.md", "conversation.md", "archive/notes.md"])
def test_a_valid_archive_differs_from_those_in_one_thing_only(path: str) -> None:
    data = CONVERSATION if path == "conversation.md" else b"- x\n"
    assert read(with_file(path, data))[0].files == {path: data}


def test_a_newer_format_is_reported() -> None:
    with pytest.raises(NewerFormat, match=r"version 2, .* update repoagent"):
        read(with_file("notes.md", b"- x\n", version=2))


def test_an_oversized_archive_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 2**20)
    with pytest.raises(Refused, match="more than 1 MiB"):
        read(with_file("notes.md", b"a" * 2**20))


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_is_refused_or_does_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(gzip.decompress(with_file("conversation.md", CONVERSATION)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    try:
        memories = read(gzip.compress(bytes(data)))
    except Refused:
        return
    assert all(SHARED.fullmatch(path) for parcel in memories for path in parcel.files)


def test_the_same_memories_make_the_same_bytes(pair: Pair) -> None:
    memory = pair.there.remember("a.py")
    fill(memory, "one", "two")
    first = pair.packed()
    assert pair.packed() == first and first[4:8] == bytes(4)
    again = read(first)
    assert dumps(again[::-1]) == first
    before = state(pair.there)
    assert {parcel.identity.path for parcel in again} == {"a.py", "b.py"}
    assert state(pair.there) == before


def test_secrets_are_masked_on_export_and_import(pair: Pair) -> None:
    token = "ghp_" + "x9Kq2LmN8vRt4Wz7Yb3Cd6Fg1Hj5Pk0SaEuQ"
    memory = pair.there.remember("a.py")
    fill(memory, "one")
    memory.notes.write_text(f"# Notes\n\n- the token is {token}\n")
    memory.conversation.write_text(memory.conversation.read_text() + f"with {token}\n")
    append_edit(memory.edits, replace(edit_of("two"), request=f"use {token}"))
    data = pair.packed()
    assert token.encode() not in gzip.decompress(data)
    assert pack_memory(memory, fail).masked == 3
    parcel = read(data)[0]
    edits, notes = memory.edits.read_bytes(), memory.notes.read_bytes()
    forged = {"notes.md": notes, "edits.jsonl": edits, "conversation.md": CONVERSATION + token.encode()}
    pair.take(dumps([replace(parcel, files=forged)]))
    assert not any(token.encode() in data for data in state(pair.here).values())


def test_nothing_of_this_machine_is_in_it(pair: Pair) -> None:
    memory = pair.there.remember("a.py")
    fill(memory, "one")
    (memory.folder / "notes.md.broken-1").write_text("x")
    inside = gzip.decompress(pair.packed())
    for word in (str(pair.there.repo.top), "seen.z", "broken", "lock", *memory.identity.keys):
        assert word.encode() not in inside
    assert pair.there.repo.read("a.py").splitlines()[0] not in inside
