"""How well the applier does on answers as models write them.

`python -m bench.patch` makes a corpus from real commits of real repositories, with a seed: each case is some files, an
answer that changes them with one or more of the slips that models make, and the bytes that are right, or that the
answer must be refused. The applier, `git apply` (as it is, and at its most lenient) and GNU patch are given the same
answers. Nothing here shares code with `repoagent.patch`: it is only called.
"""
