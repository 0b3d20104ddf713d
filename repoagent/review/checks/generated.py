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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_origin
from repoagent.review.checks.context import MOST, CheckContext, is_text
from repoagent.review.finding import Finding, Location

if TYPE_CHECKING:
    from repoagent.history.cochange.score import Commit

COMMITS, FEWEST = 30, 4  # last commits of a generated file to read, and how many it needs at least
PARTNER = 1 / 3  # share of its commits: a file that changes in as many of them may be its source
ALONE = 0.5  # share of its commits: a file that changes alone this often is edited by hand
LOCKED = 0.2  # the same for a lock file, which tools update
LARGEST = 100  # files of a commit that counts
VENDORED_COMMITS, VENDORED_FEWEST = 20, 3
FEW = 3  # files of a vendored folder that a manual edit touches at most
BY_HAND = 0.5  # share of its commits: a file edited this often belongs to the repository
_PINS = re.compile(r"\bpip-compile\b|\buv\b")  # tools that write lock files under other names
_TEMPLATES = (
    ".j2", ".jinja", ".jinja2", ".in", ".tmpl", ".tpl", ".template", ".erb", ".ejs", ".mustache", ".hbs",
)  # fmt: skip
_STEM = re.compile(
    r"[._-](?:pb|pb2|pb2_grpc|grpc|gen|generated|g|min|auto|designer|tab|yy|lex|mock|mocks|stringer|d)$", re.I
)
_VERSIONS = {
    "modules.txt", "vendor.json", "go.mod", "go.sum", "cargo.toml", "version", "version.txt", "readme.chromium",
    "package.json", "metadata", "moz.yaml", "upstream", "vendor.txt", "installed.json",
}  # fmt: skip


