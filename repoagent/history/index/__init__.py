"""The history index, `.repoagent/history.db`: schema.py, renames.py, miner.py (write), reader.py (read), index.py."""
