"""Templates about programs: scripts that are run on hidden inputs, repairs of them, Makefiles.

What is left is run in a new sandbox on files the agent never saw, so a script that knows the shown input is no use.
"""

from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Check,
    Problem,
    runs,
    size,
    table,
    template,
)

_HEAD = "#!/usr/bin/env bash\nset -eu\n"


def _heredoc(path: str, body: str) -> str:
    return f"cat > {path} <<'SCRIPT'\n{body}SCRIPT"


def _sales(rng: Random, num: int) -> list[tuple[str, int]]:
    return [(rng.choice(WORDS[:6]), rng.randint(1, 400)) for _ in range(num)]


@template("script_sum", "bash", "awk")
def script_sum(rng: Random, level: int) -> Problem:
    """From level 2 on, empty lines and comments must be passed over."""
    noisy, limit = level > 1, rng.randint(20, 120)

    def given(num: int) -> str:
        rows = table(_sales(rng, num), ";")
        return f"# {rng.choice(NAMES)};999\n\n{rows}" if noisy else rows

    def expected(body: str) -> str:
        rows = [row.split(";") for row in body.splitlines() if row and not row.startswith("#")]
        return f"{sum(int(amount) for _, amount in rows if int(amount) > limit)}\n"

    cases = [given(size(level, 8, 20, 60)) for _ in range(3)] + ["a;1\n", f"a;{limit}\nb;{limit + 1}\n"]
    shown = given(6)
    code = _HEAD + f"awk -F';' '!/^#/ && NF > 1 && $2 > {limit} {{s += $2}} END {{print s+0}}' \"$1\"\n"
    told = " Empty lines and lines that start with `#` do not count." if noisy else ""
    return Problem(
        asks=f"Write the bash script `total.sh`: `bash total.sh FILE` prints the sum of the amounts above {limit} in a "
        f"file with lines `NAME;AMOUNT`, and 0 if there is none.{told} `example.txt` is such a file; others will be "
        "tried.",
        files={"example.txt": shown},
        checks=[_script("total.sh", "data.txt", body, expected(body)) for body in cases],
        oracle=_heredoc("total.sh", code),
        wrong=[
            _heredoc("total.sh", code.replace(f"> {limit}", f">= {limit}")),
            _heredoc("total.sh", f"echo {expected(shown)}"),
            _heredoc("total.sh", code.replace("$1", "example.txt")),
            _heredoc("total.sh", code.replace("s+0", "s")),
        ],
        equivalent=[
            _heredoc(
                "total.sh",
                "python3 - \"$1\" <<'X'\nimport sys\nrows = [l.strip().split(';') for l in open(sys.argv[1]) if "
                "l.strip() "
                f"and l[0] != '#']\nprint(sum(int(a) for _, a in rows if int(a) > {limit}))\nX\n",
            )
        ],
    )


def _script(path: str, data: str, body: str, expected: str) -> Check:
    return runs(path, f"bash {path} {data}", expected, {data: body})


