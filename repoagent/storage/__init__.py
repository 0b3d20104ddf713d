"""Repoagent's own files: durable writes, locks, journals, JSON, and the masking of secrets.

layout.py says where everything is. folders.py opens folders safely, atomic.py writes files, locks.py locks them,
json_files.py reads and writes JSON and the audit, journal.py is the crash journal, secrets.py finds and masks keys.
"""
