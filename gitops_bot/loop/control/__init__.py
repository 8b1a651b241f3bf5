"""The loop's side of the control bridge: who may steer it, what was accepted, and the one thread that serves it."""
