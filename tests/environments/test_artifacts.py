"""What an agent leaves, as text and back; only what changed is submitted."""

from hypothesis import given
from hypothesis import strategies as st

from assay.registry import build_plugin
from environments.artifacts import Artifacts, collect, fingerprint, read, write
from environments.sandboxes.base import SandboxSpec

PATHS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(st.dictionaries(PATHS, st.binary(max_size=30), max_size=4), st.lists(PATHS, max_size=3, unique=True))
def test_artifacts_are_the_same_after_writing_and_reading(files: dict[str, bytes], removed: list[str]) -> None:
    runs = tuple(sorted(files)[:1])
    made = Artifacts(files=files, answer="é", refused={"x": "a link"}, executable=runs, removed=tuple(sorted(removed)))
    assert read(write(made)) == made


@given(st.text(max_size=60))
def test_any_other_text_is_empty_artifacts(text: str) -> None:
    for odd in (text, f'{{"answer": "", "files": {{}}, "removed": {text!r}}}'):
        assert isinstance(read(odd), Artifacts)


def test_lists_of_the_wrong_kind_are_no_artifacts() -> None:
    assert read('{"answer": "", "files": {"a": "b"}, "executable": 3}') == Artifacts()


async def test_what_was_there_and_is_the_same_stays_behind_and_what_is_gone_is_named() -> None:
    backend = build_plugin("sandbox", "bubblewrap")
    files = {"same": "1", "changed": "1", "runs": "1", "gone": "1"}
    known = {path: fingerprint(text.encode(), executable=False) for path, text in files.items()}
    sandbox = await backend.create(SandboxSpec(files=files))
    await sandbox.exec("echo 2 > changed; chmod +x runs; rm gone; mkdir d; echo new > d/new; ln -s same link")
    left = await collect(sandbox, ["*"], known=known)
    await sandbox.destroy()
    backend.close()
    assert left.files == {"changed": b"2\n", "d/new": b"new\n", "runs": b"1"}
    assert (left.executable, left.removed, list(left.refused)) == (("runs",), ("gone",), ["link"])
