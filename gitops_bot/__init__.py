"""gitops-bot: where autonomous agents meet a person's decision."""

__version__ = "0.1.0"
