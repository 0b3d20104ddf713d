"""Files that are named beside a patch: on a line of its own, in a fence's info string, in a comment.

A name is what looks like one, or is one: `known` are the files that there are, where that is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from repoagent.patch.parse.marks import INVISIBLE

_FILE = re.compile(r"[\w@+~\[\](){}$.#-]+(?:/[\w@+~\[\](){}$.#-]+)*")
_PLAIN_NAMES = {
    "Makefile",
    "Dockerfile",
    "LICENSE",
    "Jenkinsfile",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "CODEOWNERS",
}


_MARKED = re.compile(r"[*_]*(?:`([^`]+)`|\*\*([^*`]+)\*\*)[*_]*\s*:?")
_LEAD = re.compile(
    r"(?:(?:and|then|now|next|also|first|finally|second|third|lastly),? )?"
    r"(?:in|for|to|change[sd]? (?:to|in|for)|updates? (?:to|for|in)|edits? (?:to|for|in)|diff (?:for|of|to)"
    r"|patch (?:for|of|to)|update|edit|modify|fix|change|patch)(?: the)?(?: file)?[ *_]+",
    re.IGNORECASE,
)


def _is_name(word: str) -> bool:
    if _FILE.fullmatch(word) is None or "://" in word:
        return False
    last = word.rsplit("/", 1)[-1]
    return last in _PLAIN_NAMES or re.search(r"\w\.[A-Za-z]\w{0,11}$|^\.[A-Za-z][\w.-]+$", last) is not None


def _is_known(text: str, known: Collection[str], *, marked: bool = False) -> bool:
    """Is it the name of a known file? A single word that could be any other must be marked as a name."""
    return text in known and (marked or "/" in text or "." in text or text.isupper())


def name_on_line(line: str, known: Collection[str] = ()) -> str | None:
    """The file that a line names and does nothing else: `src/a.py`, `### File: src/a.py`, **`src/a.py`**:"""
    if len(line) > 400:
        return None
    whole = line.strip().strip(INVISIBLE)
    text = re.sub(r"^[#>\s]*(?:[-*] +|\d+[.)] +)?", "", whole)
    for name in (whole, text):
        if _is_known(name, known):
            return name
    text = re.sub(
        r"\s*\((?:new|updated|modified|complete|full|whole|entire)[^)]*\)\s*:?$",
        "",
        text,
        flags=re.IGNORECASE,
    )
    if _MARKED.fullmatch(text) is None:
        text = text.strip("*_ :")
    text = re.sub(r"^(?:file ?name|file ?path|file|path)\**\s*:\**\s*", "", text, flags=re.IGNORECASE)
    marked = _MARKED.fullmatch(text)
    text = text.strip("*: ").strip("`\"'").strip("*: ")
    if _is_known(text, known, marked=marked is not None):
        return text
    lead = _LEAD.match(text) if marked is not None and marked[2] else None
    if lead is not None:  # **Then change src/a.py:**
        return name_on_line(text[lead.end() :], known)
    if marked is not None and _is_name(text.replace(" ", "_").lstrip("/")):
        return text
    return text if _is_name(text.lstrip("/")) else None


def name_in_info(info: str, known: Collection[str] = ()) -> str | None:
    """The file that a fence's info string names: ```python src/a.py, ```src/a.py, ```python
    title="src/a.py"."""
    for text in (info, *(info.partition(mark)[2] for mark in ": =")):
        name = text.strip("\"'` ")
        if _is_known(name, known, marked=text != info or " " in name):
            return name
    prefixed = re.fullmatch(r"\w[\w+#-]+:(?=[^/ ])(\S*/\S* .*)", info)
    words = (prefixed[1] if prefixed else info).split()  # `java:src/my App.java`
    for number, word in enumerate(words):
        value = re.sub(r"^\{?(?:title|file|filename|path|name)=", "", word).rstrip("}").strip("\"'`")
        language, colon, tail = value.partition(":")
        drive = len(language) == 1 and tail.startswith("/")
        if colon and not drive and re.fullmatch(r"\w[\w+#-]*", language) and _is_name(tail.lstrip("/")):
            return tail
        if _is_name(value.lstrip("/")) and (number or "/" in value or "." in value or value in _PLAIN_NAMES):
            folder = next((at for at in range(number) if "/" in words[at]), number)
            return " ".join([*words[folder:number], value])  # `src/my app.py`
    return None


_COMMENT = re.compile(r"[ \t]*(?:#+|//+|--|/\*+|<!--|;+|%)\s*(.*?)\s*(?:\*/|-->)?\s*$")


def name_in_comment(line: str, known: Collection[str] = ()) -> str | None:
    """The file that a comment, or the first line of a fence, names and nothing else: `# src/a.py`."""
    if len(line) > 400:
        return None
    found = _COMMENT.match(line)
    return name_on_line(found.group(1) if found else line, known)


def name_in_lead(line: str, known: Collection[str] = ()) -> str | None:
    """The file that the words before a diff name: `In src/a.py:`, `Then change **src/a.py**:`."""
    text = line.strip().rstrip("*_")
    if len(text) > 400 or not text.endswith(":"):
        return None
    text = text[:-1].rstrip("*_ ").lstrip("*_# >")
    lead = _LEAD.match(text)
    return name_on_line(text[lead.end() :], known) if lead is not None else None


_WHOLE = "full|complete|entire|whole"
_FRESH = "updated|new|fixed|corrected|revised|modified|final|rewritten|refactored|improved|cleaned-up"
_CLAIM = re.compile(
    r"(?:.*[.!]\s+)?(?:(?:here(?:['\u2019]?s| is| are)|this is|below is|the following is)\s+)?(?:(?:the|your|my|a)\s+)?"
    rf"(?P<what>(?:(?:{_WHOLE}|{_FRESH}),?\s+(?:and\s+)?)+)"
    r"(?:(?:file|contents?|version|source|code|text)\s+(?:(?:of|for)\s+)?(?:the\s+)?(?:file\s+)?)?"
    r"(?:`(?P<ticked>[^`]+)`|\*\*(?P<bold>[^*`]+)\*\*)(?:\s+file)?"
    r"(?P<more>\s+(?:with|including|incorporating)\s[^`]*)?:\**",
    re.IGNORECASE,
)
_IN_PART = re.compile(
    r"\b(?:only|just|parts?|snippets?|excerpts?|sections?|relevant|omitted|left out)\b", re.IGNORECASE
)


def name_claimed_whole(line: str) -> str | None:
    """The file that words present as a whole: `Here's the full updated x.py:`, its name in back-ticks or bold."""
    text = line.strip()
    found = _CLAIM.fullmatch(text) if len(text) <= 400 and text.rstrip("*").endswith(":") else None
    if found is None or not re.search(rf"\b(?:{_WHOLE})\b", found["what"], re.IGNORECASE):
        return None
    if found["more"] and _IN_PART.search(found["more"]):
        return None
    return (found["ticked"] or found["bold"]).strip().removeprefix("./")


def single_known(name: str, known: Collection[str]) -> str | None:
    """The known file of that name, or the only one whose path ends with it."""
    if name in known:
        return name
    tails = [path for path in known if path.endswith(f"/{name}")]
    return tails[0] if len(tails) == 1 else None
