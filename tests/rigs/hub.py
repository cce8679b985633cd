"""A practice Hugging Face Hub on loopback: data sets of a few files, with the answers that the real one gives."""

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class PracticeHub:
    """Serves `files`: {"org/name": {"README.md": ..., "data/train.parquet": ...}}; `asked` are the paths asked for."""

    def __init__(self, files: Mapping[str, Mapping[str, bytes]], *, gated: tuple[str, ...] = ()) -> None:
        self.files = files
        self.gated = gated
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub._answer(self, with_body=True)

            def do_HEAD(self) -> None:
                hub._answer(self, with_body=False)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                hub._answer(self, with_body=True)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, *, with_body: bool) -> None:
        path = unquote(urlsplit(request.path).path)
        self.asked.append(f"{request.command} {path}")
        status, body, headers = self._look_up(path)
        wanted = request.headers.get("Range")
        if wanted and status == 200:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last) + 1 if last else len(body), len(body))
            headers = {**headers, "Content-Range": f"bytes {first}-{end - 1}/{len(body)}"}
            status, body = 206, body[int(first) : end]
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        if with_body:
            request.wfile.write(body)

    def _look_up(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        parts = path.strip("/").split("/")
        api = parts[:2] == ["api", "datasets"]
        parts = parts[2:] if api else parts[1:] if parts[:1] == ["datasets"] else []
        repository, rest = "/".join(parts[:2]), parts[2:]
        if repository in self.gated:
            return 403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "ask first"}
        if repository not in self.files:
            return 401, b"", {"X-Error-Code": "RepoNotFound"}
        if rest[1:2] not in ([], ["main"], [COMMIT]):
            return 404, b"", {"X-Error-Code": "RevisionNotFound"}
        return self._api(repository, rest) if api else self._file(repository, rest)

    def _api(self, repository: str, rest: list[str]) -> tuple[int, bytes, dict[str, str]]:
        files = self.files[repository]
        if rest[:1] in ([], ["revision"]):
            card = {"license": "cc-by-4.0"} if "README.md" in files else {}
            siblings = [{"rfilename": name} for name in files]
            info: dict[str, Any] = {"id": repository, "sha": COMMIT, "private": False, "gated": False}
            return _json({**info, "siblings": siblings, "cardData": card, "tags": [], "downloads": 0, "likes": 0})
        if rest[:1] == ["tree"]:
            return _json(_listed(files, "/".join(rest[2:])))
        if rest[:1] == ["paths-info"]:
            return _json([_entry(name, data) for name, data in files.items()])
        return 404, b"", {"X-Error-Code": "EntryNotFound"}

    def _file(self, repository: str, rest: list[str]) -> tuple[int, bytes, dict[str, str]]:
        data = self.files[repository].get("/".join(rest[2:])) if rest[:1] == ["resolve"] else None
        if data is None:
            return 404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
        etag = hashlib.sha1(data).hexdigest()
        return 200, data, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}


def _listed(files: Mapping[str, bytes], under: str) -> list[dict[str, Any]]:
    """Return what lies in a folder itself: files, and folders by name."""
    head = f"{under}/" if under else ""
    inner = {name: name.removeprefix(head) for name in files if name.startswith(head)}
    folders = sorted({head + rest.split("/")[0] for rest in inner.values() if "/" in rest})
    found = [{"type": "directory", "path": folder, "size": 0, "oid": COMMIT} for folder in folders]
    return found + [_entry(name, files[name]) for name, rest in inner.items() if "/" not in rest]


def _entry(name: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


def _json(value: Any) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps(value).encode(), {"Content-Type": "application/json"}
