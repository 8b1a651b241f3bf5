"""What `gitops-bot init` writes into a repository: the choices, the files, the writing, and what is left to do."""
