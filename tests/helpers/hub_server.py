"""A small server on loopback that speaks the Hugging Face Hub's protocol, as huggingface_hub asks it.

Repositories of models: creation, branches, checks of cards, uploads (in commits, and by Git LFS), listings, downloads
(large files from another host, as from the hub's CDN). It does not speak Xet, which HF_HUB_DISABLE_XET leaves out.
"""

import base64
import contextlib
import hashlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import yaml

USER, TOKEN = "somebody", "hf_secretSECRETsecret"
LARGE = (".safetensors", ".mp4", ".png")  # as .gitattributes of the hub's repositories says
SPECIAL_ID = re.compile(r"(?:[\w-]+/)?[\w.-]+")  # what the hub demands of a dataset's id in a model-index


class Refusal(Exception):
    """An answer that is no success: status, the hub's name of the error, and its words."""


class Repo:
    """A repository: commits, oldest first, each with all its files, and branches."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"})

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        content = "".join(f"{name} {hashlib.sha1(data).hexdigest()}\n" for name, data in sorted(files.items()))
        oid = hashlib.sha1(f"{len(self.commits)} {content}".encode()).hexdigest()
        self.commits[oid], self.branches[branch] = files, oid
        return oid

    def change(self, name: str, data: bytes | None, branch: str = "main") -> str:
        """Commit a file with this content; None: without it."""
        files = {**self.commits[self.branches[branch]], name: data}
        return self.commit(branch, {name: data for name, data in files.items() if data is not None})


class Request(NamedTuple):
    method: str
    path: str
    authorized: bool


class Hub:
    """The server; `address` is its HF_ENDPOINT.

    Args:
        lfs: whether large files are uploaded and kept by Git LFS; else all are part of commits.
    """

    def __init__(self, lfs: bool) -> None:
        self.lfs = lfs
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}  # of LFS, by SHA-256
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        self.unknown: list[str] = []  # requests that the real hub would understand, or none would
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        port = self._server.server_address[1]
        self.address, self.cdn = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Be gone, for clients that keep their connections too."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def files(self, repo: str, revision: str = "main") -> dict[str, bytes]:
        return self.repos[repo].commits[self.repos[repo].branches[revision]]

    # What the handler calls: method, path and body -> status, headers, content.

    def answer(self, method: str, path: str, body: bytes, token: bool) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(Request(method, path, token))
        if found := re.fullmatch(r"/cdn/(\w{64})", path):
            assert not token, "the token belongs to the hub alone"
            return 200, {}, self.objects[found[1]]
        if (found := re.fullmatch(r"/lfs/(\w{64})", path)) and method == "PUT":
            assert hashlib.sha256(body).hexdigest() == found[1]
            self.objects[found[1]] = body
            return 200, {}, b""
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(found[1], unquote(found[2]), unquote(found[3]), token)
        value = json.loads(body) if body.startswith(b"{") and not path.rpartition("/commit/")[1] else body
        return 200, {"Content-Type": "application/json"}, json.dumps(self._json(method, path, value, token)).encode()

    def _json(self, method: str, path: str, body: Any, token: bool) -> Any:
        if path == "/api/repos/create":
            return self._create(body, token)
        if path == "/api/validate-yaml":
            return _validate(body["content"])
        if found := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            self._repo(found[1], token, writes=True)
            return {"transfer": "basic", "objects": [self._transfer(one) for one in body["objects"]]}
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(\w+)/([^/]+))?", path):
            name, action, revision = found[1], found[2] or "revision", unquote(found[3] or "main")
            repo = self._repo(name, token, writes=method == "POST")
            if action == "branch":
                if revision in repo.branches:
                    raise Refusal(409, "", "Reference already exists")
                repo.branches[revision] = repo.branches["main"]
                return {}
            oid = self._commit_of(repo, revision)
            files = repo.commits[oid]
            if action == "revision":
                siblings = [{"rfilename": file, **self._about(data, file)} for file, data in files.items()]
                return {"id": name, "modelId": name, "private": repo.private, "sha": oid, "siblings": siblings}
            if action == "tree":
                return [{"type": "file", "path": file, **self._about(data, file)} for file, data in files.items()]
            if action == "preupload":
                modes = {one["path"]: self._mode(one["path"]) for one in body["files"]}
                return {"files": [{"path": key, "uploadMode": modes[key], "shouldIgnore": False} for key in modes]}
            if action == "commit":
                oid = self._commit(repo, revision, [json.loads(line) for line in body.splitlines()])
                return {"success": True, "commitOid": oid, "commitUrl": f"{self.address}/{name}/commit/{oid}"}
        self.unknown.append(f"{method} {path}")
        raise Refusal(404, "", "Sorry, we can't find the page you are looking for.")

    def _create(self, body: dict[str, Any], token: bool) -> dict[str, str]:
        if not token:
            raise Refusal(401, "", "Invalid username or password.")
        name = f"{body['organization'] or USER}/{body['name']}"
        if not name.startswith(f"{USER}/"):
            raise Refusal(403, "", "You don't have the rights to create a model under this namespace")
        answer = {"url": f"{self.address}/{name}", "name": name, "id": "0"}
        if name in self.repos:
            raise Refusal(409, "", "You already created this model repo", answer)
        self.repos[name] = Repo(body.get("visibility") == "private")
        return answer

    def _repo(self, name: str, token: bool, writes: bool) -> Repo:
        repo = self.repos.get(name)
        if repo is None or (repo.private and not token):  # which of both, only the owner is told
            raise Refusal(404 if token else 401, "RepoNotFound", "Repository not found")
        if writes and not token:
            raise Refusal(401, "", "Invalid username or password.")
        return repo

    def _commit_of(self, repo: Repo, revision: str) -> str:
        if revision in repo.commits:
            return revision
        if revision not in repo.branches:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repo.branches[revision]

    def _mode(self, file: str) -> str:
        return "lfs" if self.lfs and file.endswith(LARGE) else "regular"

    def _about(self, data: bytes, file: str) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        about = {"size": len(data), "oid": blob, "blobId": blob}
        if self._mode(file) == "lfs":
            oid = hashlib.sha256(data).hexdigest()
            self.objects[oid] = data
            about["lfs"] = {"sha256": oid, "oid": oid, "size": len(data), "pointerSize": 130}
        return about

    def _transfer(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["oid"] in self.objects:
            return wanted
        return {**wanted, "actions": {"upload": {"href": f"{self.address}/lfs/{wanted['oid']}"}}}

    def _commit(self, repo: Repo, branch: str, lines: list[dict[str, Any]]) -> str:
        files = dict(repo.commits[self._commit_of(repo, branch)])
        assert lines[0]["key"] == "header"
        assert lines[0]["value"]["summary"]
        for line in lines[1:]:
            kind, value = line["key"], line["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
            else:
                assert kind == "deletedFile"
                del files[value["path"]]
        return repo.commit(branch, files)

    def _resolve(self, name: str, revision: str, file: str, token: bool) -> tuple[int, dict[str, str], bytes]:
        repo = self._repo(name, token, writes=False)
        oid = self._commit_of(repo, revision)
        if file not in repo.commits[oid]:
            raise Refusal(404, "EntryNotFound", "Entry not found", {}, oid)
        data = repo.commits[oid][file]
        about, headers = self._about(data, file), {"X-Repo-Commit": oid}
        if "lfs" not in about:
            return 200, {**headers, "ETag": f'"{about["oid"]}"'}, data
        large = about["lfs"]["sha256"]
        headers |= {"X-Linked-ETag": f'"{large}"', "X-Linked-Size": str(len(data)), "ETag": '"pointer"'}
        return 302, {**headers, "Location": f"{self.cdn}/cdn/{large}"}, b""


def _validate(card: str) -> dict[str, Any]:
    """What the hub checks in a card's metadata."""
    head = re.match(r"---\n(.*?)\n---\n", card, re.DOTALL)
    errors = []
    for model in (yaml.safe_load(head[1]) if head else {}).get("model-index", []):
        for index, result in enumerate(model["results"]):
            if not SPECIAL_ID.fullmatch(result["dataset"]["type"]):
                errors.append(f'"model-index[0].results[{index}].dataset.type" fails to match the required pattern')
            if not {"type", "value"} <= result["metrics"][0].keys() or "type" not in result["task"]:
                errors.append(f'"model-index[0].results[{index}]" is not complete')
    if head is None or errors:
        raise Refusal(400, "", "", {"errors": [{"message": text} for text in errors or ["no metadata"]]})
    return {"errors": [], "warnings": []}


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            hub.connections.append(self.connection)

        def _serve(self) -> None:
            size, chunked = int(self.headers.get("Content-Length", 0)), self.headers.get("Transfer-Encoding")
            body = b"".join(self._chunks()) if chunked else self.rfile.read(size)
            path, token = urlsplit(self.path).path, self.headers.get("Authorization") == f"Bearer {TOKEN}"
            try:
                status, headers, content = hub.answer(self.command, path, body, token)
            except Refusal as refusal:
                status, name, words, *more = refusal.args
                headers = {"X-Error-Code": name} if name else {}
                headers |= {"X-Error-Message": words} if words else {}
                headers |= {"X-Repo-Commit": more[1]} if len(more) > 1 else {}
                content = json.dumps(more[0] if more else {"error": words}).encode()
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _chunks(self) -> Any:
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        do_GET = do_HEAD = do_POST = do_PUT = _serve

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
