"""Files under `.repoagent/`: atomic writes, locks, journals, secrets masked. Read layout.py first."""
