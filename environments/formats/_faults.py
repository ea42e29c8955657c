"""What is wrong with something foreign, as an error that becomes a line of `left_out`: key, value, what is allowed."""

from typing import Any

from pydantic import ValidationError

from environments.base import LeftOut

_SHOWN = 80


class Unusable(Exception):
    """A foreign task that cannot become one of ours. `unsupported`: it is sound, but not possible here."""

    def __init__(self, why: str, *, key: str = "", value: Any = None, unsupported: bool = False) -> None:
        super().__init__(why)
        self.why, self.key, self.unsupported = why, key, unsupported
        self.value = shown(value)

    def left_out(self, where: str) -> LeftOut:
        """The line about the file or id `where`."""
        return LeftOut(
            where=plain(where), why=plain(self.why), key=self.key, value=self.value, unsupported=self.unsupported
        )


def unsupported(why: str, key: str, value: Any) -> Unusable:
    """What is sound but cannot be done here."""
    return Unusable(why, key=key, value=value, unsupported=True)


def invalid(error: ValidationError) -> Unusable:
    """The first thing a model found wrong, and how many more there are."""
    first, *others = error.errors(include_url=False)
    more = f" (and {len(others)} more)" if others else ""
    missing = first["type"] == "missing"
    value = "nothing" if missing else first.get("input")
    why = "this key is required" if missing else first["msg"]
    return Unusable(f"{why}{more}", key=".".join(map(str, first["loc"])) or "the whole", value=value)


def shown(value: Any) -> str:
    """A value in a few words; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple, dict, set)):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"a huge {type(value).__name__}"
    text = plain(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def plain(text: str) -> str:
    """Text that can be stored: what UTF-8 cannot express becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
