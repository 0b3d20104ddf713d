"""What git's history says about files: who changed them, how, and which files change together.

log.py reads `git log`; file_log.py reads the commits of one file, commit_details.py what each did to it, authors.py who
made them; file_history.py makes reports and texts for prompts of that. cochange/ scores which files change together,
index/ stores the history for it, recent_commits.py replaces it until it is built, neighbors.py answers the question.
render.py writes text. graph.py makes a graph of neighbors, repository_map.py of the whole repository; graph_output.py
draws it. commit_summaries.py asks models about commits, summary_store.py saves their answers.
"""
