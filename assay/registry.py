"""Plugins: one file each, `id` = module name in its folder; a dotted id names a class outside the repository.

    load_plugin("sandbox", "bubblewrap")     -> class in environments/sandboxes/bubblewrap.py
    load_plugin("engine", "my.pkg:MyEngine") -> class in an installed package

The class carries `id` and a nested pydantic `Config`; `build_plugin` validates options against it.
"""

import importlib
import pkgutil
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from assay.errors import ConfigurationError, unknown_choice

HOMES = {
    "domain": "environments.domains",
    "format": "environments.formats",
    "sandbox": "environments.sandboxes",
    "engine": "rollouts.engines",
    "trainer": "training.backends",
    "store": "storage.backends",
    "probe": "quality.probes",
}


class PluginConfig(BaseModel):
    """Base of every plugin's nested `Config`: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def known_plugins(kind: str) -> list[str]:
    """Ids of the plugins of one kind that ship with Assay, sorted."""
    package = importlib.import_module(_home(kind))
    names = [m.name for m in pkgutil.iter_modules(package.__path__)]
    return sorted(name for name in names if name != "base" and not name.startswith("_"))


def load_plugin(kind: str, plugin_id: str) -> type[Any]:
    """The plugin's class; ConfigurationError names the known ids when there is none."""
    if "." in plugin_id or ":" in plugin_id:
        return _foreign(kind, plugin_id)
    if plugin_id not in known_plugins(kind):
        raise unknown_choice(kind, plugin_id, known_plugins(kind))
    module = importlib.import_module(f"{_home(kind)}.{plugin_id}")
    return _class_in(module, plugin_id)


def check_options(kind: str, plugin_id: str, options: dict[str, Any]) -> Any:
    """The plugin's validated `Config`; ConfigurationError names each wrong key with its path."""
    cls = load_plugin(kind, plugin_id)
    try:
        return cls.Config(**options)
    except ValidationError as error:
        raise ConfigurationError(_explain(kind, plugin_id, cls, error)) from error


def build_plugin(kind: str, plugin_id: str, options: dict[str, Any] | None = None) -> Any:
    """An instance made from its validated options."""
    config = check_options(kind, plugin_id, options or {})
    return load_plugin(kind, plugin_id)(config)


def _home(kind: str) -> str:
    if kind not in HOMES:
        raise unknown_choice("plugin kind", kind, HOMES)
    return HOMES[kind]


def _class_in(module: Any, plugin_id: str) -> type[Any]:
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "id", None) == plugin_id and value.__module__ == module.__name__:
            return value
    raise ConfigurationError(f"{module.__name__} has no class with id {plugin_id!r}; give the plugin class that id.")


def _foreign(kind: str, dotted: str) -> type[Any]:
    module_name, _, attribute = dotted.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(known_plugins(kind))
        raise ConfigurationError(
            f"Cannot import {kind} {dotted!r}: {error}. Use one of {known}, or module:Class that imports."
        ) from error


def _explain(kind: str, plugin_id: str, cls: type[Any], error: ValidationError) -> str:
    allowed = ", ".join(cls.Config.model_fields) or "no options"
    problems = "; ".join(
        f"{kind}.{plugin_id}.{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e.get('input')!r})"
        for e in error.errors()
    )
    return f"{problems}. Allowed keys: {allowed}."
