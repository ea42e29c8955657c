"""JSON over HTTP to one vLLM server, with its failures told apart.

no answer, dropped connection, 429, 502-504  -> tried again (sampling is seeded, so asking twice is harmless),
                                                then EngineUnreachable
no answer within the time limit              -> EngineUnreachable
any other status, or not JSON                -> EngineError with the server's own words
"""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from assay.errors import EngineError, EngineUnreachable

TRIES = 4
BACKOFF_S = 0.25
TRANSIENT_STATUS = frozenset({429, 502, 503, 504})
CONNECT_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 512


class Client:
    """`advice()` tells why the server may be silent and what to do; it may raise a better error itself."""

    def __init__(
        self, url: str, *, timeout_s: float, advice: Callable[[], str], api_key: str = "", use_proxies: bool = True
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._advice = advice
        self._api_key = api_key
        self._use_proxies = use_proxies
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: httpx.AsyncClient | None = None

    async def get(self, path: str) -> Any:
        """The reply's JSON. Raises EngineError or EngineUnreachable."""
        return self._json(path, await self._send("GET", path, None))

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The reply's JSON. Raises EngineError or EngineUnreachable."""
        return self._json(path, await self._send("POST", path, body))

    async def exists(self, path: str) -> bool:
        """Whether the server has this GET endpoint."""
        return (await self._send("GET", path, None)).status_code not in (404, 405)

    async def is_healthy(self) -> bool:
        """One try, no error: whether the server says that it can serve."""
        try:
            return (await self._session().get("/health", timeout=CONNECT_TIMEOUT_S)).status_code == 200
        except httpx.HTTPError:
            return False

    async def close(self) -> None:
        """Idempotent. Connections that belong to an event loop that has ended can only be dropped."""
        if self._http is not None and self._loop is asyncio.get_running_loop():
            await self._http.aclose()
        self._http = self._loop = None

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(BACKOFF_S * 2**attempt)
            try:
                response = await self._session().request(method, path, json=body)
            except httpx.TimeoutException as error:
                raise EngineUnreachable(
                    f"The vLLM server at {self.url} did not answer {method} {path} within its time limit "
                    f"({type(error).__name__}, request_timeout_s={self._timeout_s:g}). {self._advice()}"
                ) from error
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
                continue
            if response.status_code not in TRANSIENT_STATUS:
                return response
            problem = f"status {response.status_code}"
        raise EngineUnreachable(
            f"The vLLM server at {self.url} failed {method} {path} {TRIES} times: {problem}. {self._advice()}"
        )

    def _json(self, path: str, response: httpx.Response) -> Any:
        if response.status_code != 200:
            raise EngineError(
                f"The vLLM server at {self.url} answered {path} with status {response.status_code}: "
                f"{_words(response)}. {self._advice()}"
            )
        try:
            return response.json()
        except ValueError as error:
            raise EngineError(
                f"The server at {self.url} answered {path} with something that is not JSON: {response.text[:200]!r}. "
                "Is this a vLLM server?"
            ) from error

    def _session(self) -> httpx.AsyncClient:
        """Connections are tied to an event loop; a new loop gets new ones."""
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            self._loop = loop
            self._http = httpx.AsyncClient(
                base_url=self.url,
                headers={"Authorization": f"Bearer {self._api_key}"} if self._api_key else {},
                timeout=httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
                trust_env=self._use_proxies,
            )
        return self._http


def _words(response: httpx.Response) -> str:
    """The message of an OpenAI-style error, else the start of the text."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:400].strip() or "no text"
