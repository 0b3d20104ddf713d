"""Parse an answer: one `FilePatch` for each file of each block.

The prose around patches matters too: it may withdraw, correct or offer as a choice what comes before it. Where a hunk
can be read in several ways, the lines of the file decide."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import (
    EXACT,
    TRAILING_SPACE,
    WHITESPACE,
    FileIndex,
    indent_of,
    index_of,
    is_blank,
)
from repoagent.patch.model import ADD, CONTEXT, FilePatch, Hunk, Line, Revision, decode
from repoagent.patch.parse.apply_patch import parse_envelope
from repoagent.patch.parse.blocks import Block, blocks, too_large
from repoagent.patch.parse.fences import CODE, DIFF, ENVELOPE, SEARCH_REPLACE, SHELL, parse_heredocs
from repoagent.patch.parse.markers import SEARCH, is_bare_fence, is_mail, starts_diff
from repoagent.patch.parse.search_replace import parse_search_replace, parse_whole
from repoagent.patch.parse.unfenced import is_bullet
from repoagent.patch.parse.unified import parse_diff

_PROSE_REACH = 1500  # characters of prose that are searched for choices
_LONGEST = 4000  # characters of prose that are read at each end
_SENTENCE = re.compile(r"(?<=[.!?:;…])[*_`\"')]*\s+|\n\s*\n|\n(?=\s*(?:[#>*•-]|\d+[.)])\s)")


class _Late:
    """A pattern that is compiled when it is first used: together these take 50 ms, which no request has to wait for."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._pattern, re.IGNORECASE)
        self.__dict__ |= {
            method: getattr(compiled, method) for method in ("search", "finditer", "match", "sub")
        }
        return getattr(compiled, name)


def _any(*patterns: str) -> re.Pattern[str]:
    return cast("re.Pattern[str]", _Late("|".join(patterns)))


_PATCH = (
    r"(?:patch(?:es)?|diffs?|versions?|edits?|changes?|attempts?|answers?|suggestions?|drafts?|blocks?|snippets?"
    r"|solutions?|try|proposals?)"
)
_EARLIER = r"(?:above|previous|prior|earlier|first|initial|original|preceding|former|last|old)"
_THE = r"(?:the|my|that|this|those|these|all|both|any)"
_NOT_OF = r"\b(?! (?:in|of|to|for)\b)"
_SENT = r"(?: (?:that |which )?i (?:gave|sent|wrote|posted|proposed|suggested|showed|made))?"
_ABOVE = (
    rf"(?:(?:{_THE} )+(?:{_EARLIER} )*(?:patch(?:es)?|diffs?){_SENT}(?: (?:above|before|so far|earlier))?{_NOT_OF}"
    rf"|(?:{_THE} )+{_EARLIER} (?:{_PATCH}|ones?){_NOT_OF}"
    rf"|{_EARLIER} (?:patch(?:es)?|diffs?){_NOT_OF}"
    rf"|(?:{_THE} )*(?:{_PATCH}|ones?){_SENT} (?:above|before|so far|[1A]\b)"
    rf"|my {_EARLIER} (?:message|reply|response|post)"
    r"|(?:(?:all|both|everything|anything)(?: of)? )?the above\b(?! (?!is|was|are|were|and|with|instead|patch)\w)"
    r"|(?:everything|anything|all|what i (?:wrote|said|sent|posted)) (?:above|before|so far|earlier|there))"
)
_THIS = (
    rf"(?:this one|(?:this|these|the following|the below|what follows)(?: (?:{_PATCH}|ones?))?"
    rf"|the (?:{_PATCH}|one)s? (?:below|that follows))"
)
_BAD = (
    r"(?:(?:quite|totally|completely|just|simply|now|all|also|of course|clearly|partly) )*(?:wrong|incorrect"
    r"|not (?:quite |fully )?(?:right|correct|valid)|a mistake|mistaken|broken|invalid|flawed|buggy|bogus)\b"
)
_GONE = (
    r"(?:(?:now|hereby|therefore) )*(?:obsolete|void|superseded|withdrawn|retracted|replaced|outdated|off"
    r"|premature|moot|unnecessary|superfluous|useless|not needed|no longer (?:needed|valid|relevant|right|correct))\b"
)
_IS = r"(?:'s|’s| is| was| are| were| turned out to be)"
_END = r"(?=\W*$|[,.;:!—–]| and\b| -)"
_ORDER = r"(?:^|[,;:—–.!]\s|\bplease )\W*(?:(?:so|just|please|and|now) )*"
_DROP = r"(?:ignore|disregard|forget|discard)(?: about)?"
_USE = rf"\b(?:use|apply|take|try|do|send|prefer|go with|let's do) {_THIS},? (?:instead|rather)(?! (?:of|than)\b)"
_NEW = r"\b(?:correct(?:ed)?|right|fixed|revised|amended|final|real|proper) (?:patch|diff|answer)\b"
_PIECE = r"(?:hunk|part|line|function|method|class|place|section|piece)"