@template("script_dedupe", "bash", "awk")
def script_dedupe(rng: Random, level: int) -> Problem:
    """A filter: the first of each key stays, in order; the key is one column."""
    column, last = rng.randint(1, 3), level == 3

    def given(num: int) -> str:
        return table([(rng.choice(WORDS[:5]), rng.choice(NAMES[:5]), rng.choice("xyz")) for _ in range(num)], " ")

    def expected(body: str) -> str:
        rows = body.splitlines()
        rows = rows[::-1] if last else rows
        found: dict[str, str] = {}
        for row in rows:
            found.setdefault(row.split()[column - 1], row)
        kept = list(found.values())
        return "".join(f"{row}\n" for row in (kept[::-1] if last else kept))

    # The last ones tell the first from the last of a key, and order from sorting.
    cases = [given(size(level, 10, 20, 40)) for _ in range(3)] + [
        "c a x\nb b y\nc a x\na b y\nd a z\n",
        "z z z\ny y y\nx x x\n",
    ]
    awk = f"awk '!seen[${column}]++'"
    filtered = f"tac | {awk} | tac" if last else awk
    which = "last" if last else "first"
    return Problem(
        asks="Write the bash script `first.sh`, a filter from standard input to standard output: of the lines that "
        "have "
        f"the same column {column} (columns are separated by one space) it keeps the {which} one; the order of the "
        "lines "
        "that stay is not changed. It will be tried on inputs that are not shown.",
        files={"example.txt": given(6)},
        checks=[runs("first.sh", "bash first.sh < in.txt", expected(body), {"in.txt": body}) for body in cases],
        oracle=_heredoc("first.sh", f"{_HEAD}{filtered}\n"),
        wrong=[
            _heredoc("first.sh", f"{_HEAD}sort -u -k{column},{column}\n"),
            _heredoc("first.sh", f"{_HEAD}{awk if last else f'tac | {awk} | tac'}\n"),
            _heredoc("first.sh", f"{_HEAD}{filtered.replace(f'${column}', f'${column % 3 + 1}')}\n"),
            f"{filtered} < example.txt > first.sh",
        ],
        equivalent=[
            _heredoc(
                "first.sh",
                'python3 -c "import sys; d={}\nrows=sys.stdin.read().splitlines()\n'
                f"{'rows=rows[::-1]' if last else ''}\n"
                f"for r in rows: d.setdefault(r.split(' ')[{column - 1}], r)\nout=list(d.values())\n"
                f"print(*({'out[::-1]' if last else 'out'}), sep='\\n')\"\n",
            )
        ],
    )


_FAULTS = {
    "spaces": ('for f in "$1"/*.txt; do', "for f in $(ls $1/*.txt); do"),
    "off by one": ("total=0", "total=1"),
    "wrong count": ('wc -l < "$f"', 'wc -w < "$f"'),
    "wrong ending": ('"$1"/*.txt', '"$1"/*'),
    "wrong limit": ("-gt LIMIT", "-ge LIMIT"),
}
_COUNTS = """#!/usr/bin/env bash
set -eu
total=0
for f in "$1"/*.txt; do
  n=$(wc -l < "$f")
  if [ "$n" -gt LIMIT ]; then
    echo "$(basename "$f"): $n"
    total=$((total + n))
  fi
done
echo "total: $total"
"""


@template("repair_script", "bash", "wc")
def repair_script(rng: Random, level: int) -> Problem:
    limit = rng.randint(2, 30)
    faults = rng.sample(sorted(_FAULTS), size(level, 1, 2, 3))
    right = _COUNTS.replace("LIMIT", str(limit))
    broken = _COUNTS
    # Each fault is put in at its own place; "spaces" and "wrong ending" share a line, so that one comes first.
    for fault in sorted(faults, key=lambda name: name != "spaces"):
        broken = broken.replace(*_FAULTS[fault])
    broken = broken.replace("LIMIT", str(limit))
    if broken == right:
        raise AssertionError(f"repair_script: {faults} change nothing")

    def case(sizes: dict[str, int]) -> Check:
        shown = [(name, n) for name, n in sorted(sizes.items()) if name.endswith(".txt") and n > limit]
        out = "".join(f"{name}: {n}\n" for name, n in shown) + f"total: {sum(n for _, n in shown)}\n"
        files = {f"d/{name}": "one two\n" * n for name, n in sizes.items()}
        return runs("count.sh", "bash count.sh d 2>&1", out, files)

    name = rng.choice(WORDS)
    cases = [
        case({f"{name} 1.txt": limit + 2, "b.txt": limit, "c.log": limit + 5, "z.txt": limit + rng.randint(1, 9)}),
        case({"a b c.txt": limit + rng.randint(1, 9), f"{name}.txt": limit, f"{name}.md": limit + 3}),
    ]
    return Problem(
        asks="`count.sh` is broken. `bash count.sh FOLDER` is to print, for each file of the folder whose name ends in "
        f"`.txt` (names may hold spaces) and that has more than {limit} lines, in alphabetical order, `NAME: "
        "LINES`, and at "
        "the end `total: N` with the sum of these lines. Repair it; it will be tried on other folders.",
        files={"count.sh": broken, "d/one.txt": "x\n" * (limit + 1), "d/two.txt": "x\n"},
        checks=cases,
        oracle=_heredoc("count.sh", right),
        wrong=[
            "sed -i 's/total=0/total=2/; s/total=1/total=2/' count.sh",
            _heredoc("count.sh", f"echo 'one.txt: {limit + 1}'; echo 'total: {limit + 1}'\n"),
            f"{_heredoc('fixed.sh', right)}",
        ],
        equivalent=[
            _heredoc(
                "count.sh",
                "cd \"$1\"; wc -l *.txt | grep -v '^ *[0-9]* total$' | while read -r n f; do "
                f'[ $n -gt {limit} ] && echo "$f: $n" || true; done | tee /tmp/o\n'
                "echo \"total: $(sed 's/.*: //' /tmp/o | awk '{s+=$1} END {print s+0}')\"\n",
            )
        ],
    )


