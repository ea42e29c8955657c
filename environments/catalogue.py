"""Every domain by its name: our own families, and the sets that foreign formats give.

code_repair                   environments/domains/code_repair.py
reasoning_gym/leg_counting    a set of environments/formats/reasoning_gym.py
my.package:MyDomain           a class of an installed package
"""

from collections.abc import Mapping
from typing import Any

from assay.errors import ConfigurationError, unknown_choice
from assay.registry import build_plugin, check_options, known_plugins, load_plugin
from environments.base import Domain
from environments.formats.base import Format


def build_domain(domain_id: str, options: Mapping[str, Any] | None = None) -> Domain:
    """The domain. Raises ConfigurationError for an unknown name, wrong options or a package that is missing."""
    format_id, name = _parts(domain_id)
    if not format_id:
        own: Domain = build_plugin("domain", domain_id, dict(options or {}))
        return own
    made: Format = build_plugin("format", format_id, dict(options or {}))
    if missing := made.missing():
        raise ConfigurationError(f"The domain {domain_id!r} cannot be used: {missing}")
    return made.domain(name)


def check_domain(domain_id: str, options: Mapping[str, Any]) -> None:
    """Whether there is such a domain and it has such options; reads no files. Raises ConfigurationError."""
    format_id, name = _parts(domain_id)
    check_options("format" if format_id else "domain", format_id or domain_id, dict(options))
    if not format_id:
        load_plugin("domain", domain_id)
        return
    known = build_plugin("format", format_id, dict(options)).names()
    if known and name not in known:
        raise unknown_choice("domain", domain_id, [f"{format_id}/{each}" for each in known])


def known_domains() -> list[str]:
    """Every domain that can be used here by its name alone, sorted, our own first."""
    foreign = [f"{name}/{each}" for name in known_plugins("format") for each in build_plugin("format", name).names()]
    return [*known_plugins("domain"), *sorted(foreign)]


def _parts(domain_id: str) -> tuple[str, str]:
    """(format, set), or two empty texts for what is no set of a format."""
    format_id, slash, name = domain_id.partition("/")
    return (format_id, name) if slash and name else ("", "")
