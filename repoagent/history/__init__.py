"""What git's history says about files: who changed them, how, and which files change together.

log.py reads `git log`; file_log.py reads the commits of one file, commit_details.py what each did to it;
file_history.py makes reports and texts for prompts of that, with the authors. cochange.py scores which files change
together, missing_partners.py finds a usual partner that a change lacks; index/ stores the history for it,
recent_commits.py replaces it until it is built, neighbors.py answers the question. render.py writes text. graph.py
makes a graph of neighbors, repository_map.py of the whole repository; graph_output.py draws it. commit_summaries.py
asks models about commits and saves their answers.
"""
