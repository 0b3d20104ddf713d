"""Detect unrequested losses: removed definitions, rewritten files that lack their end, and duplicate definitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from repoagent.edit.prompt.blocks import model_text
from repoagent.git.files import FileChange
from repoagent.patch.apply_answer import AppliedAnswer

_SHORTER = re.compile(r"\b(remov|delet|drop|cut|trim|shorten|truncat|strip)", re.IGNORECASE)
_REWRITTEN = re.compile(
    r"\b(simplif|rewrit|re-writ|replac|refactor|shorter|compact|reduc|inlin|comprehension|one.?liner?|merg|use|using)",
    re.IGNORECASE,
)
_LAST_WINS = (".py", ".js", ".mjs", ".cjs", ".jsx")  # of two definitions of a name
_SHORT = 12  # lines; a shorter part may become half as long

# The path, the old lines, and the new lines.
Part = tuple[str, Sequence[str], Sequence[str]]


def unasked_losses(
    applied: AppliedAnswer,
    instruction: str,
    answer: str,
    originals: Mapping[str, bytes],
    *,
    parts: Sequence[Part] = (),
    loose: bool = False,
) -> str:
    """A sentence for the model if the change removes something that neither the request nor the answer names; otherwise
    "".

    Only text of the `originals`, the files as they were read, counts as lost. `parts` are the parts of files that the
    answer rewrites as a whole. `loose`: see `patch_spans`.
    """
    from repoagent.syntax.outline import outline

    text = f"{instruction} {_prose(answer, loose=loose)}"
    if lost := _lost_definitions(applied.changes, text, originals):
        names = ", ".join(f"{name} ({change.name})" for change, name in lost)
        return (
            f"Not applied: the change removes {names}, which the request does not name. Keep what can "
            "stay; name what must go in a sentence before the edit, and send the edit again."
        )
    if loose:
        from repoagent.edit.small_models.code_repairs import changes_to_frozen

        if frozen := changes_to_frozen(applied.changes, instruction):
            return f"Not applied: {', '.join(frozen)} must stay unchanged, as the request says."
    for change in applied.changes if loose else ():
        if not change.path or not change.path.endswith(_LAST_WINS) or not change.before or not change.after:
            continue
        lines = change.after.split(b"\n")
        old = Counter(symbol.qualified_name for symbol in outline(change.path, change.before))
        new = Counter(
            symbol.qualified_name
            for symbol in outline(change.path, change.after)
            if symbol.kind in {"function", "method", "class"}
            and not lines[symbol.first_line - 1].lstrip().startswith(b"@")
        )
        if twice := [name for name, count in new.items() if count > 1 and old[name] == 1]:
            return f"Not applied: {', '.join(twice[:8])} would appear twice. Write everything once."
    if missing := _lost_ends(applied, text, parts):
        return missing
    for _, *sides in parts if not _SHORTER.search(text) and not _REWRITTEN.search(text) else ():
        before, after = (sum(bool(line.strip()) for line in lines) for lines in sides)
        if before >= _SHORT and 2 * after < before:
            return (
                f"Not applied: {after} lines replaced {before}. Write every line that stays; if the others "
                "must go, say in a sentence before the edit that they are removed."
            )
    return ""


def left_out(applied: AppliedAnswer, words: str, answer: str) -> str:
    """A sentence about what a patch that rewrites a whole file leaves out; "" if nothing is missing.

    Only two things count as left out: the end of the file, and definitions that neither the patch nor the commit
    message `words` mentions.
    """
    text = f"{words} {_prose(answer, loose=False)}"
    if lost := _lost_definitions(_rewritten(applied), text, {}):
        names = ", ".join(f"{name} ({change.name})" for change, name in lost)
        return (
            f"the new file lacks {names}, but the patch does not mention the removal. To remove a definition, "
            "name it in the commit message (-m), or use a diff that deletes it."
        )
    return _lost_ends(applied, text, ())


def _rewritten(applied: AppliedAnswer) -> list[FileChange]:
    whole = {placement.path for placement in applied.placements if placement.level == "whole-file"}
    return [change for change in applied.changes if change.path in whole]


def _lost_ends(applied: AppliedAnswer, text: str, parts: Sequence[Part]) -> str:
    """A sentence if the new text of a part or of a whole file ends before its last lines."""
    if _SHORTER.search(text):
        return ""
    ends = [(f"that part of {path}", "all of it", old, new) for path, old, new in parts]
    for change in _rewritten(applied):
        if change.before is not None and change.after is not None:
            before, after = (model_text(data).split("\n") for data in (change.before, change.after))
            ends.append((change.name, "the whole file", before, after))
    for name, send, old, new in ends:
        # an unfinished answer ends with one of the old lines, and the lines after it are nowhere in it
        before, after = ("\n".join(lines).rstrip().split("\n") for lines in (old, new))
        if after[-1] not in before:
            continue
        tail = before[len(before) - before[::-1].index(after[-1]) :]
        if tail and not any(line in after for line in tail if line.strip()):
            return (
                f"Not applied: the last {len(tail)} lines of {name} are missing. Send {send}, to its last line; if "
                "the missing lines must go, say in a sentence before the edit that they are removed."
            )
    return ""


def _lost_definitions(
    changes: Sequence[FileChange], text: str, originals: Mapping[str, bytes]
) -> list[tuple[FileChange, str]]:
    """The definitions that are removed, not moved to another file, and not named in the text."""
    from repoagent.syntax.outline import defined_names, lost_definitions

    words = set(re.findall(r"\w+", text))
    present = {
        name
        for change in changes
        if change.path and change.after
        for name in defined_names(change.path, change.after)
    }
    return [
        (change, name)
        for change in changes
        if change.path and change.before is not None and change.after is not None
        for name in lost_definitions(change.path, change.before, change.after)
        if name not in present
        and name.rsplit(".", 1)[-1] not in words
        and (change.path not in originals or name in defined_names(change.path, originals[change.path]))
    ]


def _prose(answer: str, *, loose: bool) -> str:
    """The text of an answer without its patches."""
    from repoagent.patch.parse.blocks import patch_spans

    words, at = [], 0
    for span in patch_spans(answer, loose=loose):
        words.append(answer[at : span.start])
        at = span.end
    return " ".join([*words, answer[at:]])
