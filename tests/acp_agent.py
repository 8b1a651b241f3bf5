"""A scripted agent behind the Agent Client Protocol: JSON-RPC 2.0, one message a line, on standard input and output.

Its script is the capsule itself: each line of the prompt that starts with `!` is one step. It keeps its sessions in a
file beside it, so that another process of it can load what an earlier one began.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


class Agent:
    """One process of the agent."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._next = 1000

    def log(self, line: str) -> None:
        with (self._kept / "agent.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def update(self, session: str, update: dict[str, Any]) -> None:
        send({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def say(self, session: str, text: str, kind: str = "agent_message_chunk") -> None:
        self.update(session, {"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    def ask(self, session: str, kind: str) -> str:
        """Ask for permission; give the option that was chosen, or `cancelled`."""
        self._next += 1
        call = {"toolCallId": f"call-{self._next}", "title": f"{kind} something", "kind": kind, "status": "pending"}
        self.update(session, {"sessionUpdate": "tool_call", **call})
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        params = {"sessionId": session, "toolCall": call, "options": options}
        send({"id": self._next, "method": "session/request_permission", "params": params})
        for line in sys.stdin:
            reply = json.loads(line)
            if reply.get("id") == self._next and "method" not in reply:
                outcome = reply.get("result", {}).get("outcome", {})
                return str(outcome.get("optionId", outcome.get("outcome")))
        return "gone"

    def prompt(self, session: str, text: str) -> dict[str, Any]:
        """Play the steps of a capsule; give the result of the turn, or its error under `error`."""
        for line in text.splitlines():
            step, _, rest = line.removeprefix("!").partition(" ")
            match step if line.startswith("!") else "":
                case "say":
                    self.say(session, json.loads(rest))
                case "think":
                    self.say(session, json.loads(rest), "agent_thought_chunk")
                case "pieces":
                    for letter in json.loads(rest):
                        self.say(session, letter)
                case "tool":
                    call = {"toolCallId": "t", "title": rest, "kind": "other", "status": "completed"}
                    self.update(session, {"sessionUpdate": "tool_call", **call})
                case "permission":
                    self.say(session, f"{rest}: {self.ask(session, rest)}\n")
                case "sleep":
                    time.sleep(float(rest))
                case "wait":
                    while not Path(rest).exists():
                        time.sleep(0.02)
                case "environ":
                    self.say(session, json.dumps(sorted(os.environ)) + "\n")
                case "error":
                    return {"error": json.loads(rest)}
                case "exit":
                    os._exit(int(rest))
                case "stop":
                    return {"stopReason": rest}
        return {"stopReason": "end_turn"}

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        sessions = self._kept / "sessions"
        match method:
            case "initialize":
                capabilities = {"loadSession": True, "promptCapabilities": {}}
                return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
            case "session/new":
                made = f"s{os.urandom(8).hex()}"
                sessions.mkdir(exist_ok=True)
                (sessions / made).write_text("")
                return {"sessionId": made}
            case "session/load":
                known = sessions / str(params["sessionId"])
                if not known.exists():
                    return {"error": {"code": -32002, "message": "no such session"}}
                # What was said before is told again, as the protocol asks.
                for line in known.read_text().splitlines():
                    self.say(str(params["sessionId"]), json.loads(line))
                return {}
            case "session/prompt":
                session = str(params["sessionId"])
                text = "".join(part.get("text", "") for part in params["prompt"])
                with (sessions / session).open("a", encoding="utf-8") as file:
                    file.write(json.dumps("REPORT: of an earlier turn\n") + "\n")
                return self.prompt(session, text)
        return {"error": {"code": -32601, "message": "no such method"}}

    def run(self) -> None:
        """Serve until standard input ends."""
        self.log(f"pid {os.getpid()}")
        for line in sys.stdin:
            message = json.loads(line)
            method = message.get("method")
            self.log(str(method))
            if "id" not in message or method is None:
                continue
            result = self.answer(method, message.get("params", {}))
            body = {"error": result["error"]} if "error" in result else {"result": result}
            send({"id": message["id"], **body})


if __name__ == "__main__":
    Agent(Path(sys.argv[1])).run()
