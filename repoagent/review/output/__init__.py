"""Write reports: `formats` by name (JSON, GitHub, GitLab, Reviewdog), `sarif`, `markdown`."""
