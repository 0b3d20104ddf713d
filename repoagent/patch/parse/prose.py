"""What the words around a patch say of those before it: taken back, corrected, kept, or one of several choices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from repoagent.patch.hunk import Words

_REACH = 1500  # characters of prose that are searched for choices
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


def words(prose: str) -> Words:
    """What the words between two patches say of the first. Words that keep it as well make a withdrawal unclear."""
    weights = [_weighed(sentence) for sentence in _sentences(prose)]
    said = max(weights, default=Words.NEUTRAL)
    if said is Words.NEW and Words.CORRECTS in weights:
        said = Words.WITHDRAWS
    if said > Words.CORRECTS and (completes(prose) or _KEPT.search(_read(prose))):
        return Words.CORRECTS
    return said


def _weighed(sentence: str) -> Words:
    sentence = _CITED.sub('""', sentence)
    if _THOUGHT.search(sentence):
        return Words.WITHDRAWS
    telling = _TELLING.search(sentence) is not None
    found = _withdrawals(sentence) if telling else []
    if found:
        only_new = all(re.match(_NEW, text, re.IGNORECASE) for text in found) and not _WEAK.search(sentence)
        return Words.NEW if only_new else Words.WITHDRAWS
    if telling and any(not _denied(match) for match in _CORRECTS.finditer(sentence)):
        return Words.CORRECTS
    if _WEAK.search(sentence) and not _MORE.search(sentence):
        return Words.CORRECTS
    return Words.VERSION if _VERSION.search(sentence) else Words.NEUTRAL


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
    """Do the words say that a patch comes on top of those above: "and", "then", "also"?"""
    return any(_MORE.search(one) or _AND.search(one) for one in _sentences(prose))


def everything(prose: str) -> bool:
    """Do words that withdraw speak of all patches above them, not of the last?"""
    return any(
        _THOUGHT.search(one) or any(map(_EVERYTHING.search, _withdrawals(one))) for one in _sentences(prose)
    )


def withdrawing(prose: str) -> str:
    """The sentences of `prose` that take something back."""
    return " ".join(one for one in _sentences(prose) if _weighed(one))


def last_counts(prose: str) -> bool:
    """Do the words after the last patch say that it alone counts: "ignore the first diff"?"""
    return any(_LAST_COUNTS.search(one) for one in _sentences(prose) if not _SUPPOSED.search(one))


def takes_back_last(prose: str) -> bool:
    """Do the words after the last patch take that one back: "scratch that", "ignore the patch above"?"""
    found = (one for one in _sentences(prose) if _TRAILING.search(one))
    return any(not (_SUPPOSED.search(one) or _LAST_COUNTS.search(one)) for one in found)


def _read(prose: str) -> str:
    return prose if len(prose) <= 2 * _LONGEST else f"{prose[:_LONGEST]}\n\n{prose[-_LONGEST:]}"


def _sentences(prose: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_read(prose)):
        if sentence and not sentence.isspace():
            yield " ".join(sentence.split()).replace("**", "")


def completes(prose: str) -> bool:
    """Do the words say that what a later patch does not speak of stays as in the earlier one?"""
    return _COMPLETES.search(prose[-_REACH:]) is not None


def revises(prose: str) -> bool:
    """Do the words between two patches take back or correct the first: "wait", "corrected", "use this instead"?"""
    return words(prose) > Words.NEUTRAL


def alternative(prose: str) -> bool:
    """Do the words before a patch offer it as one of several: "alternatively", "option B"?"""
    if _ALTERNATIVE.search(prose[-_REACH:]):
        return True
    return any(_SUPPOSED.search(one) and re.search(_USE, one, re.IGNORECASE) for one in _sentences(prose))
