"""Facts about this machine, read from `ASSAY_*` environment variables (or a `.env` file). What to do is in `config`."""

import os
from functools import lru_cache
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """One field per fact; the environment variable is `ASSAY_` plus the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=".env", extra="ignore")

    home: Path = Field(Path(".assay"), description="Models, caches and server data of this checkout")
    store: str = Field("", description="Folder or s3://bucket/prefix; empty means HOME/store")
    s3_endpoint: str = Field("", description="S3 endpoint URL; empty means AWS")
    s3_access_key: str = Field("", description="S3 access key id; empty means the AWS credential chain")
    s3_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key")
    s3_region: str = Field("us-east-1", description="S3 region")
    model: str = Field("", description="Base model: hub id or path; empty means the embedded SmolLM2")
    num_threads: int = Field(
        default_factory=lambda: min(os.cpu_count() or 1, 8),
        ge=1,
        le=512,
        description="Worker threads of the embedded engine and trainer, each with one torch thread",
    )
    vllm_python: str = Field("", description="Python that has vLLM; empty means .venv-vllm/bin/python")

    @property
    def store_uri(self) -> str:
        """Where the tables live: `s3://...` or an absolute folder."""
        if self.store.startswith("s3://"):
            return self.store.rstrip("/")
        return str(Path(self.store or self.home / "store").absolute())

    @property
    def home_dir(self) -> Path:
        return self.home.absolute()

    @property
    def model_uri(self) -> str:
        """The base model: as set, else the directory into which the embedded model was converted."""
        return self.model or str(self.home_dir / "models" / "smollm2-135m-instruct")

    @property
    def vllm_executable(self) -> str:
        return os.path.expanduser(self.vllm_python) or str(Path(".venv-vllm/bin/python").absolute())


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once."""
    return Settings()
