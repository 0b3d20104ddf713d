"""The archive file: the same bytes for the same memories, and refused as a whole where anything in it is wrong."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from dataclasses import replace

import pytest

from repoagent.errors import Refused
from repoagent.memory import archive
from repoagent.memory.archive import KIND, SHARED, ArchivedMemory, dumps, pack, read_archive
from repoagent.memory.edit_records import append_edit
from repoagent.storage import json_files
from repoagent.storage.json_files import NewerFormat
from tests.memory.archive.conftest import Pair, edit_of, fail, fill, state

IDENTITY = json.dumps({"version": 1, "path": "a.py", "blobs": ["1" * 40]}).encode()
CONVERSATION = b"# repoagent conversation, version 1, nonce 7f3a9c21\n\n## [7f3a9c21] user\nhello\n"


def manifest(files: int, **other: object) -> bytes:
    value = {"version": 1, "kind": KIND, "object_format": "sha1", "files": files, **other}
    return json.dumps(value).encode()


def packed(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for member, data in members:
            one = tarfile.TarInfo(member) if isinstance(member, str) else member
            if one.isreg():
                one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    return out.getvalue()


def one(path: str, data: bytes, **other: object) -> bytes:
    """An archive of one memory with one more file."""
    return packed(
        ("manifest.json", manifest(2, **other)),
        ("memory/a-1/identity.json", IDENTITY),
        (f"memory/a-1/{path}", data),
    )


def read(data: bytes) -> list[ArchivedMemory]:
    return read_archive(io.BytesIO(data), "x.tar.gz")


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"not an archive\n" * 50,
    "gzip of text": lambda: gzip.compress(b"not an archive\n" * 100),
    "tar of something": lambda: packed(("README", b"hello")),
    "no manifest": lambda: packed(("memory/a-1/identity.json", IDENTITY)),
    "another kind": lambda: one("notes.md", b"- x\n", kind="backup"),
    "files missing": lambda: packed(("manifest.json", manifest(3)), ("memory/a-1/identity.json", IDENTITY)),
    "no identity": lambda: packed(("manifest.json", manifest(1)), ("memory/a-1/notes.md", b"- x\n")),
    "up and out": lambda: one("../../../../etc/passwd", b"x"),
    "absolute": lambda: packed(("manifest.json", manifest(1)), ("/etc/cron.d/x", b"x")),
    "another folder": lambda: packed(("manifest.json", manifest(1)), ("config.toml", b"check = 'evil'")),
    "a folder with dots": lambda: packed(("manifest.json", manifest(1)), ("memory/../notes.md", b"x")),
    "a hidden folder": lambda: packed(("manifest.json", manifest(1)), ("memory/.x/identity.json", IDENTITY)),
    "a file of no memory": lambda: one("hooks.sh", b"x"),
    "a lock": lambda: one("notes.md.lock", b"x"),
    "a symbolic link": lambda: packed(
        ("manifest.json", manifest(1)), (special("memory/a-1/notes.md", tarfile.SYMTYPE, "/etc/passwd"), b"")
    ),
    "a hard link": lambda: packed(
        ("manifest.json", manifest(1)), (special("memory/a-1/notes.md", tarfile.LNKTYPE, "manifest.json"), b"")
    ),
    "a device": lambda: packed(("manifest.json", manifest(1)), (special("memory/a-1/notes.md", tarfile.CHRTYPE), b"")),
    "a fifo": lambda: packed(("manifest.json", manifest(1)), (special("memory/a-1/notes.md", tarfile.FIFOTYPE), b"")),
    "a folder": lambda: packed(("manifest.json", manifest(1)), (special("memory/a-1", tarfile.DIRTYPE), b"")),
    "the same twice": lambda: packed(
        ("manifest.json", manifest(2)), ("memory/a-1/identity.json", IDENTITY), ("memory/a-1/identity.json", IDENTITY)
    ),
    "the same but for case": lambda: packed(
        ("manifest.json", manifest(2)), ("memory/a-1/identity.json", IDENTITY), ("memory/A-1/identity.json", IDENTITY)
    ),
    "notes that are no UTF-8": lambda: one("notes.md", b"- \xff\xfe\n"),
    "edits that are none": lambda: one("edits.jsonl", b"{}\n"),
    "edits of a newer format": lambda: one(
        "edits.jsonl", json.dumps({"version": 9, "id": "x", "request": "y"}).encode()
    ),
    "an edit that cost a word": lambda: one("edits.jsonl", json.dumps(
        {"version": 1, "id": "x", "time": "", "path": "a", "request": "", "source_blob": "", "result_blob": "",
         "usage": {"input": "many"}}).encode()),
    "edits nested deeply": lambda: one("edits.jsonl", b'{"version":1,"id":' + b"[" * 100_000),
    "no conversation": lambda: one("conversation.md", b"hello\n"),
    "a newer conversation": lambda: one("conversation.md", CONVERSATION.replace(b"version 1", b"version 2")),
    "a path out of the work tree": lambda: packed(
        ("manifest.json", manifest(1)), ("memory/a-1/identity.json", IDENTITY.replace(b"a.py", b"../a.py"))
    ),
    "a path in .git": lambda: packed(
        ("manifest.json", manifest(1)), ("memory/a-1/identity.json", IDENTITY.replace(b"a.py", b".git/config"))
    ),
    "a version that is an option": lambda: packed(
        ("manifest.json", manifest(1)), ("memory/a-1/identity.json", IDENTITY.replace(b"1" * 40, b"--output=x"))
    ),
    "cut short": lambda: one("notes.md", random.Random(1).randbytes(3000).hex().encode())[:-900],
    "a wrong checksum": lambda: one("notes.md", b"- x\n")[:-8] + b"\0" * 8,
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_invalid_archive_is_refused_as_a_whole(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        read(HOSTILE[kind]())
    sentence = str(caught.value)
    assert sentence.startswith("x.tar.gz ") and "\n" not in sentence and len(sentence) < 400


def test_the_forms_that_are_refused_differ_in_one_thing_only() -> None:
    for path, data in (
        ("notes.md", b"- x\n"),
        ("conversation.md", CONVERSATION),
        ("archive/notes.md", b"- x\n"),
    ):
        assert read(one(path, data))[0].files == {path: data}


def test_a_newer_format_is_reported() -> None:
    with pytest.raises(NewerFormat, match=r"version 2, .* update repoagent"):
        read(one("notes.md", b"- x\n", version=2))


def test_an_oversized_archive_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 2**20)
    monkeypatch.setattr(archive, "LARGEST_FILE", 2**19)
    with pytest.raises(Refused, match="524,289 bytes, which is too large"):
        read(one("notes.md", b"a" * (2**19 + 1)))
    many = [(f"memory/a-{number}/notes.md", b"a" * 2**18) for number in range(5)]
    with pytest.raises(Refused, match="more than 1 MiB"):
        read(packed(("manifest.json", manifest(5)), *many))
    with pytest.raises(Refused, match="more than 1 MiB"):  # where no file of the archive says how long it is
        read(gzip.compress(bytes(2**21)))


@pytest.mark.parametrize("seed", range(40))
def test_any_damage_is_refused_or_does_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(gzip.decompress(one("conversation.md", CONVERSATION)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    try:
        found = read(gzip.compress(bytes(data)))
    except Refused:
        return
    assert all(SHARED.fullmatch(path) for parcel in found for path in parcel.files)


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
    assert pack(memory, fail).masked == 3
    parcel = read(data)[0]
    line = json_files.dumps({**replace(edit_of("two"), request=f"use {token}").to_dict()})
    forged = {
        "notes.md": f"- {token}\n".encode(),
        "edits.jsonl": line,
        "conversation.md": CONVERSATION + token.encode(),
    }
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
