"""Measure how well repoagent applies answers as models write them.

`python -m bench.patch` makes a corpus from real commits and a seed. Each case has files, an answer that changes them
and contains one or more slips that models make, and either the expected bytes or a note that the answer must be
refused. `git apply` (as is and lenient) and GNU patch get the diffs of the same answers. The bench calls
`repoagent.patch` and shares no other code with it.
"""
