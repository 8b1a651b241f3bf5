"""Many signatures verified by processes of their own, one a core; their word stands for cryptography alone."""
