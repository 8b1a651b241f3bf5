"""A local GitHub: real HTTP, real bare repositories, state in memory or (`state`) in a folder, started with
`gitops_bot.sandbox.http.Sandbox`.

`records` and `model` are pure (values, state, rules; time is a parameter). `git_program` alone runs git, `world`
holds the two together under one lock, `routes/` speak REST and GraphQL over them, `http` and `page` are the
skin. `setting_up`, `disturbing` and `control` are the hands of tests, and `remote` lends them to another process.

What a client sees is validated against what GitHub publishes: REST against its OpenAPI description (npm
`@octokit/openapi`), GraphQL against its schema (npm `@octokit/graphql-schema`), webhooks against theirs (npm
`@octokit/webhooks-schemas` and `-examples`), git by the real git client, the rest by PyGithub.

It is a stand-in for tests and the demo and guards nothing of worth: whoever reaches its page may act as anybody.
"""