_WITHDRAWS = _any(
    rf"\bscratch (?:that\b|all\b|everything\b|{_ABOVE}|(?:this|it){_END})|\bstrike (?:that\b|{_ABOVE})",
    rf"\bnever ?mind(?:{_END}| that\b| {_ABOVE})|\bi (?:take|took) (?:that|it|this) back|\bi (?:withdraw|retract)\b",
    r"\b(?:let me|let us|let's|i'll|i will|i have to|i need to) start (?:over|afresh)\b|^\W*starting (?:over|afresh)\b",
    rf"\b{_DROP} {_ABOVE}|{_ORDER}{_DROP} (?:(?:that|this)(?: one)?|it|them|those|the last one){_END}",
    rf"\b(?:dismiss|skip|drop|throw away|abandon) (?:{_THE} )+(?:{_EARLIER} )?(?:patch(?:es)?|diffs?){_NOT_OF}",
    rf"\b(?:do not|don't|don’t|never) (?:apply|use|take) {_ABOVE}",
    rf"{_ORDER}(?:do not|don't|don’t|never) (?:apply|use|take) (?:that|it|them)(?: one)?{_END}",
    rf"\b(?:cancel|revert|undo|retract) (?:{_ABOVE}|(?:that|this|it){_END})",
    rf"\b(?:drop|skip|throw) (?:the above\b|{_ABOVE} away)|^\W*(?:ignore|disregard|forget)[.,:]",
    rf"\b(?:only|just) (?:apply|use|take) {_THIS}{_END}|\b(?:apply|use|take) only {_THIS}{_END}",
    rf"^\W*{_THIS},? instead\b|\binstead of (?:that|this|it),? (?:do|use|apply|try|take)\b",
    rf"{_USE}|\binstead,? (?:use|apply|take|do|try|go with) {_THIS}",
    rf"\b(?:instead of|in place of|in lieu of|rather than) (?:applying |using |taking )?{_ABOVE}",
    rf"\b(?:replac(?:es?|ing)|supersed(?:es?|ing)|overrid(?:es?|ing)|corrects?|obsoletes?) {_ABOVE}",
    rf"\b{_ABOVE}(?: \w+)?{_IS} (?:{_BAD}|{_GONE})",
    rf"\b{_ABOVE} (?:should|must|can|may) (?:not be (?:applied|used)|be (?:ignored|disregarded|discarded|dropped))",
    rf"\b{_ABOVE} (?:\w+ ){{0,2}}the wrong\b",
    rf"{_NEW}(?! (?:for|of|in|to) (?:the|that|this|one|its) (?:\w+ )?{_PIECE}\b)",
)
_CORRECTS = _any(
    r"\blet me (?:reconsider|re-?think|revise|redo|rewrite|try again|start again|correct (?:that|this|it|my))\b",
    r"\blet me fix (?:that|this|it|my|the (?:above|diff|patch|previous|earlier|first|last))\b",
    r"^[\W_]*(?:(?:one|a|another|small|quick|minor) )*corrections?"
    r"(?=\s*(?:[:,.;!—–*]|$| to (?:the|my) (?:above|patch|diff|first|previous|last)))",
    r"\bi (?:was|am|'m) wrong\b|\bmy (?:mistake|bad|apologies)\b|\bi apologi[sz]e",
    r"\bi(?:'ve| have)? made (?:a|an|one|some) (?:\w+ )?(?:mistake|error|typo)",
    r"\b(?:second|third|another|next) (?:attempt|try|take)\b|^\W*v[2-9]\W*$",
    r"^\W*(?:take|attempt|round) (?:2|3|two|three)\b",
    r"\b(?:let's|let me|i'll) try (?:(?:that|this|it) )?again\b|^\W*(?:trying|try) again\b|^\W*redo(?:ing)?\b",
    r"^\W*(?:that|this|it) (?:was|is) the wrong\b",
    r"^\W*(?:nope\W+|no\W+)?wrong (?:file|place|one|spot|patch|diff|function)\b",
    r"\bthe (?:real|actual|correct|right|proper) (?:fix|change|solution|edit|one)(?: is\b|\W*$)",
    r"\bagain,? (?:corrected|fixed|correctly|properly)\b|\bi(?:'d| would) rather (?:do|use|write|have)\b",
    r"^\W*not (?:that|this)(?: one)?\b|^\W*instead\W*$",
    rf"\b{_ABOVE} (?:(?:would|will|could|might) )?(?:breaks? the (?:tests|build)|miss(?:es)? (?:a|an|the)|fails?)\b",
    rf"\b{_ABOVE} has (?:a|an) (?:bug|error|mistake|typo|problem)",
    rf"\b{_ABOVE} (?:does not|doesn't|will not|won't|wouldn't) (?:work|compile|apply|build|parse|help)",
)
_WEAK = _any(
    r"^[\W_]*(?:(?:oh|ah|ok|okay|but|so|um|uh|hm+|and|no|nope)\b[\W_]*)*(?:"
    r"(?:wait|hold on|actually|oops|whoops|sorry|hm+)(?=\s*[,.!;:…—–*_-]|\s+(?:i|that|this|we|no)\b|\s*$)"
    rf"|no,|on second thou?ghts?\b|that{_IS} {_BAD}(?! (?:as|because|since|when|if|for|in|to)\b)"
    r"|that (?:isn't|is not|wasn't|was not) (?:quite |fully )?(?:right|correct)|that would (?:break|fail|crash|miss)\b"
    r"|that (?:won't|will not|would not|wouldn't|doesn't|does not|can't) (?:work|compile|apply|build|parse)(?=\W*$))",
    r"[—–-]\s*(?:wait|no|actually|oops),",
)
_VERSION = _any(
    r"\b(?:correct(?:ed)?|fixed|revised|amended|final|updated|improved|better|cleaner|simpler|right|proper|new) "
    r"(?:version|hunk|attempt|one|try|take|patch|diff|(?<!final )edit|(?<!final )change|code|answer)\b"
    r"(?=\s*(?:[:.,;!)*_`—–]|$|below\b|of (?:the|that|this|my) (?:patch|diff|above|hunk|edit|change)"
    r"|for (?:the|that|this) (?:\w+ )?(?:hunk|part)))",
    r"^[\W_]*(?:correct(?:ed)?|fixed|revised|amended|final|improved|better)[\W_]*$",
)
_MORE = _any(
    r"\b(?:also|too|as well|additionally|in addition|furthermore|besides|plus|one more|more (?:places?|changes?)"
    r"|forgot(?:ten)?(?! that)|missed|left out|omitted|another (?:place|file|call|change|hunk|function|one)"
    r"|second (?:place|call|file|function|part|half))\b"
)
_AND = _any(r"^\W*(?:and|then|next|now|finally|second(?:ly)?)\b")
_KEPT = _any(
    rf"\b(?:in addition to|on top of|along with|together with|besides|next to|keep(?:ing)?|apply after) {_ABOVE}",
    rf"\b{_ABOVE} (?:still |also )*(?:stands?|stays?|applies|remains?)\b",
    rf"\b{_ABOVE} is (?:still |also )*(?:needed|valid|right|correct|fine|good)\b",
    r"\b(?:apply|keep|take|need|use) (?:both|all of them|all (?:three|the patches))\b",
    rf"\bboth (?:{_PATCH} )?(?:are needed|apply|are to be applied|belong|count|must be applied|go together)",
)
_DENIED = _any(
    r"(?:\bnot|n't|n’t|\bnever|\bwithout|\bno need to|\bnor|\brather than|\binstead of)\W+(?:\w+\W+){0,2}$"
)
_CITED = _any(r"\"[^\"]{1,200}\"|“[^”]{1,200}”|`[^`]{1,200}`")
_IF = r"(?:if|unless|whether|in case|otherwise)\b"
_SUPPOSED = _any(rf"\b{_IF}")
_THEN_SUPPOSED = _any(rf"\s*{_IF}")
_TELLING = _any(  # quick: in each sentence that one of the patterns above is found in
    r"scratch|strike|mind|take|took|withdr|retract|start|ignor|disregard|forget|discard|dismiss|skip|drop|throw"
    r"|abandon|appl|use|instead|lieu|place of|rather|replac|supersed|overrid|correct|obsolet|cancel|revert|undo"
    r"|wrong|mistake|broken|invalid|flaw|bug|bogus|not|void|outdated|off|premature|moot|unnecess|superfluous|longer"
    r"|right|fix|revis|amend|final|real|proper|let|tr[iy]|attempt|v\d|round|redo|apolog|bad|miss|fail|break"
    r"|error|typo|problem|n't|n’t|actual|again"
)
_THOUGHT = _any(r"</(?:think(?:ing)?|thoughts?|reasoning|scratchpad|analysis|reflection)>")
_EVERYTHING = _any(
    r"\b(?:everything|all|both|any(?:thing)?|patches|diffs|edits|changes|versions|attempts|over|afresh)\b"
)
_FIRST = r"(?:first|earlier|previous|initial|original|former|prior|old)"
_LAST = r"(?:second|third|last|final|latter|latest|bottom|corrected)"
_LAST_COUNTS = _any(
    rf"\b(?:only|just|use|apply|take|prefer) (?:only |just )?the {_LAST} (?:{_PATCH}|one)",
    rf"\b(?:{_DROP}|skip|drop|(?:do not|don't) (?:apply|use)) (?:{_THE} )*{_FIRST}\b(?: {_PATCH}| ones?|\W*$|[,.;])",
    rf"\b{_LAST}(?: {_PATCH}| one)? (?:replaces|supersedes|overrides|corrects)\b",
    rf"\b{_FIRST}(?: {_PATCH}| one)?{_IS} (?:{_BAD}|{_GONE})",
)
_TRAILING = _any(
    rf"^[\W_]*(?:\w+,? ){{0,4}}(?:scratch that\b|strike that\b|i take that back|never ?mind (?:that\b|{_ABOVE})"
    rf"|{_DROP} {_ABOVE}|(?:do not|don't) apply {_ABOVE})"
)
_ALTERNATIVE = re.compile(
    r"\b(?:alternativ(?:e|ely)|(?:option|variant|approach|choice|version|solution) (?:[A-E]\b|[1-9]\b|one\b|two\b"
    r"|three\b)|another (?:way|option|approach|possibility)|(?:you|one|we) could also|or, if you (?:prefer|like|want)"
    r"|or else|or(?: simply| just)?:|either\b)",
    re.IGNORECASE,
)
_COMPLETES = re.compile(
    r"\b(?:(?:the )?(?:rest|others?|other (?:hunks|parts|changes)|everything else|remaining (?:hunks|parts|changes))"
    r" (?:stays?|remains?|is|are|still|as before)|keep the (?:rest|others?)|leave the (?:rest|others?))",
    re.IGNORECASE,
)


