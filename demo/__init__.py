"""The demo: `make demo`. What it edits is in `demo/notes/`, what a model said in `demo/cassette.jsonl`."""
