"""The door of people: who is here, by which cookie or credential, what a request must carry, and how often it may come.

The ceremonies themselves are services (`gitops_bot.authority`); their routes are in `workspace.api`.
"""