def words(prose: str) -> Revision:
    """What the text between two patches says about the first. Text that also keeps it makes a withdrawal unclear."""
    weights = [_weighed(sentence) for sentence in _sentences(prose)]
    said = max(weights, default=Revision.NEUTRAL)
    if said is Revision.NEW and Revision.CORRECTS in weights:
        said = Revision.WITHDRAWS
    if said > Revision.CORRECTS and (completes(prose) or _KEPT.search(_read(prose))):
        return Revision.CORRECTS
    return said


def _weighed(sentence: str) -> Revision:
    sentence = _CITED.sub('""', sentence)
    if _THOUGHT.search(sentence):
        return Revision.WITHDRAWS
    telling = _TELLING.search(sentence) is not None
    found = _withdrawals(sentence) if telling else []
    if found:
        only_new = all(re.match(_NEW, text, re.IGNORECASE) for text in found) and not _WEAK.search(sentence)
        return Revision.NEW if only_new else Revision.WITHDRAWS
    if telling and any(not _denied(match) for match in _CORRECTS.finditer(sentence)):
        return Revision.CORRECTS
    if _WEAK.search(sentence) and not _MORE.search(sentence):
        return Revision.CORRECTS
    return Revision.VERSION if _VERSION.search(sentence) else Revision.NEUTRAL


