"""The fleet: agents that ask, end their turn, hold nothing, and wake with the verdict; rows, not waiting processes."""
