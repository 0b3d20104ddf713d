"""A Messages API server whose answers are written by hand, by a person or by an assistant.

    python -m bench.relay serve DIR         listen; prints what to set in the program's environment
    python -m bench.relay wait DIR          block until a request waits; print the path of its text
    python -m bench.relay answer DIR FILE   answer the request that waits longest with FILE (- is standard input)
    python -m bench.relay status DIR        which requests wait
    python -m bench.relay report DIR        calls, tokens, refusals of each run

README.md says how to judge a prompt with it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.relay.server import ANSWERS, MODEL, blocks_of, listening, text_of, waiting

_OBSERVATION = re.compile(r"(?s)<observation-(\w+)(?: kind=\"([\w.-]+)\")?>\n(.*?)\n</observation-\1>")
# Kinds of observations that always say no, and how the others begin that do.
_NO = {"correction", "repeated", "objection", "unfinished", "before_finish", "check", "hook", "reminder",
       "skipped"}  # fmt: skip
_BEGINS = re.compile(
    r"(?i)(there is no |not |nothing |say what|skipped|.*\b(?:was|were) not (?:run|done|started|performed))"
)


def report(folder: Path, run: str = "", *, whole: bool = False) -> str:
    """A line for each run, below it one for each refusal in it (all of its text with `whole`)."""
    lines = [f"{'run':24}{'calls':>6}{'fresh':>9}{'cached':>9}{'out':>8}{'seconds':>9}{'refusals':>10}"]
    for log in sorted(folder.glob(f"{run or '*'}/log.jsonl")):
        calls = [json.loads(line) for line in log.read_text().splitlines()]
        fresh, cached, out, seconds = (
            sum(call[name] for call in calls) for name in ("fresh", "cached", "out", "seconds")
        )
        refused = list(refusals(log.parent))
        lines.append(
            f"{log.parent.name:24}{len(calls):>6}{fresh:>9,}{cached:>9,}{out:>8,}{seconds:>9,.0f}{len(refused):>10}"
        )
        lines += [
            f"    {where}: {said if whole else said.partition(chr(10))[0][:160]}" for where, said in refused
        ]
    return "\n".join(lines)


def refusals(run: Path) -> Iterator[tuple[str, str]]:
    """("003 edit", what it says) for each observation that was new in a request and says no."""
    seen: Counter[tuple[str, str]] = Counter()
    for path in sorted(run.glob("*.request.json")):
        now = Counter(_observations(json.loads(path.read_text())))
        for kind, text in (now - seen).elements():
            if _says_no(kind, text):
                yield f"{path.name[:3]} {kind or 'result'}", text
        seen |= now


def _observations(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for role, block in blocks_of(body):
        if role == "user" and block["type"] == "tool_result":
            content = block.get("content") or ""
            said = content if isinstance(content, str) else "\n".join(map(text_of, content))
            yield ("is_error" if block.get("is_error") else ""), said
        elif role == "user" and block["type"] == "text":
            yield from ((found[2] or "", found[3]) for found in _OBSERVATION.finditer(block["text"]))


def _says_no(kind: str, text: str) -> bool:
    if kind == "edit":
        return not text.startswith(("Applied", "applied"))
    return kind == "is_error" or kind in _NO or bool(_BEGINS.match(text))


def main() -> None:
    given = _options()
    folder: Path = given.folder
    if given.verb == "serve":
        _serve(folder, given.port)
    elif given.verb == "wait":
        _wait(folder, given.run, given.seconds)
    elif given.verb == "answer":
        _answer(folder, given.run, given.number, given.answer)
    elif given.verb == "status":
        found = waiting(folder, given.run)
        print("\n".join(f"{path} is waiting" for path in found) or "no request is waiting")
    else:
        print(report(folder, given.run, whole=given.whole))


def _serve(folder: Path, port: int) -> None:
    server = listening(folder, port)
    print(
        f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{server.server_address[1]}/NAME  # each NAME is a run of its own\n"
        f"export ANTHROPIC_API_KEY=sk-ant-relay\n"
        f"# and use --model {MODEL}, or any other name; the requests are in {folder}/NAME",
        flush=True,
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


def _wait(folder: Path, run: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not (found := waiting(folder, run)):
        if time.monotonic() > until:
            raise SystemExit(f"no request within {seconds:g} s")
        time.sleep(0.1)
    print(found[0])


def _answer(folder: Path, run: str, number: int | None, answer: str) -> None:
    found = [path for path in waiting(folder, run) if number is None or path.name.startswith(f"{number:03}.")]
    if not found:
        raise SystemExit("no such request is waiting; list them with `status`")
    if number is not None and len(found) > 1:
        raise SystemExit(f"request {number} is waiting in several runs; name one with --run")
    stem = found[0].name.partition(".")[0]
    suffix = ".json" if answer.endswith(".json") else ".txt"
    new = found[0].with_name(f"{stem}.new")
    if answer == "-":
        new.write_bytes(sys.stdin.buffer.read())
    else:
        shutil.copyfile(answer, new)
    new.rename(found[0].with_name(stem + ANSWERS[suffix]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.relay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("serve", "wait", "answer", "status", "report"):
        verb = verbs.add_parser(name)
        verb.add_argument("folder", type=Path, metavar="DIR")
        if name == "serve":
            verb.add_argument("--port", type=int, default=0, help="default: one that is free")
        else:
            verb.add_argument("--run", default="", metavar="NAME", help="only this run")
        if name == "wait":
            verb.add_argument(
                "--seconds", type=float, default=3600.0, help="give up after so long (%(default)s)"
            )
        if name == "answer":
            verb.add_argument("answer", metavar="FILE", help="text, or blocks of content as .json")
            verb.add_argument("--number", type=int, help="of the request (default: the first that waits)")
        if name == "report":
            verb.add_argument("--whole", action="store_true", help="print each refusal whole")
    return parser.parse_args()


if __name__ == "__main__":
    main()
