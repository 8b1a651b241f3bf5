// Probot with a handler that does nothing: it verifies what it is sent on $PORT, by the secret of $SECRET.
import { createServer } from "node:http";
import { Probot, createNodeMiddleware } from "probot";

const app = (robot) => { robot.on(["issue_comment", "pull_request"], async () => {}); };
const probot = new Probot({ secret: process.env.SECRET, githubToken: "none", logLevel: "fatal" });
const middleware = await createNodeMiddleware(app, { probot, webhooksPath: "/hooks/github" });
createServer(async (request, response) => {
  if (!(await middleware(request, response))) { response.writeHead(404); response.end(); }
}).listen(Number(process.env.PORT), "127.0.0.1");
