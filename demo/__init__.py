"""The demo: `make demo`. `ledger/` is the repository that it edits, `cassette.jsonl` the recorded reply of a model."""
