"""Artifacts: what comes out of a sandbox as text, and back, whatever it is."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.registry import build_plugin
from environments import artifacts
from environments.artifacts import MAX_FILES, Artifacts, collect, read, write
from environments.sandboxes.base import Backend, SandboxSpec


@pytest.fixture
def sandboxes() -> Backend:
    return build_plugin("sandbox", "bubblewrap")


ODD = 'ab/. \n"\\{\u00e9\u202e\U0001f986'  # a fixed alphabet: building the tables of all Unicode takes seconds
texts, paths = st.text(ODD, max_size=20), st.text(ODD, min_size=1, max_size=20)
contents = st.binary(max_size=60) | texts.map(str.encode)


@given(files=st.dictionaries(paths, contents, max_size=5), answer=texts, refused=st.dictionaries(paths, texts))
def test_what_is_written_is_read_back_whatever_the_bytes(
    files: dict[str, bytes], answer: str, refused: dict[str, str]
) -> None:
    left = Artifacts(files=files, answer=answer, refused=refused)
    text = write(left)
    assert read(text) == left
    assert write(read(text)) == text
    json.loads(text)


def test_equal_artifacts_give_equal_texts_in_whatever_order() -> None:
    assert write(Artifacts(files={"a": b"1", "b": b"2"})) == write(Artifacts(files={"b": b"2", "a": b"1"}))
    assert write(Artifacts(files={"a": b"x"}, answer="y")) == '{"answer":"y","files":{"a":"x"}}'


def test_names_that_utf8_cannot_express_are_written_with_a_mark() -> None:
    text = write(Artifacts(files={"a\udcff": b"1"}, answer="\ud800"))
    assert read(text) == Artifacts(files={"a?": b"1"}, answer="?")


@pytest.mark.parametrize(
    "junk",
    [
        "",
        " ",
        "null",
        "[]",
        "7",
        '"files"',
        "{}",
        '{"files": {}}',
        '{"answer": "", "files": []}',
        '{"answer": "", "files": {"a": 1}}',
        '{"answer": "", "files": {"a": {"base64": "%%%"}}}',
        '{"answer": "", "files": {"a": {"hex": "00"}}}',
        '{"answer": "", "files": {}, "refused": 3}',
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        "\ud800",
    ],
)
def test_junk_reads_as_empty(junk: str) -> None:
    assert read(junk) == Artifacts()


@given(st.text(ODD + '[]}":,0', max_size=200))
def test_no_text_makes_reading_raise(text: str) -> None:
    assert isinstance(read(text), Artifacts)


def test_a_file_as_text_marks_what_is_not_utf8() -> None:
    left = Artifacts(files={"a": "é".encode(), "b": b"\xff!"})
    assert (left.text("a"), left.text("b"), left.text("c")) == ("é", "\ufffd!", None)


async def test_only_files_that_match_a_pattern_are_collected(sandboxes: Backend) -> None:
    given: dict[str, str | bytes] = {"out/a.txt": "1", "out/deep/b.txt": "2", "out/c.log": "3", "d.txt": b"\xff"}
    sandbox = await sandboxes.create(SandboxSpec(files=given))
    try:
        left = await collect(sandbox, ["out/*.txt", "d.*"])
        assert left == Artifacts(files={"d.txt": b"\xff", "out/a.txt": b"1", "out/deep/b.txt": b"2"})
        assert (await collect(sandbox, [])).files == {}
    finally:
        await sandbox.destroy()


async def test_what_is_too_much_stays_behind_with_the_reason(sandboxes: Backend) -> None:
    sandbox = await sandboxes.create(SandboxSpec(files={"a": "x" * 60, "b": "x" * 60, "c": "x" * 40, "d": "x" * 101}))
    try:
        left = await collect(sandbox, ["*"], max_bytes=100)
    finally:
        await sandbox.destroy()
    assert set(left.files) == {"a", "c"}
    assert set(left.refused) == {"b", "d"}
    assert "100 bytes" in left.refused["b"]


async def test_at_most_so_many_files_are_collected(sandboxes: Backend) -> None:
    sandbox = await sandboxes.create(SandboxSpec())
    try:
        await sandbox.exec(["bash", "-c", f"for i in $(seq {MAX_FILES + 3}); do echo > f$i; done"])
        left = await collect(sandbox, ["f*"])
    finally:
        await sandbox.destroy()
    assert (len(left.files), len(left.refused)) == (MAX_FILES, 3)


async def test_links_are_refused_and_nothing_outside_is_read(sandboxes: Backend, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    sandbox = await sandboxes.create(SandboxSpec(files={"real": "1"}))
    try:
        await sandbox.exec(["bash", "-c", f"ln -s {tmp_path}/secret out; ln -s real near; ln real twin; mkfifo pipe"])
        left = await collect(sandbox, ["*"])
    finally:
        await sandbox.destroy()
    assert left.files == {}
    assert {"out", "near", "pipe", "real", "twin"} <= set(left.refused)
    assert "secret" not in artifacts.write(left).replace(str(tmp_path), "")
