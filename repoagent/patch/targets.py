"""Resolve the names in patches to files, and refuse names that may not be changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError, PatchErrors, Problem, check_strict
from repoagent.patch.files import NO_FILE, Files, Target, bad_path, known_path, same_tail, spellings
from repoagent.patch.locate.candidates import find_matches
from repoagent.patch.locate.exact import EXACT, index_of
from repoagent.patch.model import FilePatch, decode
from repoagent.patch.parse.answer import decided
from repoagent.patch.splice import looks_whole

_MODES = {None, "100644", "100755"}


def targets(patches: Sequence[FilePatch], files: Files) -> tuple[list[list[Target]], list[Problem]]:
    """The patches with their files, grouped by file, in the order of the answer; and the problems of the other
    names."""
    groups: dict[str, list[Target]] = {}
    problems = []
    for patch in _without_idle_claims(patches):
        try:
            target = _target(patch, files)
        except PatchError as misfit:
            problems.append(misfit.at(_spelled(patch)))
            continue
        if target is not None:
            wrong = _not_strict(target, files)
            problems += wrong
            if wrong:
                continue
            group = groups.setdefault(target.source or target.name, [])
            group.append(_going_on(target, patch, group))
    ends = [group[-1].path for group in groups.values() if group[-1].path is not None]
    for path in sorted({path for path in ends if ends.count(path) > 1}):
        problems.append(PatchError("overlap", "two files of the answer would have this path.").at(path))
    bad = {problem.path for problem in problems}
    return [group for group in groups.values() if group[-1].name not in bad], problems


def _without_idle_claims(patches: Sequence[FilePatch]) -> list[FilePatch]:
    """The patches, where others change something without the counts of hunks that have only context: a line that they
    claim and that did not come. A hunk that has every line of its longer side keeps them: it has lost a sign."""
    if not any(patch.whole is not None or any(hunk.changes for hunk in patch.hunks) for patch in patches):
        return list(patches)
    return [
        replace(
            patch,
            hunks=tuple(
                replace(hunk, counts=None)
                if not hunk.changes and hunk.counts and len(hunk.old) < max(hunk.counts)
                else hunk
                for hunk in patch.hunks
            ),
        )
        for patch in patches
    ]


def _going_on(target: Target, patch: FilePatch, group: Sequence[Target]) -> Target:
    """A patch without a name, after the patch that moves or copies its file, goes on with that one."""
    if patch.old is None and patch.new is None and group and group[0].patch.action in {"rename", "copy"}:
        return replace(target, path=group[0].path)
    return target


def _not_strict(target: Target, files: Files) -> list[Problem]:
    if files.strict:
        try:
            check_strict([target.patch])
        except PatchErrors as error:
            return [misfit.at(target.name) for misfit in error.errors]
    return []


def _spelled(patch: FilePatch) -> str:
    """The patch's name as it is likeliest meant, without the prefixes of a diff."""
    _, names = spellings(patch.old or patch.new, patch.new or patch.old)
    return names[0] if names and patch.form == "diff" else patch.name


def _target(patch: FilePatch, files: Files) -> Target | None:
    """The patch with its files; None for a nameless fence that is no whole file. Raises PatchError."""
    if patch.cut:
        raise PatchError(
            "cut-off",
            "the answer ends in the middle of this change. Send it again in full; several small hunks "
            "are fine.",
        )
    if patch.mode not in _MODES:
        raise PatchError("mode", f"mode {patch.mode} is not supported; use 100644 or 100755.")
    if patch.old is None and patch.new is None:
        return _nameless(patch, files)
    if patch.action in {"rename", "copy"}:
        return _moved(patch, files)
    old, new = spellings(patch.old or patch.new, patch.new or patch.old)
    if patch.form != "diff" and patch.new is not None:
        old = new = [patch.new.removeprefix("./"), *new]  # only a diff puts `a/` and `b/` before a name
    if patch.action == "create":
        return _created(patch, new, files)
    known, earlier = _known(patch, new, files), _known(patch, old, files)
    if known is not None and (earlier is None or earlier == known):
        return _allowed(Target(patch, known, None if patch.action == "delete" else known), files, new)
    if known is not None and earlier is not None:
        raise PatchError(
            "unknown-file",
            f"the header names two files, {earlier} and {known}. Name the same file on both lines.",
        )
    if earlier is not None:
        _refuse_bad(new)
        raise PatchError(
            "unknown-file",
            f"the header goes from {earlier} to {patch.new}, which does not exist. To change {earlier}, name "
            "it on both lines; "
            "to rename it, add `rename from` and `rename to`.",
        )
    return _created(patch, new, files)


def _known(patch: FilePatch, names: Sequence[str], files: Files) -> str | None:
    """The known file that is meant. Only what the file's own lines confirm may name it by a tail: a whole text, or
    additions alone, could be for a new file of that name, and a deletion or a mode for any."""
    path = known_path(names, files.sources) or _by_content(patch, names, files)
    if path is None or path in names or path in {name.replace("\\", "/") for name in names}:
        return path
    if any(hunk.old for hunk in patch.hunks):
        return path
    clean = names[0] if names else ""
    if patch.action == "delete" or (patch.whole is None and not patch.hunks):
        return path if clean.startswith("/") else None
    return None if bad_path(clean) is None and files.may_create(clean) else path


def _refuse_bad(names: Sequence[str]) -> None:
    reason = bad_path(names[0]) if names else "the path is empty"
    if reason:
        raise PatchError("bad-path", f"{reason}.")


