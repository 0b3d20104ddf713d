"""How often each kind of finding of `repoagent review` is right: `python -m bench.review --repo PATH...`

The last `--commits` commits (no merges) of each history are reviewed one after another, each knowing only what was
before it. What is finished is mostly complete, so that most findings on it are false alarms; two figures tell more:

left out    2 files of each commit with 2 to 30 are left out in turn: how many are named, and how many of all names that
            are given then are right (for partner-missing and api-changed)
right       findings on complete commits that come true, and how often that is so anyway ("usual"):
  partner-missing, api-changed   the same author changes the named file in one of their next 5 commits, within a week;
                                 usual: as often as they did in the 500 commits before
  fix-prone                      one of the next 3 commits of the file says that it fixes something; usual: the same of
                                 all changed files of the repository
  unusual-size, unusual-width    a commit of the next 10, or of the same day, that fixes something touches one of the
                                 same files; usual: the same of all reviewed commits of the repository
  generated-, vendored-edited    the file is changed again by one of the next 10 commits; usual: as often as it was in
                                 the 500 commits before. It says little: look at them with --examples

A repository is cloned to a folder of its own, which shares its objects, so that nothing is written to it.
"""

from __future__ import annotations

from pathlib import Path

from bench.options import REPOSITORIES, options
from bench.origins import name_of, shared_clone
from bench.review.replay import Figures, replay
from repoagent.review.checks.statistics import wilson_lower


def main() -> None:
    given = options(
        "bench.review", __doc__,
        repo=([Path], REPOSITORIES),
        commits=(300, "of each repository"),
        examples=(0, "findings of each rule to print"),
    )  # fmt: skip
    total: dict[str, Figures] = {}
    commits = 0
    for repository in given.repo:
        with shared_clone(repository) as top:
            found, reviewed = replay(top, given.commits)
        commits += reviewed
        print(f"{name_of(repository)}: {reviewed} commits")
        for rule, figure in found.items():
            print(_line(rule, figure, reviewed), flush=True)
            for example in figure.examples[-given.examples :] if given.examples else ():
                print(f"      {example}")
            one = total.setdefault(rule, Figures())
            one.sure += figure.sure
            for name in ("found", "right", "alarmed", "usual", "named", "others", "hidden"):
                setattr(one, name, getattr(one, name) + getattr(figure, name))
    print(f"\nall {len(given.repo)} repositories: {commits} commits")
    print(f"{'rule':24}{'findings':>9}{'commits':>9}{'right':>8}{'at least':>10}{'usual':>8}   left out")
    for rule, figure in total.items():
        print(_line(rule, figure, commits))
    print("\npartner-missing by confidence:")
    for low, high in ((0.0, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 1.01)):
        some = [each for each in total["partner-missing"].sure if low <= each[0] < high]
        if some:
            right, usual = (sum(each[place] for each in some) / len(some) for place in (1, 2))
            label = f"{low:.1f} to {min(high, 1):.1f}"
            print(f"  {label}{len(some):>6} findings{right:>8.0%} right{usual:>8.0%} usual")


def _line(rule: str, figure: Figures, commits: int) -> str:
    names = figure.named + figure.others
    left_out = ""
    if names:
        left_out = (
            f"   {figure.named / names:.0%} of {names} names right, {figure.named / figure.hidden:.0%} found"
        )
    if not figure.found:
        return f"  {rule:22}        0{'':35}{left_out}"
    right = figure.right / figure.found
    least, usual = wilson_lower(figure.right, figure.found), figure.usual / figure.found
    shares = f"{figure.alarmed / max(1, commits):>9.1%}{right:>8.0%}{least:>10.0%}{usual:>8.0%}"
    return f"  {rule:22}{figure.found:>9,}{shares}{left_out}"


if __name__ == "__main__":
    main()
