"""Refresh: cuts and file names stay, no edit of the user is lost, and a kill leaves the old or the new split."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused, UsageError
from repoagent.git.file_writer import exchange_files
from repoagent.split import folder_writer
from repoagent.split.folder_index import SplitIndex, base_bytes, edited_segments, read_index, segment_base
from repoagent.split.folder_writer import create_split
from repoagent.split.refresh import RefreshResult, refresh_split
from repoagent.split.source import SourceText, SplitOptions


def function(name: str, lines: int = 8) -> bytes:
    body = "".join(f"    {name}_{n} = {n}\n" for n in range(lines))
    return f"def {name}():\n{body}    return {name}_0\n\n\n".encode()


SOURCE = b"".join(function(name) for name in "abcdefgh")


@pytest.fixture
def split(tmp_path: Path) -> SplitIndex:
    """One function in each segment: 001.py to 008.py."""
    return make(tmp_path, SOURCE)


def make(top: Path, source: bytes) -> SplitIndex:
    (top / "x.py").write_bytes(source)
    index = create_split(SourceText(str(top / "x.py"), source), SplitOptions(target=220), top / "out")
    assert [segment.file for segment in index.segments][:1] == (["001.py"] if source else [])
    return index


def again(index: SplitIndex, source: bytes) -> RefreshResult:
    Path(index.source.path).write_bytes(source)
    done = refresh_split(index.folder, index.folder)
    check(index.folder, source)
    return done


def check(folder: Path, source: bytes) -> SplitIndex:
    """Check that the split is one of `source`, without leftovers in its folder."""
    index = read_index(folder)
    assert base_bytes(index) == source
    mine = edited_files(index)
    for segment in index.segments:
        if segment.file not in mine:
            assert (folder / segment.file).read_bytes() == source[segment.start : segment.end]
        if segment.based_on:
            assert segment.file in mine
            assert segment_base(index, segment) != source[segment.start : segment.end]
    names = [segment.file for segment in index.segments]
    assert names == sorted(names)
    bases = {segment.kept_base for segment in index.segments if segment.based_on}
    assert {path.name for path in folder.iterdir()} == {*names, *bases, "index.json", "base", ".lock"}
    assert not index.pending
    return index


def edited_files(index: SplitIndex) -> dict[str, bytes]:
    return {segment.file: data for segment, data in edited_segments(index)}


def test_a_binary_or_missing_source_and_standard_input_are_refused(split: SplitIndex, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="looks binary"):
        again(split, b"\0" * 100)
    check(split.folder, SOURCE)
    Path(split.source.path).unlink()
    with pytest.raises(UsageError, match="no such file"):
        refresh_split(split.folder, tmp_path)
    piped = create_split(SourceText("", SOURCE), SplitOptions(language="python"), tmp_path / "piped")
    with pytest.raises(UsageError, match="was split from standard input"):
        refresh_split(piped.folder, tmp_path)
    done = refresh_split(piped.folder, tmp_path, text=SourceText("", SOURCE + b"x = 1\n"))
    assert (base_bytes(done.index), done.index.language) == (SOURCE + b"x = 1\n", "python")


def test_a_local_change_or_a_missing_file_writes_one_file(split: SplitIndex) -> None:
    before = {path.name: path.stat().st_ino for path in split.folder.glob("0*")}
    done = again(split, SOURCE.replace(b"c_3 = 3", b"c_3 = 33"))
    assert (done.written, done.added, done.removed) == (("003.py",), (), ())
    after = {path.name: path.stat().st_ino for path in split.folder.glob("0*")}
    assert {name for name in before if before[name] != after[name]} <= {"003.py"}
    assert again(split, SOURCE.replace(b"c_3 = 3", b"c_3 = 33")) == RefreshResult(done.index)
    (split.folder / "004.py").unlink()
    assert again(split, SOURCE.replace(b"c_3 = 3", b"c_3 = 33")).written == ("004.py",)


def test_names_stay_if_functions_are_added_and_removed(split: SplitIndex) -> None:
    source = SOURCE.replace(function("c"), b"").replace(function("e"), function("e") + function("new"))
    done = again(split, source)
    texts = {(split.folder / segment.file).read_bytes(): segment.file for segment in done.index.segments}
    for name, file in (("b", "002.py"), ("d", "004.py"), ("e", "005.py"), ("f", "006.py"), ("h", "008.py")):
        assert texts[function(name)] == file
    assert "005.py" < texts[function("new")] < "006.py"
    assert done.removed == ("003.py",) and not (split.folder / "003.py").exists()


def test_files_are_renamed_before_insertions_at_one_place_make_a_name_too_long(split: SplitIndex) -> None:
    source = SOURCE
    (split.folder / "003.py").write_bytes(b"mine\n")
    for n in range(30):
        source = function(f"new_{n}") + source
        done = again(split, source)
        assert max(len(segment.file) for segment in done.index.segments) <= 24 + len(".py")
        assert (done.edited, done.to_merge) == (("003.py",), ())
    assert edited_files(done.index) == {"003.py": b"mine\n"}


def test_an_edited_segment_stays_and_needs_no_merge_while_its_source_is_the_same(split: SplitIndex) -> None:
    mine = function("d").replace(b"d_3 = 3", b"d_3 = 'mine'")
    (split.folder / "004.py").write_bytes(mine)
    done = again(split, b"import os\n\n\n" + SOURCE.replace(b"f_1", b"g_1").replace(function("c"), b""))
    assert (done.edited, done.to_merge) == (("004.py",), ())
    assert (split.folder / "004.py").read_bytes() == mine
    ((segment, data),) = edited_segments(done.index)
    assert segment_base(done.index, segment) == function("d") and data == mine


def test_an_edited_segment_whose_source_changed_keeps_its_base(split: SplitIndex) -> None:
    mine = function("d").replace(b"d_3 = 3", b"d_3 = 'mine'")
    (split.folder / "004.py").write_bytes(mine)
    for value in (b"one", b"two"):
        done = again(split, SOURCE.replace(b"d_6 = 6", b"d_6 = " + value))
        assert (done.edited, done.to_merge, done.written) == (("004.py",), ("004.py",), ())
        ((segment, data),) = edited_segments(read_index(split.folder))
        assert segment_base(done.index, segment) == function("d")
        assert data == mine
        theirs = function("d").replace(b"d_6 = 6", b"d_6 = " + value)
        assert base_bytes(done.index)[segment.start : segment.end] == theirs
    back = again(split, SOURCE)
    assert (back.edited, back.to_merge) == (("004.py",), ())


def test_edited_segments_without_source_stay_until_they_are_reverted(split: SplitIndex) -> None:
    (split.folder / "004.py").write_bytes(b"mine\n")
    (split.folder / "005.py").write_bytes(b"mine too\n")
    source = SOURCE.replace(function("d") + function("e"), b"")
    done = again(split, source)
    assert done.to_merge == done.edited == ("004.py", "005.py")
    for (segment, _), name in zip(edited_segments(done.index), "de", strict=True):
        assert segment.start == segment.end and segment_base(done.index, segment) == function(name)
    (split.folder / "004.py").write_bytes(function("d"))
    assert again(split, source).removed == ("004.py",)
    assert again(split, b"").edited == ("005.py",)
    assert (split.folder / "005.py").read_bytes() == b"mine too\n"


@pytest.mark.parametrize("more", [b"", b"# more at the end\n"])
@pytest.mark.parametrize("edit", [function("d") + function("dd"), b"", function("d")[:-2]], ids=len)
def test_an_edit_in_the_source_counts_as_merged(split: SplitIndex, edit: bytes, more: bytes) -> None:
    (split.folder / "004.py").write_bytes(edit)
    done = again(split, SOURCE.replace(function("d"), edit) + more)
    assert done.edited == () and done.merged == ("004.py",)


def test_a_file_in_the_way_of_a_new_segment_is_refused(split: SplitIndex) -> None:
    (split.folder / "009.py").write_bytes(b"a person's\n")
    Path(split.source.path).write_bytes(SOURCE + function("i"))
    with pytest.raises(Refused, match=r"009\.py exists but is not a segment"):
        refresh_split(split.folder, split.folder)
    (split.folder / "009.py").unlink()
    check(split.folder, SOURCE)


def test_other_options_keep_edited_segments(split: SplitIndex) -> None:
    (split.folder / "004.py").write_bytes(b"mine\n")
    done = refresh_split(split.folder, split.folder, target=100_000)
    assert done.edited == ("004.py",) and len(done.index.segments) <= 4
    check(split.folder, SOURCE)
    assert segment_base(done.index, edited_segments(done.index)[0][0]) == function("d")


def test_a_save_during_the_swap_is_restored(split: SplitIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []

    def save_first(here: int, one: str, other: str) -> bool:
        if not saved:
            saved.append(other)
            (split.folder / other).write_bytes(b"saved just now\n")
        return exchange_files(here, one, other)

    monkeypatch.setattr(folder_writer, "exchange_files", save_first)
    Path(split.source.path).write_bytes(SOURCE.replace(b"c_3 = 3", b"c_3 = 33"))
    for _ in range(2):
        with pytest.raises(Refused, match=r"saved during the update: 003\.py"):
            refresh_split(split.folder, split.folder)
        assert (split.folder / "003.py").read_bytes() == b"saved just now\n"
    (split.folder / "003.py").rename(split.folder.parent / "mine.py")
    refresh_split(split.folder, split.folder)
    check(split.folder, SOURCE.replace(b"c_3 = 3", b"c_3 = 33"))


def killed_at(number: int, folder: Path) -> bool:
    """Refresh in a child process that kills itself at the file operation `number`; return whether it got that far."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY
            if writes or event in {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "ctypes.dlsym"}:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        refresh_split(folder, folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.soak
def test_a_kill_at_any_point_leaves_the_old_or_the_new_split(split: SplitIndex, tmp_path: Path) -> None:
    mine = function("b").replace(b"b_2 = 2", b"b_2 = 'mine'")
    (split.folder / "002.py").write_bytes(mine)
    after = SOURCE.replace(b"b_5 = 5", b"b_5 = 55").replace(b"f_3 = 3", b"f_3 = 33")
    after = after.replace(function("d"), b"") + function("i")
    Path(split.source.path).write_bytes(after)
    shutil.copytree(split.folder, tmp_path / "kept")
    seen = set()
    for number in range(1, 1000):
        if not killed_at(number, split.folder):
            break
        index = read_index(split.folder)
        base = base_bytes(index)
        assert base in (SOURCE, after)
        seen.add((base == after, bool(index.pending)))
        assert edited_files(index) == {"002.py": mine}
        done = refresh_split(split.folder, split.folder)
        assert done.to_merge == ("002.py",)
        check(split.folder, after)
        assert (split.folder / "002.py").read_bytes() == mine
        shutil.rmtree(split.folder)
        shutil.copytree(tmp_path / "kept", split.folder)
    else:
        pytest.fail("it never came to its end")
    assert seen == {(False, False), (True, True), (True, False)}


MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # syncing a disk takes long
CODE = [b"def f():\n", b"    x = 1\n", b"    return x\n", b"\n", b"# note\n", b"y = 2\r\n", b"z"]
LINES = st.sampled_from(CODE)


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    start = draw(st.integers(0, len(lines)))
    stop = min(len(lines), start + draw(st.integers(0, 4)))
    return b"".join([*lines[:start], *draw(st.lists(LINES, max_size=3)), *lines[stop:]])


@pytest.mark.soak
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_edit_is_lost(data: st.DataObject) -> None:
    source = b"".join(data.draw(st.lists(LINES, max_size=40)))
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        top = Path(name)
        (top / "x.py").write_bytes(source)
        index = create_split(SourceText(str(top / "x.py"), source), SplitOptions(target=64), top / "out")
        for _ in range(data.draw(st.integers(1, 3))):
            some = st.lists(st.sampled_from(index.segments), max_size=3) if index.segments else st.just([])
            for segment in data.draw(some):
                path = index.folder / segment.file
                path.write_bytes(data.draw(changed(path.read_bytes())))
            mine = edited_files(index)
            source = data.draw(st.one_of(changed(source), st.just(_landed(index)), changed(_landed(index))))
            done = again(index, source)
            index = done.index
            for file, text in mine.items():
                if file in done.merged:
                    assert text in source
                else:
                    assert (index.folder / file).read_bytes() == text
            assert {*done.edited} == {*edited_files(index)} == {*mine} - {*done.merged}


def _landed(index: SplitIndex) -> bytes:
    """The source with all edits that need no merge."""
    base, mine = base_bytes(index), edited_files(index)
    parts = []
    for segment in index.segments:
        is_edited = segment.file in mine and not segment.based_on
        parts.append(mine[segment.file] if is_edited else base[segment.start : segment.end])
    return b"".join(parts)