def _allowed(target: Target, files: Files, names: Sequence[str] = ()) -> Target:
    """`target` if its source may be changed, with the readings that its file decides for. Raises PatchError.

    `names` are the spellings of the name that led to it.
    """
    source = target.source or ""
    if reason := bad_path(source, known=True):
        raise PatchError("bad-path", f"{reason}.")
    if source not in files.scope:
        raise PatchError("out-of-scope", files.closed(source))
    entry = files.sources[source]
    if entry.mode == "120000" and target.path is not None and (target.path == source or target.patch.hunks):
        raise PatchError("symlink", "this is a symbolic link; it cannot be edited as text.")
    patch = decided(target.patch, entry.data)
    if names and source not in names:
        patch = replace(patch, tolerances=patch.tolerances | {"path"})
    return replace(target, patch=patch)


def _created(patch: FilePatch, names: Sequence[str], files: Files) -> Target:
    """A new file, or a known empty one that is filled."""
    known = next((name for name in names if name in files.sources), None)
    if known is not None:
        if files.sources[known].data.strip():
            raise PatchError("exists", "this file already exists. Send a diff against its current text.")
        return _allowed(Target(patch, known, known), files)
    _refuse_bad(names)
    path = names[0]
    # a hunk for line 34 is one of a file that is there, also where it has no line of it
    adds_only = patch.whole is not None or (
        patch.hunks and not any(hunk.old or (hunk.start or 0) > 1 for hunk in patch.hunks)
    )
    if patch.action != "create" and not adds_only:
        if files.exists(path):
            raise PatchError("out-of-scope", files.closed(path))
        raise PatchError("unknown-file", f"no such file.{files.which(path)}")
    return Target(patch, None, _may_create(path, files))


def _may_create(path: str, files: Files) -> str:
    if any(f"{known}/".startswith(f"{path}/") or path.startswith(f"{known}/") for known in files.sources):
        raise PatchError("bad-path", "a file or folder with this name already exists.")
    if not files.may_create(path):
        if files.exists(path):
            raise PatchError("out-of-scope", files.closed(path))
        raise PatchError(
            "unknown-file",
            f"this edit may not create this file.{files.which(path)}",
        )
    return path


def _moved(patch: FilePatch, files: Files) -> Target:
    """`rename from`/`rename to`, or `copy from`/`copy to`; their names have no prefix, but models write one."""
    if not patch.old or not patch.new or NO_FILE in {patch.old, patch.new}:
        raise PatchError(
            "malformed",
            f"a {patch.action} needs both a `{patch.action} from` and a `{patch.action} to` line.",
        )
    old, new = [patch.old], patch.new.removeprefix("./")
    source = known_path(old, files.sources)
    if source is None or source != patch.old:
        olds, news = spellings(patch.old, patch.new)
        exact = [(one, two) for one, two in zip(olds, news, strict=False) if one in files.sources]
        cut = patch.old.removesuffix(source) if source is not None and patch.old.endswith(source) else ""
        if exact:
            source, new = exact[0]
        elif cut and patch.new.startswith(cut):
            new = patch.new.removeprefix(cut)
        else:
            source = None
    if source is None:
        _refuse_bad(old)
        raise PatchError(
            "unknown-file",
            f"{patch.old} does not exist.{files.which(patch.old)}",
        )
    _refuse_bad([new])
    if new in files.sources:
        raise PatchError("exists", f"{new} already exists and cannot be replaced.")
    path = _may_create(new, files)
    if patch.action == "copy" and files.sources[source].mode == "120000":
        raise PatchError("symlink", "this is a symbolic link; it cannot be copied.")
    patch = decided(patch, files.sources[source].data)
    if source != patch.old:
        patch = replace(patch, tolerances=patch.tolerances | {"path"})
    if patch.action == "rename":
        return _allowed(Target(patch, source, path), files)
    return Target(patch, source, path)


def _nameless(patch: FilePatch, files: Files) -> Target | None:
    """The only file in scope; for a diff also the only one in which all its hunks fit exactly."""
    names: Collection[str] = files.scope
    if patch.form == "whole-file":
        texts = {name: decode(files.sources[name].data) for name in names if name in files.sources}
        text = texts[next(iter(texts))] if len(texts) == 1 else None
        if text is None or patch.whole is None or not looks_whole(patch.whole, text.lines):
            return None
    elif len(names) > 1:
        names = [
            name for name in sorted(names) if name in files.sources and _fits_exactly(patch, name, files)
        ]
    if len(names) != 1:
        raise PatchError(
            "unknown-file",
            f"the change does not name a file. Put its path in the header; in scope: {files.named()}.",
        )
    name = next(iter(names))
    if name not in files.sources:
        raise PatchError("unknown-file", f"the current content of {name} is unknown.")
    if patch.form != "whole-file":
        patch = replace(patch, tolerances=patch.tolerances | {"header"})
    return _allowed(Target(patch, name, name), files)


def _by_content(patch: FilePatch, names: Sequence[str], files: Files) -> str | None:
    """Of several files whose paths end alike, the only one in which all hunks fit exactly."""
    if patch.form == "whole-file" or not any(hunk.old for hunk in patch.hunks):
        return None
    alike = {path for name in names for path in same_tail(name, files.sources)}
    fitting = [path for path in alike if _fits_exactly(patch, path, files)]
    return fitting[0] if len(fitting) == 1 else None


def _fits_exactly(patch: FilePatch, name: str, files: Files) -> bool:
    text = decode(files.sources[name].data)
    if text is None or not text.lines:
        return False
    index = index_of(text.lines)
    try:
        return all(
            any(match.level == EXACT for match in find_matches(hunk, index, strict=True))
            for hunk in patch.hunks
        )
    except PatchError:
        return False
