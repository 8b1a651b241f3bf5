"""What the agents do while nothing needs the person: the lines of an empty inbox."""

from workspace.pages.frame import Page


def doing(page: Page) -> tuple[str, ...]:
    """Say in a few lines what the agents are doing."""
    return ()
