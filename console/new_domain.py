"""`assay new-domain`: a small domain that is sound from the first moment, to be changed into one's own.

qa, tool, repair    NAME.py with a class, and test_NAME.py; used as NAME:Class
harbor              a folder of task directories; used by its path
"""

import keyword
from pathlib import Path

from assay.errors import ConfigurationError, unknown_choice
from console.output import put, say

TEMPLATES = Path(__file__).with_name("templates") / "new_domain"
KINDS = ("qa", "tool", "repair", "harbor")


def write(name: str, kind: str, folder: Path) -> None:
    """Write the files, print their paths, and say what to do next.

    Raises ConfigurationError for a name that Python cannot import, an unknown kind, or a file that is there already.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise ConfigurationError(
            f"{name!r} cannot name a domain: use a Python name in lower case, for example invoice_totals."
        )
    if kind not in KINDS:
        raise unknown_choice("kind of domain", kind, KINDS)
    files = contents(name, kind)
    if there := [path for path in files if (folder / path).exists()]:
        raise ConfigurationError(f"{folder / there[0]} exists already; choose another name, or another place by --in.")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        if path.endswith(".sh"):
            (folder / path).chmod(0o755)
        put(str(folder / path))
    for line in _next(name, kind, folder):
        say(line)


def contents(name: str, kind: str) -> dict[str, str]:
    """The files by path."""
    if kind == "harbor":
        root = TEMPLATES / "harbor"
        return {
            f"{name}/{path.relative_to(root)}": _filled(path, name)
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
    return {
        f"{name}.py": _filled(TEMPLATES / f"{kind}.py.txt", name),
        f"test_{name}.py": _filled(TEMPLATES / "test.py.txt", name),
    }


def class_name(name: str) -> str:
    """
    >>> class_name("invoice_totals")
    'InvoiceTotals'
    """
    return "".join(part.capitalize() for part in name.split("_"))


def _filled(path: Path, name: str) -> str:
    words = {"DOMAIN_ID": name, "DOMAIN_CLASS": class_name(name), "DOMAIN_TITLE": name.replace("_", " ").capitalize()}
    text = path.read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _next(name: str, kind: str, folder: Path) -> list[str]:
    if kind == "harbor":
        return ["next:", f"  assay inspect {folder / name} --watch"]
    where = [] if folder in (Path(), Path.cwd()) else [f"  cd {folder}"]
    plugin = f"{name}:{class_name(name)}"
    return [
        "next:",
        *where,
        f"  assay inspect {plugin} --watch",
        f"  assay try {plugin}/2",
        f"  assay run --preset smoke --domains {plugin}",
    ]