@template("write_makefile", "make")
def write_makefile(rng: Random, level: int) -> Problem:
    """The Makefile is tried on a clean folder with other parts, then after one part has changed."""
    out = f"{rng.choice(WORDS)}.txt"
    ending = rng.choice(["part", "txt.in", "piece"])

    def case(num: int, then: bool) -> Check:
        parts = {f"src/{word}.{ending}": f"{rng.randint(1, 9999)}\n" for word in rng.sample(WORDS, num)}
        body = "".join(parts[path].upper() for path in sorted(parts))
        command = f"make -s >/dev/null 2>&1; cat build/{out}"
        if then:
            first = min(parts)
            parts[first] = "old\n"
            body = "NEW\n" + "".join(parts[path] for path in sorted(parts)[1:])
            command = (
                f"make -s >/dev/null 2>&1; sleep 0.05; echo new > {first}; make -s >/dev/null 2>&1; cat build/{out}"
            )
        return runs("Makefile", command, body, {**parts, "src/readme.md": "not a part\n"})

    cases = [case(3, False), case(size(level, 4, 6, 9), False), case(3, True)]
    if level > 1:
        cases.append(
            runs(
                "Makefile",
                f"make -s >/dev/null 2>&1; make -s clean >/dev/null 2>&1; ls; test -e build/{out} || echo gone",
                "Makefile\nsrc\ngone\n",
                {f"src/a.{ending}": "a\n"},
            )
        )
    made = (
        f"build/{out}: $(sort $(wildcard src/*.{ending}))\n\tmkdir -p build\n\tcat $^ | tr a-z A-Z > $@\n\n"
        ".PHONY: clean\nclean:\n\trm -rf build\n"
    )
    return Problem(
        asks=f"Write a `Makefile` whose first target makes `build/{out}`: the files `src/*.{ending}` in "
        "alphabetical order "
        f"one after the other, with the letters a-z in upper case. `make` must make it anew when a part has changed, "
        "and `make clean` must remove the folder `build`. It will be tried with other parts.",
        files={f"src/{name}.{ending}": f"{name}\n" for name in rng.sample(NAMES, 3)},
        checks=cases,
        oracle=_heredoc("Makefile", made),
        wrong=[
            _heredoc("Makefile", made.replace(" | tr a-z A-Z", "")),
            _heredoc(
                "Makefile", made.replace(f"$(sort $(wildcard src/*.{ending}))", "").replace("$^", f"src/*.{ending}")
            ),
            _heredoc("Makefile", made.replace("\t", "    ")),
            f"mkdir build; cat src/*.{ending} | tr a-z A-Z > build/{out}",
        ],
        equivalent=[
            _heredoc(
                "Makefile",
                f"all:\n\tmkdir -p build\n\tcat src/*.{ending} | tr '[:lower:]' '[:upper:]' > build/{out}\n"
                "clean:\n\trm -r build\n.PHONY: all clean\n",
            )
        ],
    )


TEMPLATES = (script_sum, script_dedupe, repair_script, write_makefile)
