"""Fail when the matrix of the unit tests lacks a version: matrix.py --needs VERSION"""

import pathlib
import re
import sys

text = pathlib.Path(".ci/tests.yml").read_text()
matrix = re.search(r"^  unit:\n(?:    .*\n)*?      python:\n((?:        - .*\n)+)", text, re.MULTILINE)
if matrix is None:
    sys.exit("jobs.unit.matrix.python is not a list any more")
versions = re.findall(r'^        - "([\d.]+)"', matrix[1], re.MULTILINE)
if sys.argv[2] not in versions:
    sys.exit(f"jobs.unit.matrix.python has no {sys.argv[2]}, only {', '.join(versions)}")
