"""Answers that must be refused: to apply them in any way would be a guess, or would reach what is not to be touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from bench.patch.draft import Draft, draft
from bench.patch.history import Repository
from bench.patch.model import Case

Making = Callable[[Repository, Random, str], Case | None]
Doing = Callable[[Draft], "Case | str | None"]
REFUSALS: dict[str, Making] = {}


def refusal(name: str, files: int = 1) -> Callable[[Doing], Doing]:
    """Add a kind. The function is given a draft with hunks and returns the answer, or the whole case, or None where
    this seed can't be used."""

    def add(do: Doing) -> Doing:
        def make(repository: Repository, rng: Random, case_name: str) -> Case | None:
            seed = repository.seed(rng, files)
            if seed is None:
                return None
            made = draft(seed, rng)
            made.build()
            result = do(made)
            case = refused(made, name, result) if isinstance(result, str) else result
            return case and replace(case, name=case_name, slips=(name,))

        assert name not in REFUSALS
        REFUSALS[name] = make
        return do

    return add


def answered(made: Draft) -> str:
    """The draft's diffs as an answer."""
    made.blocks = []
    made.render()
    return made.text()


def refused(made: Draft, name: str, answer: str) -> Case:
    """A case of which nothing may be applied."""
    files = made.files()
    seed = made.seed
    return Case(
        name,
        files,
        frozenset(files),
        None,
        answer,
        None,
        (name,),
        seed.repository,
        seed.commit,
        seed.language,
    )