def _withdrawals(sentence: str) -> list[str]:
    """The words in a sentence that take something back, without a "not" or an "if"; none in a question."""
    if sentence.rstrip("*_ ").endswith("?"):
        return []
    found = (match for match in _WITHDRAWS.finditer(sentence) if not _denied(match))
    return [match[0] for match in found if not _THEN_SUPPOSED.match(sentence, match.end())]


def _denied(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 80) : match.start()]
    return _DENIED.search(before) is not None or _SUPPOSED.search(before) is not None


def adds(prose: str) -> bool:
    """Whether the text adds a patch to those above: "and", "then", "also"."""
    return any(_MORE.search(one) or _AND.search(one) for one in _sentences(prose))


def everything(prose: str) -> bool:
    """Whether a withdrawal is about all patches above, not just the last."""
    return any(
        _THOUGHT.search(one) or any(map(_EVERYTHING.search, _withdrawals(one))) for one in _sentences(prose)
    )


def withdrawing(prose: str) -> str:
    """The sentences of `prose` that withdraw something."""
    return " ".join(one for one in _sentences(prose) if _weighed(one))


def last_counts(prose: str) -> bool:
    """Whether the text after the last patch makes it the only one: "ignore the first diff"."""
    return any(_LAST_COUNTS.search(one) for one in _sentences(prose) if not _SUPPOSED.search(one))


