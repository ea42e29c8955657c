"""Templates about git: histories are made in the sandbox; the repositories that are left are read in a new one."""

from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Problem,
    answered,
    lines,
    runs,
    size,
    template,
    text,
)

# Folders without files do not travel, but git wants these two.
_READY = "mkdir -p repo/.git/objects repo/.git/refs; "
_GIT = "git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c safe.directory='*' -C repo"
_WHO = "git config user.name worker; git config user.email worker@example.org"


def _begin(num: int = 0) -> str:
    """A new repository with a fixed identity, and a function `keep MESSAGE` that commits at its own fixed time."""
    return (
        "mkdir repo && cd repo && git init -q -b main && git config gc.auto 0\n"
        f"{_WHO}\ntick={num}\n"
        'keep() { git add -A; tick=$((tick+1)); at="2025-01-01T00:$(printf %02d $tick):00Z"; '
        'GIT_AUTHOR_DATE=$at GIT_COMMITTER_DATE=$at git commit -q -m "$1"; }\n'
        "rm -rf .git/hooks\n"
    )


@template("git_find_commit", "git", "sed")
def git_find_commit(rng: Random, level: int) -> Problem:
    """Which commit brought a value in; the message is the answer, as hashes are not known beforehand."""
    num = size(level, 5, 10, 18)
    messages = [
        f"{rng.choice(['change', 'tune', 'set'])} {word} {rng.randint(10, 99)}" for word in rng.sample(WORDS, num)
    ]
    key, first = rng.choice(NAMES), rng.randrange(1, num - 2)
    value = rng.randint(1000, 9999)
    steps = []
    for i, message in enumerate(messages):
        now = value if i >= first else value - 500
        steps.append(f"printf '{key} = {now}\\nstep = {i}\\n' > app.cfg; keep '{message}'")
    author = f"git -C repo log --reverse --format=%s -S'{key} = {value}' -- app.cfg | head -n 1"
    return Problem(
        asks=f"In the git repository `repo`, which commit first set `{key}` to {value} in `app.cfg`? Write its subject "
        "line to `commit.txt` and give it as your answer.",
        files={"readme.txt": "The repository is in repo.\n"},
        setup=_begin() + "\n".join(steps),
        has_state_hash=False,
        checks=[answered(messages[first]), lines("commit.txt", [messages[first]])],
        oracle=f"{author} > commit.txt",
        wrong=[
            "git -C repo log -1 --format=%s > commit.txt",
            f"{author.replace(' | head', ' | cat | tail').replace('-S', '--grep=')} > commit.txt",
            f"git -C repo log --reverse --format=%s | sed -n {first}p > commit.txt",
        ],
        equivalent=[
            (
                f"cd repo; git log --format=%s -1 $(git blame -l -s app.cfg | grep '{key} = {value}' | cut -d' ' -f1 "
                "| tr -d '^') > ../commit.txt"
            )
        ],
    )


@template("git_restore_file", "git")
def git_restore_file(rng: Random, level: int) -> Problem:
    name, num = f"{rng.choice(WORDS)}.txt", size(level, 2, 4, 8)
    bodies = [f"{rng.choice(NAMES)} {rng.randint(1000, 99999)}\n" for _ in range(num)]
    steps = [f"printf '{body[:-1]}\\n' > {name}; keep 'write {i}'" for i, body in enumerate(bodies)]
    steps += [f"git rm -q {name}; keep 'clean up'", "echo later > other.txt; keep 'more work'"]
    last = f"$(git rev-list -n 1 HEAD -- {name})"
    return Problem(
        asks=f"In the git repository `repo` the file `{name}` was deleted by mistake in some commit. Bring it back "
        "as it "
        f"was just before, as the working file `repo/{name}`, without undoing anything else and without a new commit.",
        files={"readme.txt": "The repository is in repo.\n"},
        setup=_begin() + "\n".join(steps),
        has_state_hash=False,
        collected=["repo/*"],
        checks=[
            text(f"repo/{name}", bodies[-1]),
            runs("repo", f"{_READY}cat repo/{name}; {_GIT} log --format=%s | wc -l; ls repo", f"{bodies[-1]}{num + 2}\n"
                 + "".join(f"{each}\n" for each in sorted([name, 'other.txt']))),
        ],
        oracle=f"cd repo; git checkout -q {last}^ -- {name}; cd ..",
        wrong=[
            f"cd repo; git checkout -q $(git rev-list HEAD -- {name} | tail -n 1) -- {name}; cd ..",
            "cd repo; git reset -q --hard HEAD~2; cd ..",
            f"cd repo; git checkout -q {last}^ -- {name}; git commit -q -m back; cd ..",
        ],
        equivalent=[f"cd repo; git show {last}~1:{name} > {name}; cd .."],
    )  # fmt: skip


