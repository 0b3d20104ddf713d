#!/bin/sh
# Is the sentence among the unreleased fixes? changelog.sh SENTENCE
awk '/^## /{part=$0} /^### /{kind=$0} {print part " / " kind " / " $0}' CHANGELOG.md |
  grep -F "## Unreleased / ### Fixed / - $1" || { echo "not among the unreleased fixes: - $1"; exit 1; }