def takes_back_last(prose: str) -> bool:
    """Whether the text after the last patch withdraws it: "scratch that", "ignore the patch above"."""
    found = (one for one in _sentences(prose) if _TRAILING.search(one))
    return any(not (_SUPPOSED.search(one) or _LAST_COUNTS.search(one)) for one in found)


def _read(prose: str) -> str:
    return prose if len(prose) <= 2 * _LONGEST else f"{prose[:_LONGEST]}\n\n{prose[-_LONGEST:]}"


def _sentences(prose: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_read(prose)):
        if sentence and not sentence.isspace():
            yield " ".join(sentence.split()).replace("**", "")


def completes(prose: str) -> bool:
    """Whether the text keeps those parts of an earlier patch that the later one does not mention."""
    return _COMPLETES.search(prose[-_PROSE_REACH:]) is not None


def revises(prose: str) -> bool:
    """Whether the text between two patches withdraws or corrects the first: "wait", "corrected", "use this instead"."""
    return words(prose) > Revision.NEUTRAL


def alternative(prose: str) -> bool:
    """Whether the text offers a patch as one of several: "alternatively", "option B"."""
    if _ALTERNATIVE.search(prose[-_PROSE_REACH:]):
        return True
    return any(_SUPPOSED.search(one) and re.search(_USE, one, re.IGNORECASE) for one in _sentences(prose))


