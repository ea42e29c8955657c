"""Objects in an S3 bucket, through boto3: AWS or any server that honours `If-None-Match: *`.

A write-once is one conditional PUT. When the connection breaks and boto3 sends it again, the second try may meet
our own first one: every conditional write carries a random mark, so the answer stays exact.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from assay.errors import StoreError, StoreUnreachable
from assay.registry import PluginConfig
from storage.backends._probe import probe
from storage.backends.base import MissingKey

_MISSING = {"NoSuchKey", "404", "NotFound"}
_WRONG_CREDENTIALS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AuthFailure"}
_LATER = {"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "503", "500", "502", "504"}
_CONFLICT_TRIES = 8


class S3Config(PluginConfig):
    """Where the bucket is and who asks. Empty keys mean the AWS credential chain, an empty endpoint means AWS."""

    bucket: str = Field(min_length=3, max_length=63)
    prefix: str = ""
    endpoint: str = ""
    access_key: str = ""
    secret_key: SecretStr = SecretStr("")
    region: str = "us-east-1"


class S3Store:
    """An object store below `s3://bucket/prefix`. Safe to share between threads."""

    id: ClassVar[str] = "s3"
    Config: ClassVar[type[S3Config]] = S3Config

    def __init__(self, config: S3Config, *, patient: bool = True) -> None:
        self._config = config
        self._patient = patient
        self._prefix = f"{config.prefix.strip('/')}/" if config.prefix.strip("/") else ""
        self._files: Any = None
        self.root = f"s3://{config.bucket}/{self._prefix}".rstrip("/")

    def put(self, key: str, data: bytes) -> None:
        with self._explained("write", key):
            self._client.put_object(**self._at(key), Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        mark = uuid.uuid4().hex
        for attempt in range(_CONFLICT_TRIES):
            code, resent = self._put_marked(key, data, mark)
            if code is None:
                return True
            if code == "PreconditionFailed":
                return resent and self._mark_of(key) == mark
            time.sleep(0.05 * 2**attempt)
        raise StoreUnreachable(f"{self.uri(key)} stayed busy with other conditional writes; try again.")

    def get(self, key: str) -> bytes:
        with self._explained("read", key):
            return self._client.get_object(**self._at(key))["Body"].read()

    def exists(self, key: str) -> bool:
        try:
            with self._explained("read", key):
                self._client.head_object(**self._at(key))
        except MissingKey:
            return False
        return True

    def list(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2")
        with self._explained("list", prefix):
            found = [
                item["Key"].removeprefix(self._prefix)
                for page in pages.paginate(Bucket=self._config.bucket, Prefix=self._prefix + prefix)
                for item in page.get("Contents", ())
            ]
        return sorted(found)

    def delete(self, key: str) -> None:
        with self._explained("delete", key):
            self._client.delete_object(**self._at(key))

    def uri(self, key: str) -> str:
        return f"s3://{self._config.bucket}/{self._prefix}{key}"

    def create(self) -> None:
        """Make the bucket unless it is there."""
        with self._explained("create", ""):
            try:
                self._client.head_bucket(Bucket=self._config.bucket)
            except self._client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] not in {"404", "NoSuchBucket"}:
                    raise
                self._client.create_bucket(Bucket=self._config.bucket, **self._location())

    def check(self) -> None:
        """As the contract says, with time-outs of a few seconds: a wrong address is told quickly."""
        probe(S3Store(self._config, patient=False))

    def filesystem(self) -> Any:
        if self._files is None:
            from storage.backends._remote_files import RemoteFiles

            self._files = RemoteFiles(self.root, self._fetch)
        return self._files

    def secret(self) -> Mapping[str, str]:
        address = urlsplit(self._config.endpoint or f"https://s3.{self._config.region}.amazonaws.com")
        with self._explained("open", ""):
            keys = self._credentials()
        return keys | {
            "REGION": self._config.region,
            "ENDPOINT": address.netloc,
            "USE_SSL": str(address.scheme == "https").lower(),
            "URL_STYLE": "path" if self._config.endpoint else "vhost",
        }

    @property
    def _client(self) -> Any:
        c = self._config
        secret = c.secret_key.get_secret_value()
        with self._explained("open", ""):
            return _client(c.endpoint, c.access_key, secret, c.region, self._addressing, self._patient)

    @property
    def _addressing(self) -> str:
        return "path" if self._config.endpoint else "auto"

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._config.bucket, "Key": self._prefix + key}

    def _location(self) -> dict[str, Any]:
        if self._config.endpoint or self._config.region == "us-east-1":
            return {}
        return {"CreateBucketConfiguration": {"LocationConstraint": self._config.region}}

    def _fetch(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        """(bytes from `start`, size of the whole object)."""
        with self._explained("read", key):
            answer = self._client.get_object(**self._at(key), Range=f"bytes={start}-{start + length - 1}")
            total = answer.get("ContentRange", "").rpartition("/")[2] or answer["ContentLength"]
            return answer["Body"].read(), int(total)

    def _put_marked(self, key: str, data: bytes, mark: str) -> tuple[str | None, bool]:
        """(None or the code of a refusal by a race, whether boto3 sent the request more than once)."""
        with self._explained("write", key):
            try:
                self._client.put_object(**self._at(key), Body=data, IfNoneMatch="*", Metadata={"assay-mark": mark})
            except self._client.exceptions.ClientError as error:
                code = error.response["Error"]["Code"]
                if code not in {"PreconditionFailed", "ConditionalRequestConflict"}:
                    raise
                return code, error.response["ResponseMetadata"].get("RetryAttempts", 0) > 0
        return None, False

    def _mark_of(self, key: str) -> str | None:
        with self._explained("read", key):
            return self._client.head_object(**self._at(key))["Metadata"].get("assay-mark")

    def _credentials(self) -> dict[str, str]:
        """Key, secret and session token as they are now; the chain's own when no key is set."""
        if self._config.access_key:
            return {"KEY_ID": self._config.access_key, "SECRET": self._config.secret_key.get_secret_value()}
        import boto3
        from botocore.exceptions import NoCredentialsError

        found = boto3.Session().get_credentials()
        if found is None:
            raise NoCredentialsError
        keys = found.get_frozen_credentials()
        token = {"SESSION_TOKEN": keys.token} if keys.token else {}
        return {"KEY_ID": keys.access_key, "SECRET": keys.secret_key, **token}

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        from botocore import exceptions as boto

        place = self.uri(key) if key else self.root
        server = self._config.endpoint or "AWS"
        try:
            yield
        except boto.ClientError as error:
            raise self._refusal(error, action, place) from error
        except (boto.NoCredentialsError, boto.PartialCredentialsError) as error:
            raise StoreError(
                f"Cannot {action} {place}: there are no S3 credentials. Set ASSAY_S3_ACCESS_KEY and "
                "ASSAY_S3_SECRET_KEY, or sign in so that the AWS credential chain finds some."
            ) from error
        except (boto.ConnectionError, boto.HTTPClientError) as error:
            raise StoreUnreachable(
                f"Cannot {action} {place}: the S3 server {server} did not answer ({error}). Check that it runs, "
                "that ASSAY_S3_ENDPOINT is its address (http://host:port), and the network."
            ) from error
        except (boto.BotoCoreError, ValueError) as error:
            raise StoreError(
                f"Cannot {action} {place} on {server}: {error}. "
                "Check ASSAY_STORE, ASSAY_S3_ENDPOINT and ASSAY_S3_REGION."
            ) from error

    def _refusal(self, error: Any, action: str, place: str) -> StoreError:
        code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        server, bucket = self._config.endpoint or "AWS", self._config.bucket
        who = f"access key {self._config.access_key!r}" if self._config.access_key else "the AWS credential chain"
        if code in _MISSING and action == "read":
            return MissingKey(f"There is no {place} on {server}.")
        start = f"Cannot {action} {place} on {server}: "
        if code == "NoSuchBucket":
            return StoreError(f"{start}bucket {bucket!r} does not exist. {self._how_to_create()}")
        if code in _WRONG_CREDENTIALS:
            return StoreError(f"{start}it rejects {who} ({code}). Check ASSAY_S3_ACCESS_KEY and ASSAY_S3_SECRET_KEY.")
        if code in {"AccessDenied", "403", "AllAccessDisabled"}:
            return StoreError(
                f"{start}{who} may not do that ({code}). It needs to read, list, write and delete below {self.root}."
            )
        if code in {"NotImplemented", "501"}:
            return StoreError(f"{start}the server cannot do it ({message}). Use one with conditional writes.")
        if code in _LATER:
            return StoreUnreachable(f"{start}it is busy or failing ({code}: {message}). Try again.")
        return StoreError(f"{start}{code}: {message}. Check ASSAY_STORE, ASSAY_S3_ENDPOINT and ASSAY_S3_REGION.")

    def _how_to_create(self) -> str:
        bucket = self._config.bucket
        endpoint = f" --endpoint-url {self._config.endpoint}" if self._config.endpoint else ""
        return (
            f"Create it with `aws s3 mb s3://{bucket}{endpoint}`, or with "
            f"""`python -c "from storage.objects import open_object_store as o; o('s3://{bucket}').create()"`."""
        )


@lru_cache(maxsize=8)
def _client(endpoint: str, key: str, secret: str, region: str, addressing: str, patient: bool) -> Any:
    """One client per place and credentials: making one takes a good part of a second, and they are thread-safe."""
    import boto3
    from botocore.config import Config

    limits = (5, 20, 5) if patient else (3, 10, 1)
    config = Config(
        connect_timeout=limits[0],
        read_timeout=limits[1],
        retries={"mode": "standard", "total_max_attempts": limits[2]},
        s3={"addressing_style": addressing},
        max_pool_connections=32,
        # Older servers choke on the trailing checksums that boto3 adds by itself.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.Session(aws_access_key_id=key or None, aws_secret_access_key=secret or None).client(
        "s3", endpoint_url=endpoint or None, region_name=region, config=config
    )
