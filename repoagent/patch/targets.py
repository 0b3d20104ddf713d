"""Resolve the names in patches to files, and refuse names that may not be changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate

from repoagent.dataclass import dataclass
from repoagent.git.files import Content, FileChange
from repoagent.patch.locate.choose import find_matches
from repoagent.patch.locate.exact import EXACT, Placement, index_of
from repoagent.patch.model import FilePatch, decode_text
from repoagent.patch.parse.answer import decide_readings
from repoagent.patch.paths import NO_FILE, bad_path, known_path, path_spellings, same_tail
from repoagent.patch.refusal import READING, PatchError, Problem
from repoagent.patch.splice import looks_whole

ParsesWorse = Callable[[str, bytes, bytes], "str | None"]
_MODES = {None, "100644", "100755"}
_MANY, _FEW = 12, 5  # names in an error text


@dataclass(frozen=True)
class PatchFiles:
    """The files and rules of one `apply_answer` call."""

    sources: Mapping[str, Content]
    scope: frozenset[str]
    may_create: Callable[[str], bool]
    strict: bool = False
    parses_worse: ParsesWorse | None = None
    exists: Callable[[str], bool] = lambda path: False

    @cached_property
    def sorted_names(self) -> list[str]:
        return sorted(self.sources)

    def out_of_scope(self, path: str) -> PatchError:
        return PatchError(
            "out-of-scope", f"this edit may not change this file; files in scope: {self.scope_names(path)}."
        )

    def unknown(self, text: str, near: str) -> PatchError:
        more = f" Files that may be changed: {self.scope_names(near)}." if self.scope else ""
        return PatchError("unknown-file", text + more)

    def scope_names(self, near: str = "") -> str:
        """Return the files in scope for an error message; of many, only those with names similar to `near`."""
        if len(self.scope) <= _MANY:
            return ", ".join(sorted(self.scope)) or "none"
        from rapidfuzz import process
        from rapidfuzz.distance import Indel

        similar = process.extract(near, sorted(self.scope), scorer=Indel.normalized_similarity, limit=_FEW)
        return ", ".join(name for name, _, _ in similar) + ", …"


@dataclass(frozen=True)
class PatchTarget:
    """A patch with its known path before the change (`source`) and after it (`path`).

    `source` is None for a new file, and `path` is None for a deleted file.
    """

    patch: FilePatch
    source: str | None
    path: str | None

    @property
    def name(self) -> str:
        return self.path or self.source or ""


@dataclass(frozen=True)
class PatchOutcome:
    change: FileChange
    placements: tuple[Placement, ...]


def resolve_targets(
    patches: Sequence[FilePatch], files: PatchFiles
) -> tuple[list[list[PatchTarget]], list[Problem], list[FilePatch]]:
    """Group the patches by file, in order.

    Return the groups, a problem for each name that does not resolve, and the patches that edit a file under the name
    that an earlier patch gives it.
    """
    groups: dict[str, list[PatchTarget]] = {}
    problems: list[Problem] = []
    later: list[FilePatch] = []
    new_names: set[str] = set()
    for patch in patches:
        _, spelled = path_spellings(patch.old or patch.new, patch.new or patch.old)
        if patch.action == "edit" and any(hunk.old for hunk in patch.hunks):
            name = next((name for name in spelled if name in files.sources or name in new_names), None)
            if name in new_names:
                later.append(patch)
                continue
        try:
            target = _target(patch, files)
        except PatchError as error:
            problems.append(error.at(spelled[0] if spelled and patch.form == "diff" else patch.name))
            continue
        if target is None:
            continue
        needed = [(target.patch.tolerances, 0)] if files.strict else []
        for hunk in target.patch.hunks if files.strict else ():
            needed.append((hunk.tolerances - target.patch.tolerances, hunk.number))
        strict = []  # one problem for the patch, and one for each hunk that needed tolerances to be parsed
        for tolerances, number in needed:
            if tolerances:
                names = [
                    f"{name} ({READING[name]})" if name in READING else name for name in sorted(tolerances)
                ]
                text = f"not tolerated in strict mode: {'; '.join(names)}. Send it as `git diff` writes it."
                strict.append(Problem(target.name, number, "strict", text))
        if strict:
            problems += strict
            continue
        group = groups.setdefault(target.source or target.name, [])
        if patch.old is None and patch.new is None and group and group[0].patch.action in {"rename", "copy"}:
            target = replace(target, path=group[0].path)  # continues the patch that moves or copies its file
        group.append(target)
        if target.path is not None and target.path != target.source:
            new_names.add(target.path)
    by_file: dict[str, list[PatchTarget]] = {}
    for source, group in groups.items():
        # Within one diff, as git writes it, a copy is one of the text before the diff.
        one_diff = len({target.patch.block for target in group}) == 1
        for target in group:
            is_copy = one_diff and target.patch.action == "copy"
            by_file.setdefault(target.name if is_copy else source, []).append(target)
    groups = by_file
    ends = [group[-1].path for group in groups.values() if group[-1].path is not None]
    for path in sorted({path for path in ends if ends.count(path) > 1}):
        text = "two files in the answer would get this path. Send only one of them, or give one another name."
        problems.append(Problem(path, 0, "overlap", text))
    bad = {problem.path for problem in problems}
    return [group for group in groups.values() if group[-1].name not in bad], problems, later


def _target(patch: FilePatch, files: PatchFiles) -> PatchTarget | None:
    """None for a fence without a name that is not a whole file. Raises PatchError."""
    if patch.cut:
        raise PatchError(
            "cut-off",
            "the answer ends in the middle of this change. Send the whole change again; several small hunks "
            "are fine.",
        )
    if patch.mode not in _MODES:
        raise PatchError("mode", f"mode {patch.mode} is not supported; use 100644 or 100755.")
    if patch.old is None and patch.new is None:
        return _nameless(patch, files)
    if patch.action in {"rename", "copy"}:
        return _moved(patch, files)
    old, new = path_spellings(patch.old or patch.new, patch.new or patch.old)
    if patch.form != "diff" and patch.new is not None:
        old = new = [patch.new.removeprefix("./"), *new]  # only a diff puts `a/` and `b/` before a name
    if patch.action == "create":
        return _created(patch, new, files)
    known, earlier = _known(patch, new, files), _known(patch, old, files)
    if known is not None and (earlier is None or earlier == known):
        return _allowed(PatchTarget(patch, known, None if patch.action == "delete" else known), files, new)
    if known is not None:
        raise PatchError(
            "unknown-file",
            f"the header names two files, {earlier} and {known}. Name the same file on both lines.",
        )
    if earlier is not None:
        _check_path(new)
        raise PatchError(
            "unknown-file",
            f"the header names {earlier} and then {patch.new}, which does not exist. To change {earlier}, name it on "
            "both lines; to rename it, add `rename from` and `rename to`.",
        )
    return _created(patch, new, files)


def _known(patch: FilePatch, names: Sequence[str], files: PatchFiles) -> str | None:
    """The known file for `names`. A part of the path is enough only if lines of the file confirm it: a whole text or
    additions could be for a new file, and a deletion or a mode for any."""
    path = known_path(names, files.sources)
    if path is None and patch.form != "whole-file" and any(hunk.old for hunk in patch.hunks):
        similar = {path for name in names for path in same_tail(name, files.sources)}
        fitting = [path for path in similar if _fits_exactly(patch, path, files)]
        path = fitting[0] if len(fitting) == 1 else None
    if path is None or path in names or path in {name.replace("\\", "/") for name in names}:
        return path
    if any(hunk.old for hunk in patch.hunks):
        return path
    name = names[0] if names else ""
    if patch.action == "delete" or (patch.whole is None and not patch.hunks):
        return path if name.startswith("/") else None
    return None if bad_path(name) is None and files.may_create(name) else path


def _check_path(names: Sequence[str], *, known: bool = False) -> None:
    reason = bad_path(names[0], known=known) if names else "the path is empty"
    if reason:
        raise PatchError("bad-path", f"{reason}.")


def _allowed(target: PatchTarget, files: PatchFiles, names: Sequence[str] = ()) -> PatchTarget:
    """`target` if its source may be changed, with the readings that fit. Raises PatchError."""
    source = target.source or ""
    _check_path([source], known=True)
    if source not in files.scope:
        raise files.out_of_scope(source)
    entry = files.sources[source]
    if entry.mode == "120000" and target.path is not None and (target.path == source or target.patch.hunks):
        raise PatchError("symlink", "this is a symbolic link; it cannot be edited as text.")
    patch = decide_readings(target.patch, entry.data)
    if names and source not in names:
        patch = replace(patch, tolerances=patch.tolerances | {"path"})
    return replace(target, patch=patch)


def _created(patch: FilePatch, names: Sequence[str], files: PatchFiles) -> PatchTarget:
    """The target for a new file, or for content of a known empty one."""
    known = next((name for name in names if name in files.sources), None)
    if known is not None:
        if files.sources[known].data.strip():
            text, lines = (
                decode_text(files.sources[known].data),
                (line.text for hunk in patch.hunks for line in hunk.new),
            )
            content = "\n".join(lines) if patch.whole is None else patch.whole
            if text is not None and "\n".join(text.lines).rstrip("\n") == content.rstrip("\n"):
                raise PatchError("already-applied", "this file already has this content.")
            raise PatchError("exists", "this file already exists. Send a diff against its current text.")
        return _allowed(PatchTarget(patch, known, known), files)
    _check_path(names)
    path = names[0]
    # A hunk for line 34 is for an existing file, even if it quotes none of its lines.
    only_adds = patch.whole is not None or (
        patch.hunks and not any(hunk.old or (hunk.start or 0) > 1 for hunk in patch.hunks)
    )
    if patch.action != "create" and not only_adds:
        raise files.out_of_scope(path) if files.exists(path) else files.unknown("no such file.", path)
    _check_may_create(path, files)
    return PatchTarget(patch, None, path)


def _check_may_create(path: str, files: PatchFiles) -> None:
    inside = f"{path}/"
    below = bisect_left(files.sorted_names, inside)
    if any(name.startswith(inside) for name in files.sorted_names[below : below + 1]) or any(
        name in files.sources for name in accumulate(path.split("/"), "{}/{}".format)
    ):
        raise PatchError("bad-path", "a file or folder with this name already exists. Use another name.")
    if not files.may_create(path):
        text = "this edit may not create this file."
        raise files.out_of_scope(path) if files.exists(path) else files.unknown(text, path)


def _moved(patch: FilePatch, files: PatchFiles) -> PatchTarget:
    """The target of a rename or copy. Names in `rename from` have no prefix, but models write one."""
    if not patch.old or not patch.new or NO_FILE in {patch.old, patch.new}:
        raise PatchError(
            "malformed",
            f"a {patch.action} needs both a `{patch.action} from` and a `{patch.action} to` line.",
        )
    new = patch.new.removeprefix("./")
    source = known_path([patch.old], files.sources)
    if source != patch.old:
        pairs = zip(*path_spellings(patch.old, patch.new), strict=False)
        exact = [(old_name, new_name) for old_name, new_name in pairs if old_name in files.sources]
        prefix = patch.old.removesuffix(source) if source is not None and patch.old.endswith(source) else ""
        if exact:
            source, new = exact[0]
        elif prefix and patch.new.startswith(prefix):
            new = patch.new.removeprefix(prefix)
        else:
            source = None
    if source is None:
        _check_path([patch.old])
        raise files.unknown(f"{patch.old} does not exist.", patch.old)
    _check_path([new])
    if new in files.sources:
        raise PatchError("exists", f"{new} already exists and cannot be replaced. Use another name.")
    _check_may_create(new, files)
    if patch.action == "copy" and files.sources[source].mode == "120000":
        raise PatchError("symlink", "this is a symbolic link; it cannot be copied.")
    patch = decide_readings(patch, files.sources[source].data)
    if source != patch.old:
        patch = replace(patch, tolerances=patch.tolerances | {"path"})
    target = PatchTarget(patch, source, new)
    return _allowed(target, files) if patch.action == "rename" else target


def _nameless(patch: FilePatch, files: PatchFiles) -> PatchTarget | None:
    """The only file in scope, or for a diff the only one in which all hunks fit exactly."""
    names: Collection[str] = files.scope
    if patch.form == "whole-file":
        texts = [decode_text(files.sources[name].data) for name in names if name in files.sources]
        text = texts[0] if len(texts) == 1 else None
        if text is None or patch.whole is None or not looks_whole(patch.whole, text.lines):
            return None
    elif len(names) > 1:
        known = (name for name in sorted(names) if name in files.sources)
        names = [name for name in known if _fits_exactly(patch, name, files)]
    if len(names) != 1:
        raise PatchError(
            "unknown-file",
            f"the header does not name a file. Name the file to change; files in scope: {files.scope_names()}.",
        )
    name = next(iter(names))
    if name not in files.sources:
        raise PatchError("unknown-file", f"the current content of {name} is unknown.")
    if patch.form != "whole-file":
        patch = replace(patch, tolerances=patch.tolerances | {"header"})
    return _allowed(PatchTarget(patch, name, name), files)


def _fits_exactly(patch: FilePatch, name: str, files: PatchFiles) -> bool:
    text = decode_text(files.sources[name].data)
    if text is None or not text.lines:
        return False
    index = index_of(text.lines)
    try:
        matches = [find_matches(hunk, index, strict=True) for hunk in patch.hunks]
    except PatchError:
        return False
    return all(any(match.level == EXACT for match in hunk_matches) for hunk_matches in matches)
