"""Every error Assay raises on purpose. The class says who can act; `Transient` says a retry may help.

    AssayError
    ├── ConfigurationError      the person who wrote the config, a setting or a command line
    ├── EnvironmentAuthorError  the author of a domain or task
    ├── SandboxError            whoever runs the machine: no isolation, no room, launch failed
    │   ├── SandboxUnavailable
    │   └── SandboxUnsupported
    ├── VerifierError           the author of a verifier: it crashed or broke its contract
    ├── EngineError             whoever runs the inference engine
    ├── TrainingError           the person who tunes the run
    ├── DataGateError           the data failed an expectation: look before training
    └── StoreError              whoever runs the store
        ├── StoreUnreachable (Transient)
        └── CommitConflict

Messages follow one form: what was wrong, the value, what is allowed, what to do.
"""


class AssayError(Exception):
    """Root of all errors raised on purpose."""


class Transient:
    """Mixin: the same call may succeed later without anybody acting."""


class ConfigurationError(AssayError):
    """A setting, config key or command-line value is wrong."""


class EnvironmentAuthorError(AssayError):
    """A domain or task breaks its contract."""


class SandboxError(AssayError):
    """A sandbox could not do what was asked."""


class SandboxUnavailable(SandboxError):
    """Nothing on this machine isolates; the message says what to install."""


class SandboxUnsupported(SandboxError):
    """The backend lacks a capability that was asked for; the message says what it can do."""


class SandboxLaunchError(SandboxError, Transient):
    """One sandbox failed to start although the backend works."""


class VerifierError(AssayError):
    """A verifier crashed or returned something that is not a verdict."""


class EngineError(AssayError):
    """The inference engine failed."""


class EngineUnreachable(EngineError, Transient):
    """The engine's server did not answer."""


class TrainingError(AssayError):
    """The trainer cannot go on (no signal, non-finite loss, bad batch)."""


class DataGateError(AssayError):
    """An expectation on the data failed, or could not be evaluated."""


class StoreError(AssayError):
    """The store refused or lost something."""


class StoreUnreachable(StoreError, Transient):
    """The store did not answer."""


class CommitConflict(StoreError):
    """A commit with this key exists with other content."""


def is_transient(error: BaseException) -> bool:
    """True when retrying the same call may help."""
    return isinstance(error, (Transient, ConnectionError, TimeoutError))


def unknown_choice(kind: str, value: object, known: object) -> ConfigurationError:
    """The error for a value that is not among the known ones."""
    choices = ", ".join(sorted(map(str, known))) or "none"  # type: ignore[call-overload]
    return ConfigurationError(f"Unknown {kind} {value!r}. Known: {choices}.")
