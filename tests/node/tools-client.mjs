// Calls every tool of a workspace with the protocol's TypeScript SDK, at one revision; prints what it saw as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token, revision, regime] = process.argv.slice(2);
const offering = (address, init = {}) => {
  const sent = typeof init.body === "string" ? JSON.parse(init.body) : null;
  if (sent?.method === "initialize") {
    sent.params.protocolVersion = revision;
    return fetch(address, { ...init, body: JSON.stringify(sent) });
  }
  return fetch(address, init);
};
const transport = new StreamableHTTPClientTransport(new URL(url), {
  fetch: offering,
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const call = (name, args) => client.callTool({ name, arguments: args });
const seen = { revision: transport.protocolVersion, tools: (await client.listTools()).tools.map((tool) => tool.name) };
const asked = (await call("request_trace", JSON.parse(regime))).structuredContent;
seen.status = asked.status;
seen.capture = (await call("check_capture", { handle: asked.handle })).structuredContent.state;
const opened = (await call("request_verb", { verb: "release.cut", params: { version: revision } })).structuredContent;
seen.ask = (await call("check_ask", { ask: opened.id })).structuredContent.state;
seen.refused = (await call("request_verb", { verb: "no.such", params: {} })).isError;
await client.close();
process.stdout.write(JSON.stringify(seen));
