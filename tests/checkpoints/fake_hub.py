"""A server on this machine that speaks the calls which an upload to the Hub makes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_of_the_tests"


class FakeHub(ThreadingHTTPServer):
    """Repositories in memory; those named in `public` exist already, for everybody to see."""

    daemon_threads = True

    def __init__(self, public: tuple[str, ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.is_private = dict.fromkeys(public, False)
        self.files: dict[str, dict[str, bytes]] = {name: {} for name in public}
        self.messages: list[str] = []
        self.blobs: dict[str, bytes] = {}

    def environment(self) -> dict[str, str]:
        """What a process needs to talk to this server alone, were it told to stay offline."""
        return {
            "HF_ENDPOINT": self.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0",
        }  # fmt: skip


@contextlib.contextmanager
def fake_hub(*public: str) -> Iterator[FakeHub]:
    """A server that runs while the block does."""
    server = FakeHub(public)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/models/").partition("?")[0]
        if self._is_known() and name in self.server.files:
            files = [{"rfilename": file} for file in self.server.files[name]]
            is_private = self.server.is_private[name]
            self._answer(200, {"_id": "1", "id": name, "private": is_private, "siblings": files})
        else:
            self._answer(404, {"error": "Repository not found"})

    def do_PUT(self) -> None:
        content, oid = self._content(), self.path.rpartition("/")[2]
        assert hashlib.sha256(content).hexdigest() == oid
        self.server.blobs[oid] = content
        self._answer(200, {})

    def do_POST(self) -> None:
        content, path = self._content(), self.path.partition("?")[0]
        if not self._is_known():
            self._answer(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            self._create(json.loads(content))
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif match := re.fullmatch(r"/api/models/(.+)/preupload/main", path):
            self._modes(json.loads(content))
        elif match := re.fullmatch(r"/(.+)\.git/info/lfs/objects/batch", path):
            self._places(json.loads(content))
        elif match := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            self._commit(match[1], content)
        else:
            self._answer(404, {"error": f"the tests know no {path}"})

    def _create(self, asked: dict) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] == "somebody-else":
            self._answer(403, {"error": "You don't have the rights to create a model there"})
            return
        status = 409 if name in self.server.files else 200
        self.server.files.setdefault(name, {})
        self.server.is_private.setdefault(name, asked.get("visibility") == "private")
        self._answer(status, {"url": f"{self.server.url}/{name}", "name": name})

    def _modes(self, asked: dict) -> None:
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for file in asked["files"]
        ]
        self._answer(200, {"files": files})

    def _places(self, asked: dict) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.server.url}/blobs/{each['oid']}"}}}
            for each in asked["objects"]
        ]
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _commit(self, name: str, content: bytes) -> None:
        for line in map(json.loads, content.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                self.server.messages.append(value["summary"])
            elif line["key"] == "file":
                self.server.files[name][value["path"]] = base64.b64decode(value["content"])
            else:
                self.server.files[name][value["path"]] = self.server.blobs[value["oid"]]
        self._answer(200, {"commitUrl": f"{self.server.url}/{name}/commit/1", "commitOid": "1"})

    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
