"""The broker's tools for agents over the Model Context Protocol: ask for a trace or an action, and look. None answers.

`route` is the way in and says who may come; `offered` says what each tool takes, does and gives; `server` alone knows
the protocol's library, which is loaded with the first call.
"""
