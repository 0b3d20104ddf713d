"""The map of a repository: clusters, their names, and bridges between them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.cochange.score import Commit
from repoagent.history.repository_map import LARGEST, MappedFile, RepositoryMap, build_map, colour_folders

NAMES = {
    1: b"net/a.py", 2: b"net/b.py", 3: b"net/c.py",
    4: b"ui/x.py", 5: b"ui/y.py", 6: b"docs/z.md",
    7: b"alone.txt",
}  # fmt: skip
NET, UI = (1, 2, 3), (4, 5, 6)


def history(*commits: Sequence[int]) -> list[Commit]:
    """Commits with these files, newest first."""
    count = len(commits)
    return [
        Commit(count - age, 1_700_000_000 - age, 1, len(files), array("I", files))
        for age, files in enumerate(commits)
    ]


def mapped(*commits: Sequence[int]) -> RepositoryMap:
    return build_map("top", "a" * 40, history(*commits), NAMES)


def paths(found: RepositoryMap, files: Sequence[int]) -> set[bytes]:
    return {found.files[file].path for file in files}


def two_knots() -> list[Sequence[int]]:
    """Each two of NET and each two of UI changed together four times, and 3 twice with each of UI."""
    pairs = [*combinations(NET, 2), *combinations(UI, 2)] * 4
    return [*pairs, (3, 4), (3, 5), (3, 4), (3, 5), (7,)]


def test_files_that_change_together_are_a_cluster_named_after_their_folder() -> None:
    found = mapped(*two_knots())
    assert {(one.name, frozenset(paths(found, one.files))) for one in found.clusters} == {
        (b"net/", frozenset(NAMES[file] for file in NET)),
        (b"ui/", frozenset(NAMES[file] for file in UI)),
    }
    assert [file.path for file in found.files if file.cluster is None] == [b"alone.txt"]


def test_a_file_between_two_clusters_is_a_bridge() -> None:
    (bridge, *_) = mapped(*two_knots()).bridges
    found = mapped(*two_knots())
    assert found.files[bridge.file].path == b"net/c.py"
    assert found.clusters[bridge.cluster].name == b"ui/"
    assert paths(found, bridge.partners) == {b"ui/x.py", b"ui/y.py"} and bridge.together == 4
    assert mapped(*[*combinations(NET, 2), *combinations(UI, 2)] * 4).bridges == ()


def test_a_name_that_two_clusters_would_share_is_that_of_their_busiest_file() -> None:
    names = {file: b"src/%d.c" % file for file in range(1, 7)}
    knots = [*combinations(NET, 2), *combinations(UI, 2)] * 4
    found = build_map("top", "", history(*knots, (2,), (6,)), names)
    assert {one.name for one in found.clusters} == {b"2.c", b"6.c"}


def test_a_commit_of_many_files_and_files_that_are_gone_link_nothing() -> None:
    names = {file: b"%d" % file for file in range(LARGEST + 1)}
    assert not build_map("top", "", history(tuple(names), tuple(names)), names).links
    assert len(build_map("top", "", history(tuple(names)[1:], tuple(names)[1:]), names).links) > 0
    found = build_map("top", "", history((1, 2), (1, 2)), {1: b"a"})
    assert [file.path for file in found.files] == [b"a"] and not found.links


def test_an_empty_history_has_an_empty_map() -> None:
    found = build_map("top", "", [], {})
    assert (found.files, found.clusters, found.bridges) == ((), (), ())


def test_a_folder_with_half_of_all_files_gives_way_to_those_in_it() -> None:
    names = [b"src/a/1", b"src/a/2", b"src/b/3", b"src/4", b"docs/5", b"6"]
    folders, colours = colour_folders([MappedFile(name, 1, None) for name in names], 2)
    assert folders == [b"src/a/", b"src/b/"]
    assert colours == [0, 0, 1, -1, -1, -1]


@given(st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=5, unique=True), max_size=40))
def test_every_file_is_in_one_cluster_at_most_and_bridges_lead_elsewhere(commits: list[list[int]]) -> None:
    found = mapped(*commits)
    members = [file for cluster in found.clusters for file in cluster.files]
    assert len(members) == len({*members})
    for number, cluster in enumerate(found.clusters):
        assert all(found.files[file].cluster == number for file in cluster.files)
    assert all(found.files[bridge.file].cluster != bridge.cluster for bridge in found.bridges)
    assert found == mapped(*commits)
