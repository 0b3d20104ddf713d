"""Write reports: `formats` by name (JSON, GitHub, GitLab), `sarif`, `markdown`."""
