"""The protocol's own conformance suite, for what the server offers: it sends no token, so one is added on its way."""

import http.client
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.config import load
from tests.mcp_stage import begin
from tests.served_stage import Served

pytestmark = pytest.mark.xdist_group("mcp")
MODULES = Path(__file__).parents[2] / "node" / "node_modules"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    """An address in front of the workspace that adds a token, and writes its own name as the workspace's."""
    token = begin(served).token
    site = load(served.folder / "gitops-bot.toml").origin

    class Between(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

        def forward(self) -> None:
            mine = f"localhost:{self.server.server_address[1]}"
            headers = {name: text for name, text in self.headers.items() if name.lower() != "connection"}
            for name, text in headers.items():
                own = f"localhost:{served.port}" if name.lower() == "host" else site
                headers[name] = own if text in (mine, f"http://{mine}") else text
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            wire = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            wire.request(self.command, self.path, body, {**headers, "Authorization": f"Bearer {token}"})
            answer = wire.getresponse()
            told = answer.read()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, text)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)
            wire.close()

        do_GET = do_POST = do_DELETE = forward

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/mcp"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scenario", ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"])
def test_the_suite_finds_nothing(url: str, scenario: str, tmp_path: Path) -> None:
    """Tools, resources and prompts of the suite's own are not offered here, so those scenarios are left out."""
    node = next(iter(MODULES.glob("node-linux-*/bin/node")))
    command = [str(node), str(SUITE), "server", "--url", url, "--scenario", scenario, "--output-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout
