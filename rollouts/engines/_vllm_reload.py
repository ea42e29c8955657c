"""New weights for a running vLLM server, over its development endpoints (VLLM_SERVER_DEV_MODE=1)."""

from assay.errors import EngineError
from assay.ids import combined_digest
from rollouts.engines._vllm_http import Client

# vLLM keeps a name for the weights it holds; here it is the policy version's id.
MARKER = "/weight_info"


async def can_reload(client: Client) -> bool:
    """Whether the server takes new weights and can tell which it holds."""
    return await client.exists(MARKER)


async def reload_weights(client: Client, path: str, version: str, *, method: str) -> str:
    """Make the server hold the weights at `path` and call them `version`; returns their checksum.

    `method` is that of the server's workers. Raises EngineError; what the server holds is then unknown.
    """
    await client.post("/collective_rpc", {"method": method, "kwargs": {"weights_path": path}})
    # Cached keys and values of the old weights must not serve the new ones.
    reply = await client.post("/reset_prefix_cache")
    if not (isinstance(reply, dict) and reply.get("success")):
        raise EngineError(
            f"The vLLM server at {client.url} did not empty its prefix cache ({reply!r}): requests of somebody else "
            "are running on it. Give every run a server of its own."
        )
    await client.post("/update_weight_version", {"new_version": version})
    return await weights_checksum(client)


async def weights_checksum(client: Client) -> str:
    """One digest of all weights as the server holds them. Raises EngineError when it cannot tell."""
    reply = await client.post("/weight_checker", {"action": "checksum"})
    checksums = reply.get("checksums") if isinstance(reply, dict) else None
    if not isinstance(checksums, dict) or not checksums:
        raise EngineError(f"{client.url}/weight_checker returned no checksums: {str(reply)[:200]}.")
    return combined_digest(f"{name}={value}" for name, value in checksums.items())


async def check_marker(client: Client, version: str) -> None:
    """Raises EngineError when the server holds other weights: another run may have reloaded it."""
    reply = await client.get(MARKER)
    found = reply.get("weight_version") if isinstance(reply, dict) else None
    if found != version:
        raise EngineError(
            f"The vLLM server at {client.url} holds policy {found!r}, but {version!r} was loaded: another run uses "
            "this server. Give every run a server of its own."
        )
