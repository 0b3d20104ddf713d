"""File names in answers: how models write them, which known file they refer to, and which are never edited."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

NO_FILE = "/dev/null"
ZERO_WIDTH = "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE = re.compile(r"(\\(?:[0-7]{1,3}|.))")
_PREFIX = re.compile(r"^(?:[abciow12]|old|new|orig|original|modified|updated|before|after|left|right)/(?=.)")
_SHORT_PREFIX = re.compile(r"^[abciow12]/(?=.)")
_DATE = re.compile(
    r"(?<=\S)\s+(?:\d{4}-\d\d-\d\d[ T]\d\d:|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] [ \d]?\d )"
)
_REMARK = re.compile(
    r"(?<=\S)\s+\((?:original|modified|updated|new|old|before|after|current|deleted|working copy|nonexistent"
    r"|revision \d+|new file|unchanged|fixed|patched)[^()]{0,40}\)$",
    re.IGNORECASE,
)


def unquote_name(name: str) -> str:
    """Return a name in a header without git's C-quoting, and without a tab and the text after it.

    If there is no tab, trailing white space is removed.
    """
    name = name.rstrip("\r")
    if not name.startswith('"'):
        before, tab, _ = name.partition("\t")
        return before if tab else before.rstrip()  # a name before a tab may end in a space
    close = re.match(r'"((?:[^"\\]|\\.)*)"', name)
    if close is None:
        return name
    raw = bytearray()  # adding to bytes would copy them each time
    for part in _ESCAPE.split(close[1]):
        if _ESCAPE.fullmatch(part):
            code = part[1:]
            value = int(code, 8) if code[0] in "01234567" else _ESCAPES.get(code, ord(code))
            raw.append(value & 0xFF)
        else:
            raw += part.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def plain_name(name: str) -> str:
    """Return the name after `---` or `+++`, without quoting, `file://`, Markdown, and any date or remark after it."""
    if name.startswith('"'):
        return unquote_name(name)
    has_tab = "\t" in name
    name = unquote_name(name).lstrip()
    if has_tab and name.endswith(" ") and name.strip():
        return name
    name = name.rstrip()
    name = _DATE.split(name, maxsplit=1)[0].strip() if len(name) < 4000 else name
    name = _REMARK.sub("", name) if len(name) < 4000 else name
    for mark in ("**", "__", "`", "'", '"'):
        if len(name) > 2 * len(mark) and name.startswith(mark) and name.endswith(mark):
            name = name[len(mark) : -len(mark)]
    return re.sub(r"^file://(?:localhost)?(?=/)", "", name)


def is_no_file(name: str) -> bool:
    return plain_name(name).rstrip() in {NO_FILE, "dev/null", "a/dev/null", "b/dev/null", "NUL", "nul"}


_LONGEST_PART, _LONGEST = 255, 4095  # bytes that file systems accept
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_LOOKALIKE = str.maketrans({"\u0131": "i", "\u0307": None})  # some case tables map these to an i
_SHORT_NAME = re.compile(r"(?:git|repoag|gi[0-9a-f]{4}|re[0-9a-f]{4})~\d+")


def bad_path(path: str, *, known: bool = False) -> str | None:
    """Return the reason why `path` may never be written or deleted, or None.

    The name of an existing file (`known`) may contain anything. Names that some file system treats as `.git` are
    treated as `.git`. Checks only the string: the caller must handle symbolic links.
    """
    if not path:
        return "the path is empty"
    if not known:  # some system, or a reader, would confuse these names with others
        if any(char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" for char in path):
            return "the path contains a control character"
        if _INVISIBLE.search(path):
            return "the path contains an invisible character or one that changes the direction of text"
        if any("\ud800" <= char <= "\udfff" for char in path):
            return "the path is not valid UTF-8"
        if "\\" in path:
            return "the path contains a backslash; separate folders with `/`"
        if path.startswith("~/"):
            return "the path is in a home folder; use a path relative to the top of the repository"
        if re.match(r"[A-Za-z]:", path):
            return "the path is absolute; use a path relative to the top of the repository"
        parts = path.split("/")
        if len(path.encode()) > _LONGEST or any(len(part.encode()) > _LONGEST_PART for part in parts):
            return "the path is too long"
        for part in parts:
            if part not in {".", ".."} and part != part.rstrip(". "):
                return f"{part!r} ends in a dot or a space"
    if path.startswith("/"):
        return "the path is absolute; use a path relative to the top of the repository"
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            return f"the path contains {part!r}; use a plain path from the top of the repository"
        folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", part)).casefold()
        folded = folded.translate(_LOOKALIKE).split(":")[0].rstrip(". ").strip()
        if folded in {".git", ".repoagent"} or _SHORT_NAME.fullmatch(folded):
            return f"{part!r} belongs to git or repoagent and is never edited"
    return None


def path_spellings(old: str | None, new: str | None) -> tuple[list[str], list[str]]:
    """The possible paths for each of the two names in a header, likeliest first."""
    names = [name for name in (old, new) if name is not None and name != NO_FILE]
    prefixed = bool(names) and (
        all(_SHORT_PREFIX.match(name) for name in names)
        or (len(names) == 2 and old != new and all(_PREFIX.match(name) for name in names))
    )

    def variants(name: str | None) -> list[str]:
        if name is None or name == NO_FILE:
            return []
        while name.startswith("./"):
            name = name[2:].lstrip("/")
        without = (_PREFIX if prefixed else _SHORT_PREFIX).sub("", name, count=1)
        return list(dict.fromkeys([without, name] if prefixed else [name, without]))

    return variants(old), variants(new)


def known_path(names: Collection[str], known: Collection[str]) -> str | None:
    r"""Return the known path for `names`, which are spellings of one name, or None.

    Tries, in this order: the names as written; the names with `/` for `\` and without a date; the longest common tail,
    if it is unique; a path with trailing spaces.
    """
    for name in names:
        if name in known:
            return name
    cleaned = []
    for name in names:
        slashed = plain_name(name).replace("\\", "/")
        cleaned += [_SHORT_PREFIX.sub("", slashed, count=1), slashed] if "\\" in name else [slashed]
    for name in cleaned:
        if name in known:
            return name
    for name in cleaned:
        tails = same_tail(name, known)
        if len(tails) == 1:
            return tails[0]
    spaced = [path for path in known if path.endswith(" ") and path.rstrip(" ") in cleaned]
    return spaced[0] if len(spaced) == 1 else None


def same_tail(name: str, known: Collection[str]) -> list[str]:
    """Return the known paths that share the longest tail with `name`.

    Either the path or the name must be a tail of the other. A name with `..` has no tail.
    """
    if ".." in name.split("/") or not name.strip("/"):
        return []
    tails = [path for path in known if f"/{path}".endswith(f"/{name}") or f"/{name}".endswith(f"/{path}")]
    longest = max((_common_parts(path, name) for path in tails), default=0)
    return [path for path in tails if _common_parts(path, name) == longest]


def _common_parts(first: str, second: str) -> int:
    count = 0
    for left, right in zip(reversed(first.split("/")), reversed(second.split("/")), strict=False):
        if left != right:
            break
        count += 1
    return count


_FILE = re.compile(r"[\w@+~\[\](){}$.#-]+(?:/[\w@+~\[\](){}$.#-]+)*")
_PLAIN_NAMES = frozenset(
    "Makefile Dockerfile LICENSE Jenkinsfile Rakefile Gemfile Justfile CODEOWNERS".split()  # noqa: SIM905
)
_MARKED_NAME = re.compile(r"[*_]*(?:`([^`]+)`|\*\*([^*`]+)\*\*)[*_]*\s*:?")
_LEAD = re.compile(
    r"(?:(?:and|then|now|next|also|first|finally|second|third|lastly),? )?"
    r"(?:in|for|to|change[sd]? (?:to|in|for)|updates? (?:to|for|in)|edits? (?:to|for|in)|diff (?:for|of|to)"
    r"|patch (?:for|of|to)|update|edit|modify|fix|change|patch)(?: the)?(?: file)?[ *_]+",
    re.IGNORECASE,
)
_NEW_REMARK = re.compile(
    r"\s*\((?:new|updated|modified|complete|full|whole|entire)[^)]*\)\s*:?$", re.IGNORECASE
)


def _is_name(word: str) -> bool:
    """Whether a word looks like a path."""
    if _FILE.fullmatch(word) is None or "://" in word:
        return False
    last = word.rsplit("/", 1)[-1]
    return last in _PLAIN_NAMES or re.search(r"\w\.[A-Za-z]\w{0,11}$|^\.[A-Za-z][\w.-]+$", last) is not None


def _is_known(text: str, known: Collection[str], *, marked: bool = False) -> bool:
    """Whether it is a known file. An ordinary word must be marked as a name."""
    return text in known and (marked or "/" in text or "." in text or text.isupper())


def name_on_line(line: str, known: Collection[str]) -> str | None:
    """The file name on a line without other text: `src/a.py`, `### File: src/a.py`, **`src/a.py`**:"""
    if len(line) > 400:
        return None
    stripped = line.strip().strip(ZERO_WIDTH)
    text = re.sub(r"^[#>\s]*(?:[-*] +|\d+[.)] +)?", "", stripped)
    for name in (stripped, text):
        if _is_known(name, known):
            return name
    text = _NEW_REMARK.sub("", text)
    if _MARKED_NAME.fullmatch(text) is None:
        text = text.strip("*_ :")
    text = re.sub(r"^(?:file ?name|file ?path|file|path)\**\s*:\**\s*", "", text, flags=re.IGNORECASE)
    marked = _MARKED_NAME.fullmatch(text)
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
    """The file name in a fence's info string: ```python src/a.py, ```src/a.py, ```python title="src/a.py"."""
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


def name_in_comment(line: str, known: Collection[str]) -> str | None:
    """Return the file name that stands alone in a comment or on the first line of a fence, such as `# src/a.py`."""
    if len(line) > 400:
        return None
    match = _COMMENT.match(line)
    return name_on_line(match.group(1) if match else line, known)


def name_in_lead(line: str, known: Collection[str]) -> str | None:
    """The file name in the sentence before a diff: `In src/a.py:`, `Then change **src/a.py**:`."""
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
    """Return the name of the file that a sentence says follows in full: "Here's the full updated `x.py`:", also in
    bold."""
    text = line.strip()
    claim = _CLAIM.fullmatch(text) if len(text) <= 400 and text.rstrip("*").endswith(":") else None
    if claim is None or not re.search(rf"\b(?:{_WHOLE})\b", claim["what"], re.IGNORECASE):
        return None
    if claim["more"] and _IN_PART.search(claim["more"]):
        return None
    return (claim["ticked"] or claim["bold"]).strip().removeprefix("./")
