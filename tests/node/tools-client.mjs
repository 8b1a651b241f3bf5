// Calls tools of a workspace with the protocol's TypeScript SDK, at one revision; prints what it saw as JSON.
//
// Arguments: the address, the token to connect with, the revision, and what to call: a list of
// {token, tool, arguments}, where a token of null is none. Each call ends as {given, said}, {refused} or {status}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, connecting, revision, wanted] = process.argv.slice(2);
let token = connecting;
let status = null;
const carried = async (address, init = {}) => {
  const headers = new Headers(init.headers);
  if (token === null) headers.delete("Authorization");
  else headers.set("Authorization", `Bearer ${token}`);
  let { body } = init;
  const sent = typeof body === "string" ? JSON.parse(body) : null;
  if (sent?.method === "initialize") {
    sent.params.protocolVersion = revision;
    body = JSON.stringify(sent);
  }
  const answer = await fetch(address, { ...init, headers, body });
  if (init.method === "POST") status = answer.status;
  return answer;
};
const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: carried });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const seen = { revision: transport.protocolVersion, tools: (await client.listTools()).tools.map((tool) => tool.name) };
seen.outcomes = [];
for (const call of JSON.parse(wanted)) {
  token = call.token;
  try {
    const result = await client.callTool({ name: call.tool, arguments: call.arguments });
    const said = result.content[0].text;
    seen.outcomes.push(result.isError ? { refused: said } : { given: result.structuredContent, said });
  } catch {
    seen.outcomes.push({ status });
  }
}
await client.close();
process.stdout.write(JSON.stringify(seen));
