"""A few of vLLM's endpoints over real HTTP, with faults on demand: for what a healthy server never does."""

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOGITS = {3: 0.0, 4: -0.5, 5: -1.0, 6: -1.5, 7: -2.0}


class FakeVllm:
    """Serves model `m`: every completion is the tokens 3, 4. Attributes are the faults."""

    def __init__(self, root: str, probe_ids: list[int]) -> None:
        self.root = root
        self.probe_ids = probe_ids
        self.url = ""
        self.raw_logprobs = False
        self.dev_mode = True
        self.reload_works = True
        self.cache_empties = True
        self.statuses: list[int] = []
        self.replies: dict[str, str] = {}
        self.change: dict[str, Any] = {}
        self.delay_s = 0.0
        self.weights = "first"
        self.marker = "default"
        self.bodies: list[dict[str, Any]] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/health":
            return 200, {}
        if self.statuses:
            return self.statuses.pop(0), {"error": {"message": "the core is on fire"}}
        if path in self.replies:
            return 200, self.replies[path]
        handler = {
            "/v1/models": self.models,
            "/tokenize": lambda _: {"tokens": self.probe_ids},
            "/v1/completions": self.completions,
            "/weight_info": lambda _: {"weight_version": self.marker},
            "/weight_checker": lambda _: {"checksums": {"w": self.weights}},
            "/collective_rpc": self.reload,
            "/reset_prefix_cache": lambda _: {"success": self.cache_empties},
            "/update_weight_version": self.mark,
        }.get(path)
        development = path not in ("/v1/models", "/tokenize", "/v1/completions")
        if handler is None or (development and not self.dev_mode):
            return 404, {"detail": "Not Found"}
        return 200, handler(body)

    def models(self, _: Any) -> Any:
        return {"data": [{"id": "m", "root": self.root, "parent": None, "max_model_len": 1024}]}

    def completions(self, body: dict[str, Any]) -> Any:
        self.bodies.append(body)
        time.sleep(self.delay_s)
        temperature = 1.0 if self.raw_logprobs else body["temperature"] or 1.0
        logits = {token: logit / temperature for token, logit in LOGITS.items()}
        total = math.log(sum(map(math.exp, logits.values())))
        top = {f"token_id:{token}": logit - total for token, logit in logits.items()}
        ids = [3, 4][: body["max_tokens"]] * max(1, body["max_tokens"] // 2)
        choice = {
            "token_ids": ids,
            "finish_reason": "length",
            "logprobs": {"token_logprobs": [logits[i] - total for i in ids], "top_logprobs": [top] * len(ids)},
        } | self.change
        return {"choices": [choice | {"index": i} for i in reversed(range(body["n"]))]}

    def reload(self, body: dict[str, Any]) -> Any:
        if self.reload_works:
            self.weights = body["kwargs"]["weights_path"]
        return {"results": [None]}

    def mark(self, body: dict[str, Any]) -> Any:
        self.marker = body["new_version"]
        return {"success": True}


@contextmanager
def serving(fake: FakeVllm) -> Iterator[FakeVllm]:
    """`fake` on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}"))

        def reply(self, body: dict[str, Any]) -> None:
            status, answer = fake.answer(self.path, body)
            data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
