"""What git's history says about files: who changed them, how, and which files change together.

log.py reads `git log`; recent_commits.py reads the last commits of a file within a time limit, file_history.py its full
history and authors, commit_details.py what each commit did to it. cochange/ scores which files change together, index/
stores the history for it, neighbors.py answers the question. render.py writes text, prompt_block.py the part of a
prompt. graph.py and graph_output.py draw neighbors, repository_map.py and map_html.py the whole repository.
commit_summaries.py asks models about commits, summary_store.py keeps their answers.
"""