_REACH = 4000  # characters below a diff that are looked at
_TEXT = re.compile(r"(?![ \t]*(?:`{3,}|~{3,})[ \t]*\r?$)[^\s+-]")
_NEXT = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*[^`~\s]|diff -|--- |@@|<<<<|\*\*\* ")
_LOST = re.compile(
    r"^[ \t>|:│→\d]{0,40}@@(?: -\d{1,9}(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@|[ \t]*\r?$)"
    r"|^-[^-\s][^\n]*\n(?:[^\n]*\n){0,40}?\+[^+\s]",
    re.MULTILINE,
)


def parse(
    answer: str, *, loose: bool = False, known: Collection[str] = (), ended: bool = False
) -> list[FilePatch]:
    """All patches of an answer, in order.

    Raises PatchError for a patch that is broken beyond reading. A fence without a file name is a whole file only if it
    is the single block of the answer, or if `loose` (see `patch_spans`); its names are None then. `known` are names of
    files: one is read as a name whatever it looks like. `ended`: the answer is complete, so hunks without counts in an
    unclosed fence are complete.
    """
    found = blocks(answer, loose=loose, known=known)
    if too_large(answer, found):
        raise PatchError("too-large", "the answer is too large. Send the change in parts.")
    found = [part for block in found for part in _parted(block)]
    patches: list[FilePatch] = []
    name: str | None = None
    end = 0
    since: list[str] = []  # what was said after the last block with a patch
    for number, block in enumerate(found):
        prose = answer[end : block.span.start]
        end = block.span.end
        kind = block.span.kind
        if kind == SEARCH_REPLACE:
            some = parse_search_replace(block, name, known)
            name = some[-1].new if some else name
        elif kind == DIFF:
            some = _named(parse_diff(block.lines), block, ended=ended)
            some = _inherited(some, block, patches, found[number - 1] if number else None)
            if not some:
                _check_prose("\n".join(block.lines), patches)  # an `@@` line, and nothing of a hunk after it
        elif kind == ENVELOPE:
            some = _complete(parse_envelope(block.lines, closed=block.closed), block, ended=ended)
        elif kind == SHELL:
            some = parse_heredocs(block.lines, known)
        elif kind == CODE and len(found) > 1 and not loose:
            some = []
        else:
            nameless = replace(block, name=None) if kind == CODE else block
            some = [parse_whole(_with_name(nameless) if loose else nameless)]
        if kind == DIFF and (number + 1 == len(found) or found[number + 1].span != block.span):
            _check_torn(block, some, answer[end : end + _REACH].split("\n"))
        since += [prose, block.words]
        if some:
            patches += _marked(some, block, number, prose, "\n\n".join(since))
            since = []
        _check_prose(prose, patches)
    _check_prose(answer[end:], patches)
    return _with_last_words(patches, "\n\n".join([*since, answer[end:]]))


def _with_last_words(patches: list[FilePatch], prose: str) -> list[FilePatch]:
    """The patches, with what the words after the last of them say of it. Raises PatchError where they take it back."""
    if not patches:
        return patches
    if takes_back_last(prose):
        text = "the text after the last patch withdraws it. Send only the final patch."
        raise PatchError("ambiguous", text)
    if patches[-1].block == patches[0].block or not last_counts(prose):
        return patches
    last = patches[-1].block
    return [
        replace(patch, words=Revision.WITHDRAWS, prose=prose) if patch.block == last else patch
        for patch in patches
    ]


def _parted(block: Block) -> list[Block]:
    """A fence of diffs or SEARCH/REPLACE blocks, cut where a line in it withdraws what stands above."""
    if not block.fenced or block.span.kind not in {DIFF, SEARCH_REPLACE}:
        return [block]
    starts = _starts_patch if block.span.kind == DIFF else _starts_search
    parts: list[Block] = []
    lines = block.lines
    first, said = 0, ""
    at = next((row for row in range(len(lines)) if starts(lines, row)), len(lines))
    if at < len(lines):
        said = "\n".join(lines[:at])
    for row in range(at + 1, len(lines)):
        if not starts(lines, row):
            continue
        above = row
        while above > max(first, row - _MOST_WORDS) and lines[above - 1][:1] not in _SIGNS:
            above -= 1
        spoken = "\n".join(lines[above:row])
        if spoken.strip() and words(spoken):
            parts.append(replace(block, lines=lines[first:above], words=said, closed=True))
            first, said = row, spoken
    return [*parts, replace(block, lines=lines[first:], words=said)]


_SIGNS = frozenset({" ", "+", "-", "@", "\\", ">", "<", "="})
_MOST_WORDS = 12  # lines


def _starts_patch(lines: Sequence[str], at: int) -> bool:
    return lines[at][:1] in {"@", "-", "d", "I"} and starts_diff(lines, at)


def _starts_search(lines: Sequence[str], at: int) -> bool:
    return SEARCH.match(lines[at]) is not None


def _check_prose(prose: str, patches: Sequence[FilePatch]) -> None:
    """Raises PatchError when a hunk is in what was taken for prose: a part of the change would be lost in silence."""
    lost = _LOST.search(prose)
    if lost is not None and any(patch.form == "diff" for patch in patches):
        line = lost[0].strip().splitlines()[0][:80]
        text = f"the hunk at `{line}` is outside of any diff. Send the whole change as one diff."
        raise PatchError("malformed", text)


def _check_torn(block: Block, some: Sequence[FilePatch], below: Sequence[str]) -> None:
    """Raises PatchError where the lines `below` a diff tell that the fence which ends it is a line of its last hunk."""
    if not block.closed or not some or not some[-1].hunks or some[-1].hunks[-1].exact_counts:
        return
    if not block.fenced:
        if not is_bare_fence(below[0]):
            return
        below = below[1:]
    end = next((row for row, line in enumerate(below) if _NEXT.match(line)), len(below))
    more = end < len(below) and below[end].startswith(("@@", "--- ", "diff "))
    below = below[:end]
    sure = [row for row, line in enumerate(below) if line[:1] in {"+", "-"} and not is_bullet(line)]
    last_fence = max((row for row, line in enumerate(below) if is_bare_fence(line)), default=-1)
    first_text = next((row for row, line in enumerate(below) if _TEXT.match(line)), end)
    if below[:1] and below[0].rstrip("\r"):
        torn = (
            any(row < first_text or row < last_fence for row in sure)
            or 0 < last_fence < first_text
            or (more and first_text == end)
        )
    else:
        torn = some[-1].hunks[-1].short and any(row < first_text for row in sure)
    if torn:
        text = (
            "a line of backticks or tildes ends the fence in the middle of a hunk. Put a space before each "
            "unchanged line, or open the fence with four backticks."
        )
        raise PatchError("malformed", text)


def _marked(some: Sequence[FilePatch], block: Block, number: int, prose: str, since: str) -> list[FilePatch]:
    """The patches of a block with its number, what its wrapping needed, and what was said right before it and
    `since` the patch above. The message of a mail or a commit takes nothing back."""
    said = words(since) if number > 0 and not any(map(is_mail, since.split("\n"))) else Revision.NEUTRAL
    return [
        replace(
            patch,
            block=number,
            unclosed=block.fenced and not block.closed,
            words=said,
            prose=since if number > 0 else "",
            completes=number > 0 and completes(since),
            alternative=alternative(prose),
            tolerances=patch.tolerances | block.tolerances,
        )
        for patch in some
    ]


def _with_name(block: Block) -> Block:
    """A fence whose info string may be a file without an extension: `bin/wait-for`, or the only word next to a
    language."""
    words = [word.strip("\"'`") for word in block.info.split()]
    name = next((word for word in words if "/" in word), words[1] if len(words) == 2 else None)
    return block if block.name else replace(block, name=name)


def _complete(patches: list[FilePatch], block: Block, *, ended: bool) -> list[FilePatch]:
    """The patches of a block, of which the last is not taken for cut where only the closing fence is missing: the
    answer `ended`, its last hunk has no counts, and the end of the block is nothing but lines of that hunk."""
    hunk = patches[-1].hunks[-1] if patches and patches[-1].hunks else None
    if hunk is None or hunk.counts is not None or not hunk.changes or not (ended and block.fenced):
        return patches
    last = next((line for line in reversed(block.lines) if line.strip()), "")
    bare = any(line.bare and line.text.strip() for line in hunk.lines)
    if bare or not last.startswith((" ", "+", "-")):
        return patches
    lines = hunk.lines
    while lines[-1].bare:  # what follows its last line, not a line of it
        lines = lines[:-1]
    hunks = (*patches[-1].hunks[:-1], replace(hunk, lines=lines))
    return [*patches[:-1], replace(patches[-1], hunks=hunks, cut=False)]


def _named(patches: Sequence[FilePatch], block: Block, *, ended: bool = False) -> list[FilePatch]:
    """A diff without headers takes the name next to its fence; an open fence, or an open end, may be a cut."""
    named = [
        replace(patch, new=block.name) if patch.old is None and patch.new is None else patch
        for patch in patches
    ]
    if named and named[-1].hunks and not block.closed:
        last = named[-1].hunks[-1]
        complete = last.whole if block.fenced else not (last.short and block.lines[-1].strip())
        named[-1] = replace(named[-1], cut=not complete)
    if named and not block.closed and not named[-1].hunks and named[-1].action == "create":
        named[-1] = replace(named[-1], cut=True)
    return _complete(named, block, ended=ended)


def _inherited(
    some: Sequence[FilePatch], block: Block, earlier: Sequence[FilePatch], before: Block | None
) -> list[FilePatch]:
    """A bare `@@` after prose goes on with the file of the diff before it in the same fence, or of the bare diff
    before it: no header stands between."""
    if not some or before is None or before.span.kind != DIFF or not earlier:
        return list(some)
    if before.span != block.span and (block.fenced or before.fenced):
        return list(some)
    first, last = some[0], earlier[-1]
    if first.old is not None or first.new is not None or last.action != "edit":
        return list(some)
    return [replace(first, old=last.old, new=last.new), *some[1:]]


def decided(patch: FilePatch, data: bytes) -> FilePatch:
    """`patch` with one interpretation of each hunk, decided by the file `data`, and with envelope hunks that are
    only a heading placed under it. Raises PatchError if two interpretations fit, or none of several, and for a
    hunk without effect that was meant to have one."""
    if all(hunk.changes and not hunk.otherwise and not _has_only_heading(hunk) for hunk in patch.hunks):
        return patch
    text = decode(data)
    if text is None:
        return patch
    index = index_of(text.lines)
    hunks = []
    for hunk in patch.hunks:
        if patch.form == "envelope" and _has_only_heading(hunk):
            hunk = _under_heading(hunk, index)
        hunk = _reading(hunk, index, patch.form)
        _check_changes(hunk, index)
        hunks.append(hunk)
    return replace(patch, hunks=tuple(hunks))


def _check_changes(hunk: Hunk, index: FileIndex) -> None:
    """A hunk without changes says nothing if its lines are in the file, and was misread if they are not."""
    if hunk.changes or "marked-context" in hunk.tolerances:
        return
    declared = hunk.counts is not None and hunk.counts[0] != hunk.counts[1]
    if declared or not index.find([line.text for line in hunk.old if not is_blank(line.text)], WHITESPACE):
        shown = [line.text for line in hunk.old if not is_blank(line.text)]
        missing = [text for text in shown if not index.find([text], WHITESPACE)]
        if declared or missing:
            raise PatchError(
                "malformed",
                "no line of this hunk begins with `+` or `-`. Send it with a space, `-` or `+` as the first "
                "character of each line.",
                hunk.number,
            )


def _reading(hunk: Hunk, index: FileIndex, form: str) -> Hunk:
    if not hunk.otherwise:
        return hunk
    first = replace(hunk, otherwise=())
    others = (replace(other, number=hunk.number) for other in hunk.otherwise)
    options = list(dict.fromkeys([first, *others]))
    for level in (EXACT, TRAILING_SPACE, WHITESPACE):
        found = [option for option in options if index.find([line.text for line in option.old], level)]
        if len(found) == 1:
            return found[0]
        if found and form != "search-replace":
            return found[0]
        if found:
            break
    if form != "search-replace":
        return _mostly_there(options, index)
    raise PatchError(
        "malformed",
        "the text of this SEARCH/REPLACE block contains a divider line, so it is unclear where SEARCH ends. "
        "Send the change as a unified diff.",
        hunk.number,
    )


def _mostly_there(options: Sequence[Hunk], index: FileIndex) -> Hunk:
    """Of readings that all fit nowhere as a whole the one that has most lines, and every deleted one, in the file; the
    first where that has any of its own there, or two have as many."""
    there = index.places(EXACT)

    def score(option: Hunk) -> int:
        if any(line.text not in there for line in option.deleted if not is_blank(line.text)):
            return 0
        return sum(line.text in there for line in option.old if not is_blank(line.text))

    scores = [score(option) for option in options]
    own = any(line.text in there for line in options[0].old if not is_blank(line.text))
    best = max(scores)
    return options[0] if own or not best or scores.count(best) > 1 else options[scores.index(best)]


def _has_only_heading(hunk: Hunk) -> bool:
    return bool(hunk.headings) and bool(hunk.lines) and all(line.kind == ADD for line in hunk.lines)


def _under_heading(hunk: Hunk, index: FileIndex) -> Hunk:
    """An addition without any context, right under the line that its heading quotes, if that is one line and
    nothing tells that the addition belongs further down."""
    if not _has_only_heading(hunk):
        return hunk
    rows = _headed(hunk.headings, index)
    if len(rows) != 1:
        return hunk
    row = rows[0]
    below = next((line for line in index.lines[row + 1 :] if not is_blank(line)), "")
    added = next((line.text for line in hunk.lines if not is_blank(line.text)), "")
    if below.lstrip().startswith(('"""', "'''", 'r"""')) or indent_of(below) != indent_of(added):
        return hunk
    return replace(hunk, lines=(Line(CONTEXT, index.lines[row]), *hunk.lines))


def _headed(headings: tuple[str, ...], index: FileIndex) -> list[int]:
    """The rows of the last heading, each below a row of the heading before it."""
    rows: list[int] = []
    for depth, heading in enumerate(headings):
        at = [row for row, line in enumerate(index.lines) if line.strip() == heading.strip()]
        rows = [row for row in at if row > rows[0]] if depth and rows else at
        if not rows or (depth < len(headings) - 1 and len(rows) > 1):
            return []
    return rows