def find_generated_edits(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each generated file; none if much of the change is generated: the generator changed."""
    change = context.change
    modified = [file for file in change.files if file.status in ("modified", "renamed") and is_text(file)]
    reasons = {file: _generated_reason(context, file) for file in modified[:MOST]}
    generated = {file: reason for file, reason in reasons.items() if reason is not None}
    ours = {file.path for file in generated if not file_origin.is_lock(file.path)}
    renewed = [file for file, reason in generated.items() if file.path not in ours or _PINS.search(reason)]
    if len(renewed) == len(change.files):  # an update of dependencies
        return
    if len(ours) > 2 and 2 * len(ours) >= len(change.files):
        return
    for file, reason in generated.items():
        if _is_explained(context, file, ours):
            continue
        body = (
            f"It counts as generated because {reason}. The next run of the generator overwrites manual edits."
        )
        if history := _history(context, file):
            body += f" Of its last {len(history)} commits, fewer than half changed it alone."
        source = "manifest" if file_origin.is_lock(file.path) else "source"
        title = f"{file.path} is generated, but its {source} is not part of this change"
        location = Location(file.path)
        if (hunks := change.read_lines(file)) and hunks[0].added:
            location = Location(file.path, hunks[0].new, hunks[0].new + len(hunks[0].added) - 1)
        yield context.finding("generated-edited", title, location, body, file.path)


def _generated_reason(context: CheckContext, file: ChangedFile) -> str | None:
    """Why the file counts as generated; None if it does not."""
    path, attributes = file.path, context.attributes
    if path.endswith(_TEMPLATES):  # its mark is for the output
        return None
    if file_origin.is_vendored_path(path) or path in attributes.vendored or path in attributes.neither:
        return None
    if file_origin.is_lock(path):
        return "it is a lock file, which a tool writes"
    if path in attributes.generated:
        return ".gitattributes marks it linguist-generated"
    mark = file_origin.has_mark(context.change.read_old(file)) if path in context.marked else None
    if mark is not None and file_origin.has_mark(context.change.read_new(file)):
        return f"its first lines say: {mark.decode('utf-8', 'replace')[:120].strip(' */#;-<>!.')}"
    return None


def _is_explained(context: CheckContext, file: ChangedFile, generated: set[str]) -> bool:
    """Whether the change contains a source of the file, or the history shows that it need not."""
    own_paths = (file.path, file.old_path)
    others = [path for path in context.changed if path not in own_paths and path not in generated]
    others += [path for path in context.change.earlier if path != file.path]
    names = {_name(path) for path in others}
    history = _history(context, file)
    if file_origin.is_lock(file.path):
        manifests = file_origin.LOCKS[_name(file.path)]
        if names.intersection(manifests) or len(history) < FEWEST:
            return True
        paths = _paths(context, history)
        sources = {file_id for file_id, path in paths.items() if _name(path) in manifests}
        return sum(not sources.intersection(commit.files) for commit in history) > LOCKED * len(history)
    stems = {_stem(path) for path in (*context.changed, *others) if path not in own_paths}
    if _stem(file.path) in stems:
        return True
    head = (context.change.read_old(file) or b"")[: file_origin.HEAD]
    if any(os.fsencode(name) in head for name in names if len(name) > 3):
        return True
    if len(history) < FEWEST or context.view is None:
        return False
    paths = _paths(context, history)
    # files in a third of the commits, and all files of folders in a third of the commits: one source each time
    own_id, own_folder = context.file_ids[file.path], _folder(file.path)
    commits = [{id: paths[id] for id in commit.files if id in paths} for commit in history]
    folder_counts = Counter(
        folder for commit in commits for folder in {_folder(path) for path in commit.values()}
    )
    least = PARTNER * len(history)
    folders = {name for name, count in folder_counts.items() if name != own_folder and count >= least}
    counts = Counter(file_id for commit in commits for file_id in commit if file_id != own_id)
    frequent = {file_id for file_id, count in counts.items() if count >= least}
    # ignore files that the same generator writes
    marked = set(file_origin.marked(context.top, context.change, sorted(paths[id] for id in frequent)))
    partners = {file_id for file_id in frequent if paths[file_id] not in marked}
    partners |= {file_id for file_id in counts if _folder(paths[file_id]) in folders}
    if sum(not partners.intersection(commit.files) for commit in history) >= ALONE * len(history):
        return True
    present = {context.view.file(os.fsencode(path)) for path in others}
    return bool(present & partners) or any(_folder(path) in folders for path in others)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _stem(path: str) -> str:
    """`parser` for `src/parser.pb.go`, `parser.proto`, `parser_gen.go` and `parser.h.in`."""
    name = _name(path)
    stem = name[:1] + name[1:].partition(".")[0]
    while (shorter := _STEM.sub("", stem)) != stem:
        stem = shorter
    return stem.lower()


def _history(context: CheckContext, file: ChangedFile) -> Sequence[Commit]:
    if context.view is None or file.path not in context.file_ids:
        return ()
    commits = context.view.commits(context.file_ids[file.path], COMMITS)
    return [commit for commit in commits if 0 < commit.size <= LARGEST]


def _paths(context: CheckContext, history: Sequence[Commit]) -> dict[int, str]:
    """The current paths of the files of these commits by file id."""
    files = sorted({file_id for commit in history for file_id in commit.files})
    paths = context.view.paths(files) if context.view and files else {}
    return {file_id: os.fsdecode(path) for file_id, path in paths.items()}


def find_vendored_edits(context: CheckContext) -> Iterator[Finding]:
    """Yield at most one finding for each vendored folder, at its first edited file."""
    groups: dict[str, list[ChangedFile]] = {}
    for file in context.change.files:
        if file.status not in ("modified", "renamed") or not is_text(file):
            continue
        if file.path in context.attributes.neither:
            continue
        if (root := _root(file.path)) or file.path in context.attributes.vendored:
            groups.setdefault(root or _folder(file.path), []).append(file)
    for root, edited in sorted(groups.items()):
        if _is_update(context, root, edited) or _is_ours(context, root, edited):
            continue
        path = edited[0].path
        others = f" and {len(edited) - 1} more of {root}" if len(edited) > 1 else ""
        title = f"{path}{others} {'are' if others else 'is'} vendored, but edited here"
        body = (
            "It is in a folder for third-party sources, or .gitattributes marks it linguist-vendored, and the change "
            f"does not look like an update: {len(edited)} of its files changed, none was added or removed. The next "
            "update overwrites the edit unless you also make it upstream or keep it as a patch."
        )
        yield context.finding("vendored-edited", title, Location(path), body, root or path)


def _root(path: str) -> str:
    """The folder of one vendored project: `vendor/github.com/a/b` or `third_party/zlib`; "" if it is not vendored."""
    matches = list(file_origin.VENDORED.finditer(path))
    if not matches:
        return ""
    end = matches[-1].end()
    folders = path[end:].split("/")[:-1]
    depth = 3 if folders and "." in folders[0] else 2 if folders and folders[0].startswith("@") else 1
    return path[:end] + "/".join(folders[:depth])


def _is_update(context: CheckContext, root: str, edited: list[ChangedFile]) -> bool:
    inside = [file for file in context.change.files if file.path.startswith(f"{root}/") or file in edited]
    if len(edited) > FEW or any(file.status in ("added", "deleted") for file in inside):
        return True
    return any(_name(path).lower() in _VERSIONS for path in context.changed)


def _is_ours(context: CheckContext, root: str, edited: list[ChangedFile]) -> bool:
    """Whether most commits of each of these files touch only a few files of the folder, as manual edits do."""
    if context.view is None:
        return False
    for file in edited:
        if file.path not in context.file_ids:
            return True
        history = context.view.commits(context.file_ids[file.path], VENDORED_COMMITS)
        paths = _paths(context, history)
        inside = {file_id for file_id, path in paths.items() if path.startswith(f"{root}/")}
        by_hand = sum(0 < len(inside.intersection(commit.files)) <= FEW for commit in history)
        if len(history) < VENDORED_FEWEST or by_hand < BY_HAND * len(history):
            return False
    return True
