"""What the words before a patch say of the patch before it: taken back, or one of several choices."""

from __future__ import annotations

import re

_REACH = 1500  # characters of prose that are looked at
_REVISES = re.compile(
    r"\b(?:wait\b|hold on|scratch that|on second thou?ght|let me (?:reconsider|revise"
    r"|correct|redo|fix (?:that|the (?:above|diff|patch|previous|earlier|first))|rewrite"
    r"|try again|re-?think|rephrase)|correct(?:ed|ion)\b|instead\b|final (?:version|patch|diff|answer|edit|change)"
    r"|(?:updated|revised|fixed|better|cleaner|improved|simpler) (?:version|patch|diff|edit|change|hunk)"
    r"|actually\b|my mistake|i made (?:a|an) (?:mistake|error)|sorry\b|oops\b|no, |that(?:'s| is| was) (?:wrong"
    r"|not right|incorrect)|disregard|ignore (?:the|that|my|what)|replaces? the (?:above|previous|first|earlier)"
    r"|supersedes?|here(?:'s| is) the (?:right|correct|complete|full) )",
    re.IGNORECASE,
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


def completes(prose: str) -> bool:
    """Do the words say that what a later patch does not speak of stays as in the earlier one?"""
    return _COMPLETES.search(prose[-_REACH:]) is not None


def revises(prose: str) -> bool:
    """Do the words between two patches take back the first: "wait", "actually", "corrected", "instead"?"""
    return _REVISES.search(prose[-_REACH:]) is not None


def alternative(prose: str) -> bool:
    """Do the words before a patch offer it as one of several: "alternatively", "option B"?"""
    return _ALTERNATIVE.search(prose[-_REACH:]) is not None
