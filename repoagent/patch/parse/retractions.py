"""Find out whether the prose around patches withdraws or corrects earlier patches, or offers a choice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from repoagent.patch.locate.exact import without_spaces
from repoagent.patch.model import FilePatch, Revision
from repoagent.patch.paths import known_path, path_spellings
from repoagent.patch.refusal import PatchRefused, Problem

_CHOICE_REACH = 1500  # characters of prose to search for choices
_LONGEST = 4000  # characters of prose to read at each end
_SENTENCE = re.compile(r"(?<=[.!?:;…])[*_`\"')]*\s+|\n\s*\n|\n(?=\s*(?:[#>*•-]|\d+[.)])\s)")


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: together these take 50 ms, which would delay each request."""
    return re.compile(pattern, re.IGNORECASE)


def _has(pattern: str, text: str) -> bool:
    return _regex(pattern).search(text) is not None


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_PATCH = (
    r"(?:patch(?:es)?|diffs?|versions?|edits?|changes?|attempts?|answers?|suggestions?|drafts?|blocks?|snippets?"
    r"|solutions?|try|proposals?)"
)
_EARLIER = r"(?:above|previous|prior|earlier|first|initial|original|preceding|former|last|old)"
_THE = r"(?:the|my|that|this|those|these|all|both|any)"
_NOT_OF = r"\b(?! (?:in|of|to|for)\b)"
_BY_ME = r"(?: (?:that |which )?i (?:gave|sent|wrote|posted|proposed|suggested|showed|made))?"
_ABOVE = (
    rf"(?:(?:{_THE} )+(?:{_EARLIER} )*(?:patch(?:es)?|diffs?){_BY_ME}(?: (?:above|before|so far|earlier))?{_NOT_OF}"
    rf"|(?:{_THE} )+{_EARLIER} (?:{_PATCH}|ones?){_NOT_OF}"
    rf"|{_EARLIER} (?:patch(?:es)?|diffs?){_NOT_OF}"
    rf"|(?:{_THE} )*(?:{_PATCH}|ones?){_BY_ME} (?:above|before|so far|[1A]\b)"
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
_OBSOLETE = (
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
    rf"\b{_ABOVE}(?: \w+)?{_IS} (?:{_BAD}|{_OBSOLETE})",
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
_INTERJECTION = _any(
    r"^[\W_]*(?:(?:oh|ah|ok|okay|but|so|um|uh|hm+|and|no|nope)\b[\W_]*)*(?:"
    r"(?:wait|hold on|actually|oops|whoops|sorry|hm+)(?=\s*[,.!;:…—–*_-]|\s+(?:i|that|this|we|no)\b|\s*$)"
    rf"|no,|on second thou?ghts?\b|that{_IS} {_BAD}(?! (?:as|because|since|when|if|for|in|to)\b)"
    r"|that (?:isn't|is not|wasn't|was not) (?:quite |fully )?(?:right|correct)|that would (?:break|fail|crash|miss)\b"
    r"|that (?:won't|will not|would not|wouldn't|doesn't|does not|can't) (?:work|compile|apply|build|parse)(?=\W*$))",
    r"[—–-]\s*(?:wait|no|actually|oops),",
)
_NEW_VERSION = _any(
    r"\b(?:correct(?:ed)?|fixed|revised|amended|final|updated|improved|better|cleaner|simpler|right|proper|new) "
    r"(?:version|hunk|attempt|one|try|take|patch|diff|(?<!final )edit|(?<!final )change|answer)\b"
    r"(?=\s*(?:[:.,;!)*_`—–]|$|below\b|of (?:the|that|this|my) (?:patch|diff|above|hunk|edit|change)"
    r"|for (?:the|that|this) (?:\w+ )?(?:hunk|part)))",
    r"^[\W_]*(?:correct(?:ed)?|fixed|revised|amended|final|improved|better)[\W_]*$",
)
_ADDS = _any(
    r"\b(?:also|too|as well|additionally|in addition|furthermore|besides|plus|one more|more (?:places?|changes?)"
    r"|forgot(?:ten)?(?! that)|missed|left out|omitted|another (?:place|file|call|change|hunk|function|one)"
    r"|second (?:place|call|file|function|part|half))\b"
)
_AND = r"^\W*(?:and|then|next|now|finally|second(?:ly)?)\b"
_KEEPS_EARLIER = _any(
    rf"\b(?:in addition to|on top of|along with|together with|besides|next to|keep(?:ing)?|apply after) {_ABOVE}",
    rf"\b{_ABOVE} (?:still |also )*(?:stands?|stays?|applies|remains?)\b",
    rf"\b{_ABOVE} is (?:still |also )*(?:needed|valid|right|correct|fine|good)\b",
    r"\b(?:apply|keep|take|need|use) (?:both|all of them|all (?:three|the patches))\b",
    rf"\bboth (?:{_PATCH} )?(?:are needed|apply|are to be applied|belong|count|must be applied|go together)",
)
_NEGATED = (
    r"(?:\bnot|n't|n’t|\bnever|\bwithout|\bno need to|\bnor|\brather than|\binstead of)\W+(?:\w+\W+){0,2}$"
)
_QUOTED = r"\"[^\"]{1,200}\"|“[^”]{1,200}”|`[^`]{1,200}`"
_IF = r"(?:if|unless|whether|in case|otherwise)\b"
_CONDITIONAL = rf"\b{_IF}"
_THEN_IF = rf"\s*{_IF}"
_END_OF_THOUGHTS = r"</(?:think(?:ing)?|thoughts?|reasoning|scratchpad|analysis|reflection)>"
_ALL = r"\b(?:everything|all|both|any(?:thing)?|patches|diffs|edits|changes|versions|attempts|over|afresh)\b"
_FIRST = r"(?:first|earlier|previous|initial|original|former|prior|old)"
_LAST = r"(?:second|third|last|final|latter|latest|bottom|corrected)"
_ONLY_LAST = _any(
    rf"\b(?:only|just|use|apply|take|prefer) (?:only |just )?the {_LAST} (?:{_PATCH}|one)",
    rf"\b(?:{_DROP}|skip|drop|(?:do not|don't) (?:apply|use)) (?:{_THE} )*{_FIRST}\b(?: {_PATCH}| ones?|\W*$|[,.;])",
    rf"\b{_LAST}(?: {_PATCH}| one)? (?:replaces|supersedes|overrides|corrects)\b",
    rf"\b{_FIRST}(?: {_PATCH}| one)?{_IS} (?:{_BAD}|{_OBSOLETE})",
)
_WITHDRAWS_LAST = _any(
    rf"^[\W_]*(?:\w+,? ){{0,4}}(?:scratch that\b|strike that\b|i take that back|never ?mind (?:that\b|{_ABOVE})"
    rf"|{_DROP} {_ABOVE}|(?:do not|don't) apply {_ABOVE})"
)
_LABEL = r"(?:[A-E]|[1-9]|one|two|three)\b"
_ALTERNATIVE = _any(
    rf"\b(?:alternative|(?:option|variant|approach|choice|solution) {_LABEL}"
    r"|another (?:option|approach|possibility)|(?:you|one|we) could also|or, if you (?:prefer|like|want)"
    r"|or else|or(?: simply| just)?:|either of (?:these|them|the (?:two|following|patches|diffs))\b)",
    rf"^\W*version {_LABEL}(?=\W*$|\s*\()|\b(?:either|another way)\W*$|^\W*or\b.*:\W*$",
)
_KEEPS_REST = (
    r"\b(?:(?:the )?(?:rest|others?|other (?:hunks|parts|changes)|everything else|remaining (?:hunks|parts|changes))"
    r" (?:stays?|remains?|is|are|still|as before)|keep the (?:rest|others?)|leave the (?:rest|others?))"
)


def revision_of(prose: str) -> Revision:
    """Return the effect of the text between two patches on the first one.

    The effect is CORRECTS if the text both withdraws the first patch and keeps a part of it.
    """
    revisions = [_revision_of_sentence(sentence) for sentence in _sentences(prose)]
    revision = max(revisions, default=Revision.NEUTRAL)
    if revision is Revision.NEW and Revision.CORRECTS in revisions:
        revision = Revision.WITHDRAWS
    if revision > Revision.CORRECTS and (keeps_rest(prose) or _has(_KEEPS_EARLIER, _ends_of(prose))):
        return Revision.CORRECTS
    return revision


def _revision_of_sentence(sentence: str) -> Revision:
    sentence = _regex(_QUOTED).sub('""', sentence)
    if _has(_END_OF_THOUGHTS, sentence):
        return Revision.WITHDRAWS
    if withdrawals := _withdrawals(sentence):
        only_new = all(_regex(_NEW).match(text) for text in withdrawals)
        return Revision.NEW if only_new and not _has(_INTERJECTION, sentence) else Revision.WITHDRAWS
    if any(not _is_negated(match) for match in _regex(_CORRECTS).finditer(sentence)):
        return Revision.CORRECTS
    if _has(_INTERJECTION, sentence) and not _has(_ADDS, sentence):
        return Revision.CORRECTS
    return Revision.VERSION if _has(_NEW_VERSION, sentence) else Revision.NEUTRAL


def _withdrawals(sentence: str) -> list[str]:
    """The phrases that withdraw something, without "not" or "if"; none in a question."""
    if sentence.rstrip("*_ ").endswith("?"):
        return []
    matches = (match for match in _regex(_WITHDRAWS).finditer(sentence) if not _is_negated(match))
    return [match[0] for match in matches if not _regex(_THEN_IF).match(sentence, match.end())]


def _is_negated(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 80) : match.start()]
    return _has(_NEGATED, before) or _has(_CONDITIONAL, before)


def _ends_of(prose: str) -> str:
    return prose if len(prose) <= 2 * _LONGEST else f"{prose[:_LONGEST]}\n\n{prose[-_LONGEST:]}"


def _sentences(prose: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_ends_of(prose)):
        if sentence and not sentence.isspace():
            yield " ".join(sentence.split()).replace("**", "")


def is_only_last(prose: str) -> bool:
    """Whether the text after the last patch makes it the only one: "ignore the first diff"."""
    return any(_has(_ONLY_LAST, text) and not _has(_CONDITIONAL, text) for text in _sentences(prose))


def withdraws_last(prose: str) -> bool:
    """Whether the text after the last patch withdraws that patch, as in "scratch that"."""
    return any(
        _has(_WITHDRAWS_LAST, text) and not (_has(_CONDITIONAL, text) or _has(_ONLY_LAST, text))
        for text in _sentences(prose)
    )


def withdraws_all(prose: str) -> bool:
    """Whether a withdrawal is about all earlier patches, not just the last one."""
    return any(
        _has(_END_OF_THOUGHTS, text) or any(_has(_ALL, phrase) for phrase in _withdrawals(text))
        for text in _sentences(prose)
    )


def keeps_rest(prose: str) -> bool:
    """Whether the text keeps the parts of an earlier patch that the later patch omits."""
    return _has(_KEEPS_REST, prose[-_CHOICE_REACH:])


def offers_choice(prose: str) -> bool:
    """Whether the text offers a patch as one of several choices: "alternatively", "option B"."""
    if any(_has(_ALTERNATIVE, text) for text in _sentences(prose[-_CHOICE_REACH:])):
        return True
    return any(_has(_CONDITIONAL, text) and _has(_USE, text) for text in _sentences(prose))


def without_withdrawn(patches: Sequence[FilePatch], known: Collection[str]) -> list[FilePatch]:
    """Return the patches that the prose does not withdraw. Raises PatchRefused if it is unclear which patches it
    withdraws."""
    if not any(patch.revises for patch in patches):
        return list(patches)
    rounds: list[list[FilePatch]] = []  # split before each block whose prose may withdraw earlier patches
    for _, group in groupby(patches, key=lambda patch: patch.block):
        block = list(group)
        if rounds and block[0].revision < Revision.CORRECTS:
            rounds[-1] += block
        else:
            rounds.append(block)
    remaining: list[FilePatch] = []
    for new in rounds:
        remaining = _remaining(remaining, new, known)
        if new[0].revision > Revision.CORRECTS:
            remaining += [replace(patch, revision=Revision.NEUTRAL) for patch in new]
        else:
            remaining += _with_inherited_revision(new, known)
    return remaining


def _with_inherited_revision(patches: Sequence[FilePatch], known: Collection[str]) -> list[FilePatch]:
    """If an answer starts over, the first later patch of each file corrects it, whatever the text before."""
    result: list[FilePatch] = []
    again = False
    seen: set[str] = set()
    for _, group in groupby(patches, key=lambda patch: patch.block):
        block = list(group)
        files = {_file(patch, known) for patch in block}
        if block[0].revises:
            again, seen = True, files
        elif (
            again
            and not files & seen
            and not any(_has(_ADDS, text) or _has(_AND, text) for text in _sentences(block[0].prose))
        ):
            block = [replace(patch, revision=Revision.CORRECTS) for patch in block]
        seen |= files
        result += block
    return result


def _remaining(earlier: list[FilePatch], new: Sequence[FilePatch], known: Collection[str]) -> list[FilePatch]:
    """The `earlier` patches that the prose before the `new` ones does not withdraw."""
    revision, prose = new[0].revision, new[0].prose
    if not earlier or revision < Revision.CORRECTS:
        return earlier
    files = {_file(patch, known) for patch in new}
    if revision < Revision.WITHDRAWS and files.isdisjoint(_file(patch, known) for patch in earlier):
        if revision is Revision.NEW or any(_names(prose, file) for file in files):
            return earlier  # "here is the corrected diff" of another file
        raise _unclear(new, known)
    if revision is Revision.CORRECTS:
        return earlier
    if revision is Revision.WITHDRAWS and withdraws_all(prose):
        return []
    # The patches of the files that the prose names, else of all files that are patched again.
    sentences = " ".join(text for text in _sentences(prose) if _revision_of_sentence(text))
    withdrawn = [patch for patch in earlier if _names(sentences, _file(patch, known))]
    if not withdrawn:
        last = {_file(patch, known) for patch in earlier if patch.block == earlier[-1].block}
        withdrawn = [patch for patch in earlier if _file(patch, known) in files]
        other_blocks = {patch.block for patch in earlier if patch not in withdrawn}
        if len(withdrawn) == len(earlier) or (not withdrawn and len(other_blocks) == 1):
            withdrawn = earlier
        elif not withdrawn or not last <= files or any(patch.block in other_blocks for patch in withdrawn):
            raise _unclear(new, known)
    for file in {_file(patch, known) for patch in withdrawn}:
        old_patches = [patch for patch in withdrawn if _file(patch, known) == file]
        new_patches = [patch for patch in new if _file(patch, known) == file]
        if not new_patches or len({patch.block for patch in old_patches}) < 2:
            continue
        # Several patches can be replaced only by patches with all their lines.
        shown = {
            without_spaces(line.text) for patch in new_patches for hunk in patch.hunks for line in hunk.old
        }
        quoted = (
            line.text for patch in old_patches for hunk in patch.hunks if hunk.changes for line in hunk.old
        )
        whole = any(patch.whole is not None for patch in new_patches)
        if not whole and any(without_spaces(text) not in shown for text in quoted):
            raise _unclear(new, known)
    return [patch for patch in earlier if patch not in withdrawn]


def _file(patch: FilePatch, known: Collection[str]) -> str:
    old, new = path_spellings(patch.old or patch.new, patch.new or patch.old)
    return known_path([*new, *old], known) or (new[0] if new else "")


def _names(prose: str, file: str) -> bool:
    base = file.rpartition("/")[2]
    return bool(base) and re.search(rf"(?<![\w.-]){re.escape(base)}(?![\w-]|\.\w)", prose) is not None


def _unclear(new: Sequence[FilePatch], known: Collection[str]) -> PatchRefused:
    text = (
        "the text before this patch withdraws an earlier one, but it is unclear which, or how much of it. "
        "Send one answer with the whole change and nothing else."
    )
    return PatchRefused([Problem(_file(new[0], known), 0, "ambiguous", text)])
