"""A split into a folder: refusals, the files, and that they are the source when joined."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent import Repository
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.split import source as split_source
from repoagent.split.folder_index import VERSION, parse_index, read_index
from repoagent.split.folder_writer import create_split
from repoagent.split.refresh import refresh_split
from repoagent.split.source import SourceText, SplitOptions, default_folder, fill_names, find_text
from repoagent.storage.json_files import dumps
from tests.conftest import GitRepo
from tests.split.helpers import SOURCE, text


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x")
    with pytest.raises(Refused, match="is neither empty nor a split"):
        create_split(text(tmp_path), SplitOptions(), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]
    for name, message in (("a.py", "is not a folder"), ("no/such", "no such folder")):
        with pytest.raises(UsageError, match=message):
            create_split(text(tmp_path), SplitOptions(), tmp_path / name)


def test_a_split_is_replaced_by_one_of_the_same_file_if_no_segment_was_edited(tmp_path: Path) -> None:
    source = text(tmp_path)
    made = create_split(source, SplitOptions(target=300), tmp_path / "out")
    with pytest.raises(Refused, match=r"contains a split of .*a\.py"):
        create_split(text(tmp_path, name="b.py"), SplitOptions(), made.folder)
    for segment in made.segments:
        (made.folder / segment.file).write_bytes(b"mine\n")
    with pytest.raises(Refused, match=r"has unmerged edits \(001\.py, 002\.py, .*\)"):
        create_split(text(tmp_path, b"x = 1\n"), SplitOptions(), made.folder)
    assert read_index(made.folder) == made
    for segment in made.segments:
        assert (made.folder / segment.file).read_bytes() == b"mine\n"
        (made.folder / segment.file).write_bytes(SOURCE[segment.start : segment.end])
    second = create_split(text(tmp_path, SOURCE[:200]), SplitOptions(target=100), made.folder)
    assert len(second.segments) < len(made.segments)
    names = [segment.file for segment in second.segments]
    assert {path.name for path in made.folder.iterdir()} == {*names, "base", "index.json", ".lock"}
    assert b"".join((made.folder / name).read_bytes() for name in names) == SOURCE[:200]


def test_a_git_directory_is_refused(repo: GitRepo) -> None:
    source = find_text("src/app.py", repo.top)
    (repo.top / "link").symlink_to(repo.top / ".git")
    for place in (".git/parts", ".git/hooks", "link/parts"):
        with pytest.raises(UsageError, match="is in a git directory"):
            create_split(source, SplitOptions(), repo.top / place)


@pytest.mark.parametrize("linked", [".repoagent", ".repoagent/splits", ".repoagent/splits/src-app.py"])
@pytest.mark.parametrize("inside", [False, True])
def test_no_link_in_repoagent_is_followed(repo: GitRepo, tmp_path: Path, linked: str, inside: bool) -> None:
    outside = tmp_path / "outside"
    for name in ("splits/src-app.py", "src-app.py") if inside else ("",):
        (outside / name).mkdir(parents=True)
    before = sorted(outside.rglob("*"))
    source = find_text("src/app.py", repo.top)
    folder = default_folder(source)
    (repo.top / linked).parent.mkdir(parents=True, exist_ok=True)
    (repo.top / linked).symlink_to(outside)
    for place in {folder, repo.top / ".repoagent/splits/other"}:
        if place.is_relative_to(repo.top / linked):
            with pytest.raises(RepoagentError, match=f"{linked} is a symbolic link|no such folder"):
                create_split(source, SplitOptions(), place)
    with pytest.raises(Refused, match=f"{linked} is a symbolic link"):
        Repository(repo.top).split("src/app.py", write=True)
    with pytest.raises(Refused, match=f"{linked} is a symbolic link"):
        read_index(folder)
    assert sorted(outside.rglob("*")) == before


@pytest.mark.parametrize("name", ["base", "index.json", ".lock", ".staged", "001.py"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_no_link_or_pipe_in_a_split_is_followed(repo: GitRepo, tmp_path: Path, name: str, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    source = find_text("src/app.py", repo.top)
    folder = default_folder(source)
    folder.parent.mkdir(parents=True)
    create_split(source, SplitOptions(), folder)
    (folder / name).unlink(missing_ok=True)
    (outside / "file").write_bytes(b"not ours\n")
    if kind == "link":
        (folder / name).symlink_to(outside if name == ".staged" else outside / "file")
    else:
        os.mkfifo(folder / name)
    repo.write("src/app.py", SOURCE)
    with suppress(Refused):
        refresh_split(folder, repo.top)
    with suppress(Refused):
        create_split(find_text("src/app.py", repo.top), SplitOptions(), folder)
    assert [path.read_bytes() for path in outside.rglob("*")] == [b"not ours\n"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    source = text(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(Refused, match="could not open the folder"):
        create_split(source, SplitOptions(), tmp_path / "closed" / "out")


def test_each_path_has_a_separate_folder(repo: GitRepo) -> None:
    worktree, splits = find_text("a.txt", repo.top).worktree, repo.top / ".repoagent" / "splits"

    def slug(path: str) -> str:
        return default_folder(SourceText(path, b"", worktree)).relative_to(splits).as_posix()

    assert slug("src/app.py") == slug("src-app.py") == "src-app.py"
    splits.mkdir(parents=True)
    create_split(find_text("src/app.py", repo.top), SplitOptions(), splits / "src-app.py")
    assert slug("src/app.py") == "src-app.py" and slug("src-app.py").startswith("src-app.py-")
    paths = [".github/x.yml", "github/x.yml", "a b.py", "a\tb.py", "\udcff.py", "../x", "x" * 300]
    odd = {slug(path) for path in paths}
    assert len(odd) == 7 and all("/" not in name and not name.startswith(".") for name in odd)
    for source in (SourceText("/tmp/x.py", b""), SourceText("", b"", worktree)):
        with pytest.raises(UsageError, match="use -o to name"):
            default_folder(source)


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        (b"", ("utf-8", False, "none", False)),
        (b"a", ("utf-8", False, "none", False)),
        (b"a\nb\n", ("utf-8", False, "lf", True)),
        (b"\xef\xbb\xbfa\r\nb\r\n", ("utf-8", True, "crlf", True)),
        (b"a\rb\r", ("utf-8", False, "cr", True)),
        (b"a\r\nb\nc", ("utf-8", False, "mixed", False)),
        (b"caf\xe9\n", ("unknown-8bit", False, "lf", True)),
        (b"a\0b\n", ("binary", False, "lf", True)),
    ],
)
def test_the_facts_of_a_text(data: bytes, facts: tuple[object, ...]) -> None:
    source = split_source.source_of(SourceText("a.py", data))
    assert (source.encoding, source.bom, source.line_ending, source.final_newline) == facts


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("language", [None, "python", "text"])
def test_wide_characters_are_refused(encoding: str, language: str | None) -> None:
    with pytest.raises(Refused, match=r"cannot split UTF-(16|32) text; save .*a\.py as UTF-8 first"):
        split_source.check_text(
            SourceText("a.py", SOURCE.decode().encode(encoding)), SplitOptions(language=language)
        )


LINES = st.lists(st.sampled_from([b"def f():\n", b"  x\r\n", b"\r", b"\n", b"\xe9\0", b"z" * 90]))
PATHS = st.sampled_from(["a.py", "a.json", "a.txt", "odd \udcff.c++", ""])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=600) | LINES.map(b"".join), PATHS, st.booleans())
def test_an_index_survives_a_round_trip(data: bytes, path: str, natural: bool) -> None:
    options = SplitOptions(64, natural, "text" if not path else None)
    index = split_source.new_index(SourceText(path, data), options, Path("/x"))
    assert b"".join(data[segment.start : segment.end] for segment in index.segments) == data
    dumped = dumps({"version": VERSION, **index.to_dict()})
    assert parse_index(Path("/x/index.json"), dumped) == index


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 8))
def test_new_names_sort_between_their_neighbours(gaps: list[int], count: int) -> None:
    names = fill_names([None] * count, ".py")
    assert names == [f"{number:03}.py" for number in range(1, count + 1)]
    for gap in gaps:
        place = gap % (len(names) + 1)
        wanted: list[str | None] = [*names[:place], *[None] * gap, *names[place:]]
        filled = fill_names(wanted, ".py")
        assert filled == sorted(filled) and len(set(filled)) == len(filled)
        assert all(old in (None, new) for old, new in zip(wanted, filled, strict=True))
        names = filled


def test_many_new_names_between_two_stay_short() -> None:
    names: list[str | None] = ["001.py", *[None] * 2000, "002.py"]
    filled = fill_names(names, ".py")
    assert filled == sorted(set(filled)) and max(map(len, filled)) < 12
    assert fill_names(["998.py", *[None] * 3], ".py") == ["998.py", "998nb.py", "998nc.py", "998nd.py"]
    assert fill_names(["002.py", None, "004.py"], ".py") == ["002.py", "003.py", "004.py"]
    assert len(fill_names([None] * 1000, ".py")[0]) == len("0001.py")


def test_a_full_disk_leaves_no_files(tmp_path: Path) -> None:
    source = text(tmp_path)
    made = create_split(source, SplitOptions(target=300), tmp_path / "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        for name in ("new", "old"):
            with pytest.raises(RepoagentError, match="cannot write the split in"):
                create_split(source, SplitOptions(), tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "new").exists()
    assert read_index(tmp_path / "old") == made and not (tmp_path / "old" / ".staged").exists()
