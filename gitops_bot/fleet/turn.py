"""A turn: one dispatch of one run, as far as who lands its markers and who settles it must know it."""

from dataclasses import dataclass

from gitops_bot.store.agents import Agent


@dataclass(frozen=True, slots=True)
class Turn:
    """One dispatch. `wake_seq` is the agent's wake number when it was dispatched (I2), `depth` how long the chain of
    messages is that led to it, `holder` the broker that has its body (empty: nobody known)."""

    agent: Agent
    run: str
    version: int
    wake_seq: int
    depth: int
    lane: str
    holder: str
