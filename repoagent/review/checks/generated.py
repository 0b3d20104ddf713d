"""generated-edited: a generated or lock file changed, but not its source; vendored-edited: vendored code changed.

A file is generated if an attribute or a mark in its first lines says so. Its sources are known by name (the same stem;
a name in the first lines of the file; the manifest of a lock file) and by history: a file, or the files of a folder,
that changed in a third of its commits. A file that usually changes alone is edited by hand and not reported.

Code is vendored if it is in a folder that tools copy to (`vendor/`, `third_party/`, `node_modules/` ...) or if an
attribute marks it. Not reported: an update, which changes many files of a folder, adds or removes some, or changes the
list of versions; and files that people edit, so that most commits of one touch only a few files of its folder.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_origin
from repoagent.review.checks.context import MOST, HistoryContext, is_text
from repoagent.review.finding import Finding, Location

if TYPE_CHECKING:
    from repoagent.history.cochange.score import Commit, View

GENERATED_EDITED = "generated-edited"
GENERATED_COMMITS = 30  # last commits of a file to read
GENERATED_FEWEST = 4  # commits of a file before its history counts
PARTNER = 1 / 3  # share of its commits: a file that changes along this often may be its source
ALONE = 0.5  # share of its commits: a file that changes alone this often is edited by hand
LOCKED = 0.2  # the same for a lock file, which tools update
LARGEST = 100  # files of a commit that counts
_PINS = re.compile(r"\bpip-compile\b|\buv\b")  # tools that write lock files under other names
_TEMPLATES = (
    ".j2", ".jinja", ".jinja2", ".in", ".tmpl", ".tpl", ".template", ".erb", ".ejs", ".mustache", ".hbs",
)  # fmt: skip
_STEM = re.compile(
    r"[._-](?:pb|pb2|pb2_grpc|grpc|gen|generated|g|min|auto|designer|tab|yy|lex|mock|mocks|stringer|d)$", re.I
)


def find_generated_edits(context: HistoryContext) -> list[Finding]:
    """One finding for each generated file; none if much of the change is generated: then the generator changed."""
    change = context.change
    modified = [file for file in change.files if file.status in ("modified", "renamed") and is_text(file)]
    if not modified:
        return []
    attributes = context.attributes
    possible = context.marked - attributes.neither
    reasons = {file: _generated_reason(context, file, attributes, possible) for file in modified[:MOST]}
    generated = {file: reason for file, reason in reasons.items() if reason is not None}
    renewed = [
        file for file, reason in generated.items() if file_origin.is_lock(file.path) or _PINS.search(reason)
    ]
    if len(renewed) == len(change.files):  # an update of dependencies
        return []
    ours = {file.path for file in generated if not file_origin.is_lock(file.path)}
    if len(ours) > 2 and 2 * len(ours) >= len(change.files):
        return []
    return [
        _generated_finding(context, file, reason)
        for file, reason in generated.items()
        if not _is_explained(context, file, ours)
    ]


def _generated_reason(
    context: HistoryContext, file: ChangedFile, attributes: file_origin.Attributes, possible: Collection[str]
) -> str | None:
    """Why the file counts as generated; None if it does not."""
    if file.path.endswith(_TEMPLATES):  # its mark is meant for the output
        return None
    if (
        file_origin.is_vendored_path(file.path)
        or file.path in attributes.vendored
        or file.path in attributes.neither
    ):
        return None
    if file_origin.is_lock(file.path):
        return "it is a lock file, which a tool writes"
    if file.path in attributes.generated:
        return ".gitattributes marks it linguist-generated"
    if file.path in possible:
        mark = file_origin.has_mark(context.change.read_old(file))
        if mark is not None and file_origin.has_mark(context.change.read_new(file)):
            return f"its first lines say: {mark.decode('utf-8', 'replace')[:120].strip(' */#;-<>!.')}"
    return None


def _is_explained(context: HistoryContext, file: ChangedFile, generated: set[str]) -> bool:
    """Whether the change has a source of the file, or history shows that it need not."""
    own_paths = (file.path, file.old_path)
    other_paths = [path for path in context.changed if path not in own_paths and path not in generated]
    other_paths += [path for path in context.change.earlier if path != file.path]
    names = {path.rpartition("/")[2] for path in other_paths}
    if file_origin.is_lock(file.path):
        manifests = file_origin.LOCKS[file.path.rpartition("/")[2]]
        return bool(names.intersection(manifests)) or not _is_usual(context, file, manifests)
    if any(
        _stem(path) == _stem(file.path) for path in (*context.changed, *other_paths) if path not in own_paths
    ):
        return True
    head = (context.change.read_old(file) or b"")[: file_origin.HEAD]
    if any(os.fsencode(name) in head for name in names if len(name) > 3):
        return True
    history, view = _history(context, file), context.view
    if len(history) < GENERATED_FEWEST or view is None:
        return False
    paths = _paths(view, history)
    # files in a third of the commits, and all files of folders in a third of the commits: one source each time
    own_id, own_folder = context.files[file.path], _folder(file.path)
    commits = [
        {file_id: paths[file_id] for file_id in commit.files if file_id in paths} for commit in history
    ]
    folder_counts = Counter(
        folder for commit in commits for folder in {_folder(path) for path in commit.values()}
    )
    least = PARTNER * len(history)
    folders = {name for name, count in folder_counts.items() if name != own_folder and count >= least}
    counts = Counter(file_id for commit in commits for file_id in commit if file_id != own_id)
    frequent = {file_id for file_id, count in counts.items() if count >= least}
    generated_paths = set(
        file_origin.marked(context.top, context.change, sorted(paths[file_id] for file_id in frequent))
    )
    # ignore files that the same generator writes
    partners = {file_id for file_id in frequent if paths[file_id] not in generated_paths}
    partners |= {file_id for file_id in counts if _folder(paths[file_id]) in folders}
    alone = sum(not partners.intersection(commit.files) for commit in history)
    if alone >= ALONE * len(history):
        return True
    present = {view.file(os.fsencode(path)) for path in other_paths}
    return bool(present & partners) or any(_folder(path) in folders for path in other_paths)


def _paths(view: View, history: Sequence[Commit]) -> dict[int, str]:
    """The current paths of the files of these commits by file id."""
    files = sorted({file_id for commit in history for file_id in commit.files})
    return {file_id: os.fsdecode(path) for file_id, path in view.paths(files).items()}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _history(context: HistoryContext, file: ChangedFile) -> Sequence[Commit]:
    if context.view is None or file.path not in context.files:
        return ()
    commits = context.view.commits(context.files[file.path], GENERATED_COMMITS)
    return [commit for commit in commits if 0 < commit.size <= LARGEST]


def _is_usual(context: HistoryContext, file: ChangedFile, manifests: Sequence[str]) -> bool:
    """Whether the lock file has almost always changed along with a manifest."""
    history = _history(context, file)
    if len(history) < GENERATED_FEWEST or context.view is None:
        return False
    paths = _paths(context.view, history)
    sources = {file_id for file_id, path in paths.items() if path.rpartition("/")[2] in manifests}
    alone = sum(not sources.intersection(commit.files) for commit in history)
    return alone <= LOCKED * len(history)


def _stem(path: str) -> str:
    """`parser` of `src/parser.pb.go`, of `parser.proto`, of `parser_gen.go` and of `parser.h.in`."""
    name = path.rpartition("/")[2]
    stem = name[:1] + name[1:].partition(".")[0]
    while (shorter := _STEM.sub("", stem)) != stem:
        stem = shorter
    return stem.lower()


def _generated_finding(context: HistoryContext, file: ChangedFile, reason: str) -> Finding:
    source = "manifest" if file_origin.is_lock(file.path) else "source"
    history = _history(context, file)
    body = f"It counts as generated because {reason}. The next run of the generator overwrites manual edits."
    if history:
        body += f" Of its last {len(history)} commits, fewer than half changed it alone."
    location = Location(file.path)
    lines = context.change.read_lines(file)
    if lines and lines[0].added:
        location = Location(file.path, lines[0].new, lines[0].new + len(lines[0].added) - 1)
    title = f"{file.path} is generated, but its {source} is not part of this change"
    return context.finding(GENERATED_EDITED, title, location, body, file.path)


VENDORED_EDITED = "vendored-edited"
FEW = 3  # files of a vendored folder that a manual edit touches at most
VENDORED_FEWEST = 3  # commits of a file before its history counts
VENDORED_COMMITS = 20
BY_HAND = 0.5  # share of its commits: a file edited this often belongs to the repository
_VERSIONS = (
    "modules.txt", "vendor.json", "go.mod", "go.sum", "cargo.toml", "version", "version.txt", "readme.chromium",
    "package.json", "metadata", "moz.yaml", "upstream", "vendor.txt", "installed.json",
)  # fmt: skip


def find_vendored_edits(context: HistoryContext) -> list[Finding]:
    """At most one finding for each vendored folder, at its first edited file."""
    files = [file for file in context.change.files if is_text(file)]
    possible = [file for file in files if file.status in ("modified", "renamed")]
    if not possible:
        return []
    attributes = context.attributes
    groups: dict[str, list[ChangedFile]] = {}
    for file in possible:
        if file.path in attributes.neither:
            continue
        if (root := _root(file.path)) or file.path in attributes.vendored:
            groups.setdefault(root or file.path.rpartition("/")[0], []).append(file)
    return [
        _vendored_finding(context, root, edited)
        for root, edited in sorted(groups.items())
        if not _is_update(context, root, edited) and not _is_ours(context, root, edited)
    ]


def _root(path: str) -> str:
    """The folder of one vendored project: `vendor/github.com/a/b` or `third_party/zlib`; "" if it is not vendored."""
    matches = list(file_origin.VENDORED.finditer(path))
    if not matches:
        return ""
    end = matches[-1].end()
    folders = path[end:].split("/")[:-1]
    depth = 3 if folders and "." in folders[0] else 2 if folders and folders[0].startswith("@") else 1
    return path[:end] + "/".join(folders[:depth])


def _is_update(context: HistoryContext, root: str, edited: list[ChangedFile]) -> bool:
    inside = [file for file in context.change.files if file.path.startswith(f"{root}/") or file in edited]
    if len(edited) > FEW or any(file.status in ("added", "deleted") for file in inside):
        return True
    names = {path.rpartition("/")[2].lower() for path in context.changed}
    return bool(names.intersection(_VERSIONS))


def _is_ours(context: HistoryContext, root: str, edited: list[ChangedFile]) -> bool:
    """Whether most commits of each of these files touch only a few files of the folder, as manual edits do."""
    if context.view is None:
        return False
    for file in edited:
        if file.path not in context.files:
            return True
        history = context.view.commits(context.files[file.path], VENDORED_COMMITS)
        if len(history) < VENDORED_FEWEST:
            return False
        paths = _paths(context.view, history)
        inside = {file_id for file_id, path in paths.items() if path.startswith(f"{root}/")}
        by_hand = sum(0 < len(inside.intersection(commit.files)) <= FEW for commit in history)
        if by_hand < BY_HAND * len(history):
            return False
    return True


def _vendored_finding(context: HistoryContext, root: str, edited: list[ChangedFile]) -> Finding:
    path = edited[0].path
    others = f" and {len(edited) - 1} more of {root}" if len(edited) > 1 else ""
    title = f"{path}{others} {'are' if others else 'is'} vendored, but edited here"
    body = (
        "It is in a folder for third-party sources, or .gitattributes marks it linguist-vendored, and the change does "
        f"not look like an update: {len(edited)} of its files changed, none was added or removed. The next update "
        "overwrites the edit unless you also make it upstream or keep it as a patch."
    )
    return context.finding(VENDORED_EDITED, title, Location(path), body, root or path)
