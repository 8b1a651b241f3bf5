"""Who may decide what: pure values and rules over them. No match denies."""
