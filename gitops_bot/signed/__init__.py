"""The signed channel: from hostile bytes in people's branches to votes of persons on gated asks."""
