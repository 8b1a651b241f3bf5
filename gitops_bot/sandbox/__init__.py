"""A local GitHub: real HTTP, real bare repositories, state in memory. Start it with `gitops_bot.sandbox.http.Sandbox`.

`records` and `model` are pure (values, state, rules; time is a parameter). `git` is the only part that runs git,
`world` holds the two together under one lock, `routes/` speak REST and GraphQL over them, `http` and `page` are the
skin. It is a stand-in for tests and the demo and guards nothing of worth: whoever reaches its page may comment as
anybody.
"""
