"""The text of a hook of ours: it runs what was there before, then the review, and stops git for findings alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

MARK = "# repoagent hook"
BEFORE = ".before-repoagent"
FINDINGS = (
    6  # what `repoagent hook run` ends with when there are findings; whatever else fails is no reason to stop
)
_VERSION = 1

_TEMPLATE = """\
#!/bin/sh
{mark}, version {version}: {name}. `repoagent hook uninstall` takes it away and puts back what was here.
{read}before=$(dirname -- "$0")/{name}{suffix}
if [ -f "$before" ] && [ -x "$before" ]; then
    {feed}"$before" "$@" || exit
fi
if [ -x {program} ]; then
    {feed}{command} hook run{strict} {name} "$@" >&2
elif command -v repoagent >/dev/null 2>&1; then
    {feed}repoagent hook run{strict} {name} "$@" >&2
else
    echo 'repoagent: not found, so nothing was reviewed ({name})' >&2
    exit {missing}
fi
status=$?
case $status in
    0 | 130) exit $status ;;
    {findings}) exit 1 ;;
esac
echo "repoagent: the review ended with code $status{goes_on}" >&2
exit {missing}
"""
_READ = "input=$(cat && echo .)\n"
_FEED = 'printf %s "${input%.}" | '
_OURS = re.compile(rf"#!/bin/sh\n{MARK}, version \d+: ([a-z-]+)\. ")
_SUM = "# sum of the lines above: "
_WHOLE = re.compile(rf"(.*\n){_SUM}([0-9a-f]+)\n", re.DOTALL)


def script(name: str, command: Sequence[str], *, strict: bool = False) -> str:
    """The hook `name`, which runs `command` (a path, and what comes before the name of a sub-command), or where that is
    gone the program on PATH. With `strict` whatever fails stops git. Its last line tells whether it was changed, to
    versions of us too that write another one."""
    takes_input = name == "pre-push"
    text = _TEMPLATE.format(
        mark=MARK,
        version=_VERSION,
        name=name,
        suffix=BEFORE,
        read=_READ if takes_input else "",
        feed=_FEED if takes_input else "",
        program=shlex.quote(command[0]),
        command=shlex.join(command),
        strict=" --strict" if strict else "",
        findings=FINDINGS,
        missing=1 if strict else 0,
        goes_on="" if strict else "; git goes on",
    )
    return f"{text}{_SUM}{_sum(text)}\n"


def hook_of(text: str) -> str | None:
    """Which hook of ours `text` is; None when it is none."""
    match = _OURS.match(text)
    return match[1] if match else None


def is_unchanged(text: str) -> bool:
    """Whether a hook of ours, of this version or another, is as it was written."""
    match = _WHOLE.fullmatch(text)
    return hook_of(text) is not None and match is not None and match[2] == _sum(match[1])


def _sum(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
