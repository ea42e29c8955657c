"""S3: clear words for every way it can refuse, and exact answers when a connection breaks at the wrong moment."""

import http.client
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from assay.errors import StoreError, StoreUnreachable, is_transient
from storage.backends.base import MissingKey
from storage.backends.s3 import S3Store
from storage.objects import open_object_store
from tests.services import S3Server

READER = {"s3_access_key": "reader", "s3_secret_key": "reader-secret"}
REFUSALS: dict[str, tuple[dict[str, str], str]] = {
    "a wrong secret": ({"s3_secret_key": "wrong"}, r"rejects access key 'assay'.*ASSAY_S3_SECRET_KEY"),
    "an unknown key": ({"s3_access_key": "nobody"}, r"rejects access key 'nobody'.*ASSAY_S3_ACCESS_KEY"),
    "a reader's key": (READER, r"Cannot write .*access key 'reader' may not do that \(AccessDenied\)"),
    "a missing bucket": ({"store": "s3://no-such-bucket/x"}, r"'no-such-bucket' does not exist.*aws s3 mb"),
    "a bad address": ({"s3_endpoint": "nonsense"}, r"Invalid endpoint: nonsense.*ASSAY_S3_ENDPOINT"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_is_wrong_and_what_to_do(s3_server: S3Server, case: str) -> None:
    changes, message = REFUSALS[case]
    with pytest.raises(StoreError, match=message) as refused:
        open_object_store(machine=s3_server.settings("x", **changes)).check()
    assert not is_transient(refused.value)
    assert "assay-secret" not in str(refused.value)


def test_missing_credentials_are_told(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    objects = open_object_store(machine=s3_server.settings("none", s3_access_key="", s3_secret_key=""))
    with pytest.raises(StoreError, match="there are no S3 credentials"):
        objects.check()


def test_a_closed_port_is_told_within_seconds_and_is_worth_a_retry(s3_server: S3Server) -> None:
    begin = time.monotonic()
    with pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:9 did not answer.*Check that it runs") as refused:
        open_object_store(machine=s3_server.settings("x", s3_endpoint="http://127.0.0.1:9")).check()
    assert time.monotonic() - begin < 10
    assert is_transient(refused.value)


def test_a_reader_may_read(s3_server: S3Server) -> None:
    prefix = uuid.uuid4().hex
    open_object_store(machine=s3_server.settings(prefix)).put("a", b"1")
    reader = open_object_store(machine=s3_server.settings(prefix, **READER))
    assert reader.get("a") == b"1"
    assert reader.list("") == ["a"]


def test_a_missing_bucket_can_be_created(s3_server: S3Server) -> None:
    objects = open_object_store(machine=s3_server.settings(store=f"s3://made-{uuid.uuid4().hex[:12]}/x"))
    with pytest.raises(StoreError, match="does not exist"):
        objects.put("a", b"1")
    objects.create()
    objects.check()


def test_more_keys_than_one_page_are_listed(s3_server: S3Server) -> None:
    from storage.log import each

    objects = open_object_store(machine=s3_server.settings(uuid.uuid4().hex))
    keys = [f"k/{i:04d}" for i in range(1005)]
    each(lambda key: objects.put(key, b""), keys)
    assert objects.list("k/") == keys


def test_a_write_whose_answer_was_lost_still_counts_as_ours(s3_server: S3Server) -> None:
    with answers_lost(s3_server, 1) as endpoint:
        objects = open_object_store(machine=s3_server.settings(uuid.uuid4().hex, s3_endpoint=endpoint))
        assert objects.put_if_absent("a", b"mine")
    assert not objects_at(s3_server, objects).put_if_absent("a", b"other")


def test_a_lost_answer_does_not_make_anothers_write_ours(s3_server: S3Server) -> None:
    prefix = uuid.uuid4().hex
    assert open_object_store(machine=s3_server.settings(prefix)).put_if_absent("a", b"same")
    with answers_lost(s3_server, 1) as endpoint:
        late = open_object_store(machine=s3_server.settings(prefix, s3_endpoint=endpoint))
        assert not late.put_if_absent("a", b"same")


def test_small_and_large_objects_are_read_alike_as_files(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from storage.backends import _remote_files

    monkeypatch.setattr(_remote_files, "SMALL", 10)
    objects = open_object_store(machine=s3_server.settings(uuid.uuid4().hex))
    objects.put("small", b"0123456789")
    objects.put("large", b"0123456789ab")
    files = objects.filesystem()
    assert files is not None
    for name, content in (("small", b"0123456789"), ("large", b"0123456789ab")):
        assert files.size(objects.uri(name)) == len(content)
        with files.open(objects.uri(name)) as file:
            assert (file.read(3), file.seek(-2, 2), file.read(), file.read(1)) == (
                content[:3],
                len(content) - 2,
                content[-2:],
                b"",
            )
    with pytest.raises(MissingKey):
        files.open(objects.uri("none"))


def objects_at(server: S3Server, like: Any) -> S3Store:
    """The same place without the proxy."""
    objects = open_object_store(like.root, server.settings())
    assert isinstance(objects, S3Store)
    return objects


@contextmanager
def answers_lost(server: S3Server, count: int) -> Iterator[str]:
    """A proxy before the server that passes everything on, but hangs up instead of the first answers to PUTs."""
    left = [count]
    target = server.endpoint.removeprefix("http://")

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            upstream = http.client.HTTPConnection(target)
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            data = answer.read()
            if self.command == "PUT" and left[0] > 0:
                left[0] -= 1
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                    self.send_header(name, value)
            if self.command == "HEAD":
                self.send_header("Content-Length", answer.getheader("Content-Length", "0"))
            else:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_HEAD = do_DELETE = relay  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

        def finish(self) -> None:
            if self.connection.fileno() >= 0:
                super().finish()

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join()
    assert left[0] == 0
