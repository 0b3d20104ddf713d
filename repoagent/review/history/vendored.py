"""vendored-edited: a file that was copied from elsewhere was edited where it was copied to.

Vendored are the folders that tools copy to (`vendor/`, `third_party/`, `node_modules/` …) and what an attribute calls
so. Nothing is said of an update, which changes many files of a folder, or adds and removes some, or changes the list
of versions; nor where the past shows that people edit these files: most commits of one touch only a few of its folder.
"""

from __future__ import annotations

import os

from repoagent.review.change import ChangedFile
from repoagent.review.finding import Finding, Place
from repoagent.review.history import marks
from repoagent.review.history.past import Past, is_text

RULE = "vendored-edited"
FEW = 3  # files of a vendored folder that somebody edits by hand in one commit
FEWEST = 3  # commits of a file before its past has a say
COMMITS = 20
BY_HAND = 0.5  # of its commits: a file that is edited so often belongs to the repository by now
_VERSIONS = (
    "modules.txt", "vendor.json", "go.mod", "go.sum", "cargo.toml", "version", "version.txt", "readme.chromium",
    "package.json", "metadata", "moz.yaml", "upstream", "vendor.txt", "installed.json",
)  # fmt: skip


def find(past: Past) -> list[Finding]:
    """At most one finding for each vendored folder, at its first edited file."""
    files = [file for file in past.change.files if is_text(file)]
    possible = [file for file in files if file.status in ("modified", "renamed")]
    if not possible:
        return []
    said = past.attributes
    groups: dict[str, list[ChangedFile]] = {}
    for file in possible:
        if file.path in said.neither:
            continue
        if (root := _root(file.path)) or file.path in said.vendored:
            groups.setdefault(root or file.path.rpartition("/")[0], []).append(file)
    return [
        _finding(past, root, some)
        for root, some in sorted(groups.items())
        if not _is_update(past, root, some) and not _is_ours(past, root, some)
    ]


def _root(path: str) -> str:
    """The folder of one vendored project: `vendor/github.com/a/b` or `third_party/zlib`; "" for no vendored path."""
    found = list(marks.VENDORED.finditer(path))
    if not found:
        return ""
    end = found[-1].end()
    rest = path[end:].split("/")[:-1]
    deep = 3 if rest and "." in rest[0] else 2 if rest and rest[0].startswith("@") else 1
    return path[:end] + "/".join(rest[:deep])


def _is_update(past: Past, root: str, edited: list[ChangedFile]) -> bool:
    inside = [file for file in past.change.files if file.path.startswith(f"{root}/") or file in edited]
    if len(edited) > FEW or any(file.status in ("added", "deleted") for file in inside):
        return True
    names = {path.rpartition("/")[2].lower() for path in past.changed}
    return bool(names.intersection(_VERSIONS))


def _is_ours(past: Past, root: str, edited: list[ChangedFile]) -> bool:
    """Whether most commits of each of these files touch only a few of the folder, as an editor does."""
    if past.view is None:
        return False
    for file in edited:
        if file.path not in past.files:
            return True
        history = past.view.commits(past.files[file.path], COMMITS)
        if len(history) < FEWEST:
            return False
        paths = past.view.paths(sorted({each for commit in history for each in commit.files}))
        inside = {each for each, path in paths.items() if path.startswith(os.fsencode(f"{root}/"))}
        by_hand = sum(0 < len(inside.intersection(one.files)) <= FEW for one in history)
        if by_hand < BY_HAND * len(history):
            return False
    return True


def _finding(past: Past, root: str, edited: list[ChangedFile]) -> Finding:
    path = edited[0].path
    more = f" and {len(edited) - 1} more of {root}" if len(edited) > 1 else ""
    return Finding(
        RULE,
        past.levels[RULE],
        f"{path}{more} came from elsewhere, and is edited here",
        Place(path),
        "It is in a folder for other people's sources, or .gitattributes call it linguist-vendored, and the change "
        f"looks like no update: {len(edited)} of its files changed, none came or went. The next update takes the edit "
        "away, unless it is made upstream too or kept as a patch.",
        key=root or path,
    )