@template("git_merge_branch", "git")
def git_merge_branch(rng: Random, level: int) -> Problem:
    """A conflict in one line; the instruction says which side wins."""
    ours, theirs = rng.sample(range(100, 999), 2)
    wins = rng.choice(["main", "work"])
    keys = rng.sample(NAMES, size(level, 3, 5, 8))
    rows = [f"{key} = {rng.randint(1, 99)}" for key in keys]

    def body(first: str, last: str = "") -> str:
        return "\n".join([first, *rows[1:], *([last] if last else [])]) + "\n"

    extra = rng.choice(WORDS)
    final = body(f"{keys[0]} = {ours if wins == 'main' else theirs}")
    steps = [
        f"printf '{body(rows[0])}' > app.cfg; keep start",
        (
            f"git checkout -q -b work; printf '{body(f'{keys[0]} = {theirs}')}' > app.cfg; echo {extra} > {extra}.txt; "
            "keep work"
        ),
        f"git checkout -q main; printf '{body(f'{keys[0]} = {ours}')}' > app.cfg; keep here",
    ]
    setup = _begin() + "\n".join(
        step.replace("\n", "\\n") if step.startswith(("printf", "git")) else step for step in steps
    )
    option = {"main": "ours", "work": "theirs"}
    show = (
        f"{_GIT} show main:app.cfg; {_GIT} show main:{extra}.txt; {_GIT} merge-base --is-ancestor work main && echo "
        "merged; "
        f"{_GIT} log --format=%s main | sort | head -n 9 | grep -c -e start -e here -e '^work$'"
    )
    return Problem(
        asks="In the git repository `repo`, merge the branch `work` into `main` with a merge commit on `main`. "
        "Where both "
        f"changed the same line, the version of `{wins}` is right; keep everything else of both. Keep `work` itself "
        "as it "
        "is.",
        files={"readme.txt": "The repository is in repo.\n"},
        setup=setup,
        has_state_hash=False,
        collected=["repo/*"],
        checks=[runs("repo", _READY + show, f"{final}{extra}\nmerged\n3\n")],
        oracle=f"git -C repo merge -q -X {option[wins]} -m merged work",
        wrong=[
            f"git -C repo merge -q -X {option['work' if wins == 'main' else 'main']} -m merged work",
            "git -C repo merge -q -s ours -m merged work",
            f"cd repo; printf '{final}' > app.cfg; echo {extra} > {extra}.txt; git add -A; git commit -q -m merged",
            "git -C repo merge -q -m merged work; true",
        ],
        equivalent=[
            (
                f"cd repo; git merge -q work > /dev/null; git checkout -q --{option[wins]} app.cfg; git add app.cfg; "
                "git commit -q -m merged; git status -s"
            )
        ],
    )


@template("git_undo_commit", "git")
def git_undo_commit(rng: Random, level: int) -> Problem:
    """One commit in the middle is reverted by a new commit; the history stays."""
    names = rng.sample(WORDS, size(level, 4, 7, 12))
    bad = rng.choice(names[1:-1])
    values = {name: rng.randint(1, 9999) for name in names}
    steps = [f"echo {values[name]} > {name}.txt; keep 'add {name}'" for name in names]
    show = (
        f"{_GIT} ls-tree --name-only main; {_GIT} log --format=%s main | grep -c '^add '; {_GIT} rev-list --count main"
    )
    files = "".join(f"{name}.txt\n" for name in sorted(names) if name != bad)
    undo = f"git log --format=%H --grep='add {bad}'"
    return Problem(
        asks=f"In the git repository `repo`, undo what the commit `add {bad}` on `main` did by one new commit on "
        "`main`; the "
        "commits that are there stay as they are.",
        files={"readme.txt": "The repository is in repo.\n"},
        setup=_begin() + "\n".join(steps),
        has_state_hash=False,
        collected=["repo/*"],
        checks=[runs("repo", _READY + show, f"{files}{len(names)}\n{len(names) + 1}\n")],
        oracle=f"cd repo; git revert --no-edit $({undo}) > /dev/null; cd ..",
        wrong=[
            f"cd repo; git rebase -q --onto $({undo})^ $({undo}) main; cd ..",
            "cd repo; git revert --no-edit HEAD > /dev/null; cd ..",
            f"cd repo; git rm -q {bad}.txt; cd ..",
            "cd repo; git reset -q --hard HEAD~1; cd ..",
        ],
        equivalent=[f"cd repo; git rm -q {bad}.txt; git commit -q -m 'without {bad}'; cd .."],
    )


TEMPLATES = (git_find_commit, git_restore_file, git_merge_branch, git_undo_commit)
