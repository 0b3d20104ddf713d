"""Files that come, go, move, and change their mode; and files that look like diffs themselves."""

from __future__ import annotations

from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.model import Change
from bench.patch.slip import FILE, slip

ONLY_HEADER = (  # slips that need a hunk
    "status rewrite numbers order fused context drift typography indent trailing pairs end html order-of-hunks"
    " names gaps"
)


def _only(draft: Draft, most: int = 400) -> Change | None:
    """The first change, alone, where its file is not too long to be written out."""
    change = draft.changes[0]
    if (
        not change.before
        or not change.after
        or len(change.after.lines) > most
        or len(change.before.lines) > most
    ):
        return None
    draft.changes = [change, *draft.changes[1:2]]
    return change


@slip("new-file", FILE, "bytes newlines status rewrite fused edge drift")
def new(draft: Draft) -> bool:
    change = _only(draft)
    if change is None or not change.after or change.after.bom or change.after.lines[0].endswith("\r"):
        return False  # a diff shows neither a byte-order mark nor carriage returns
    change.before, change.edits = None, []
    return True


@slip("new-file-plain", FILE, "bytes newlines status names rewrite fused edge drift")
def new_plain(draft: Draft) -> bool:
    """`/dev/null` is all that says so."""
    if not new(draft) or draft.changes[0].after is None or draft.changes[0].after.mode != "100644":
        return False  # no line says what mode it has
    draft.changes = draft.changes[:1]
    path = draft.changes[0].path

    def shorter(text: str) -> str:
        start = text.find(f"diff --git a/{path}")
        return text if start < 0 else text[:start] + text[text.index("--- /dev/null", start) :]

    draft.wraps.append(shorter)
    return True


@slip("new-file-no-numbers", FILE, "bytes newlines status numbers rewrite fused edge drift", combines=False)
def new_unnumbered(draft: Draft) -> bool:
    draft.wraps.append(
        lambda text: (
            text.replace(f"@@ -0,0 +1,{len(change.after.lines)} @@", "@@ @@") if change.after else text
        )
    )
    change = draft.changes[0]
    return new(draft) and len(draft.changes) == 1


@slip("new-file-blank-bare", FILE, "bytes newlines status blank rewrite fused edge drift", combines=False)
def new_blank(draft: Draft) -> bool:
    """Its blank lines without a plus."""
    change = draft.changes[0]
    draft.wraps.append(lambda text: text.replace("\n+\n", "\n\n").replace("\n+\n", "\n\n"))
    if change.after is None or not change.after.lines[-1].strip():
        return False
    return new(draft) and any(
        not line for line in (draft.changes[0].after.lines[1:-1] if draft.changes[0].after else ())
    )


@slip("deleted-file", FILE, "status rewrite fused edge drift")
def deleted(draft: Draft) -> bool:
    change = _only(draft)
    if change is None:
        return False
    change.after, change.edits = None, []
    return True


@slip("deleted-file-no-lines", FILE, "status rewrite fused edge drift", combines=False)
def deleted_bare(draft: Draft) -> bool:
    """Said in the header; what it held is left out."""
    if not deleted(draft):
        return False
    draft.changes = draft.changes[:1]
    path = draft.changes[0].path
    head = "diff --git a/{0} b/{0}\ndeleted file mode 100644"
    form = draft.rng.choice([head, head + "\nindex 3f1c2ab..0000000\n--- a/{0}\n+++ /dev/null"])
    draft.wraps.append(lambda text: f"{draft.intro}\n\n```diff\n{form.format(path)}\n```\n")
    return True


def _elsewhere(path: str) -> str:
    folder, slash, base = path.rpartition("/")
    return f"{folder}{slash}moved/new_{base}"


@slip(
    "renamed",
    FILE,
    f"path {ONLY_HEADER}",
)
def renamed(draft: Draft) -> bool:
    """Moved, not a line changed."""
    change = draft.changes[0]
    if not change.before:
        return False
    change.edits = []
    change.after = replace(change.before, path=_elsewhere(change.path))
    return True


@slip("renamed-and-edited", FILE, "status path names")
def renamed_edited(draft: Draft) -> bool:
    change = draft.changes[0]
    assert change.after
    change.after = replace(change.after, path=_elsewhere(change.path))
    return True


@slip("renamed-by-names-only", FILE, "status path names", combines=False)
def renamed_plain(draft: Draft) -> bool:
    """Other names on the two sides, and nothing else that says so."""
    draft.changes = draft.changes[:1]
    old = draft.changes[0].path
    draft.may_refuse = True

    def plain(text: str) -> str:
        start = text.index("diff --git ")
        return text[:start] + text[text.index(f"--- a/{old}", start) :]

    draft.wraps.append(plain)
    return renamed_edited(draft)


@slip("copied", FILE, "status path names copy")
def copied(draft: Draft) -> bool:
    """Copied, and the copy edited."""
    change = draft.changes[0]
    assert change.after
    change.copy = True
    change.after = replace(change.after, path=_elsewhere(change.path))
    return True


@slip(
    "mode-changed",
    FILE,
    f"mode {ONLY_HEADER}",
)
def mode(draft: Draft) -> bool:
    change = draft.changes[0]
    assert change.before
    change.edits = []
    change.after = replace(change.before, mode="100755" if change.before.mode == "100644" else "100644")
    return True


@slip("mode-changed-and-edited", FILE, "status mode names")
def mode_edited(draft: Draft) -> bool:
    change = draft.changes[0]
    assert change.before
    assert change.after
    change.after = replace(change.after, mode="100755" if change.before.mode == "100644" else "100644")
    return True
