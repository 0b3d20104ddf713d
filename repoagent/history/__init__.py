"""What git's history says about files: who changed them, how, and which files change together.

log.py reads `git log`; file_log.py reads the commits of one file, commit_details.py what each did to it;
file_history.py turns that, with the authors, into reports and prompts. cochange.py scores which files change together,
missing_partners.py finds a usual partner that a change lacks; index/ stores the history for these, recent_commits.py
stands in until the index is built, and neighbors.py answers queries. render.py writes text. graph.py makes a graph of
neighbors, repository_map.py one of the whole repository; graph_output.py draws either. commit_summaries.py asks models
about commits and saves their answers.
"""
