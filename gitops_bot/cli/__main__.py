"""`python -m gitops_bot.cli` is the command `gitops-bot`."""

from gitops_bot.cli import main

if __name__ == "__main__":
    main()
