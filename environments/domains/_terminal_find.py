"""Templates about files: which there are, what is in them, whether they are intact, packing and renaming them."""

import hashlib
from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Problem,
    answered,
    line_set,
    lines,
    runs,
    size,
    template,
    text,
)


def _tree(rng: Random, num: int, endings: tuple[str, ...] = (".txt", ".log", ".md", ".cfg")) -> list[str]:
    """Paths in nested folders, all different."""
    found: set[str] = set()
    while len(found) < num:
        folders = rng.sample(WORDS[:8], rng.randint(1, 3))
        found.add("/".join(["tree", *folders, f"{rng.choice(WORDS)}{rng.randint(1, 99)}{rng.choice(endings)}"]))
    return sorted(found)


@template("find_by_ending", "find", "sort")
def find_by_ending(rng: Random, level: int) -> Problem:
    paths = _tree(rng, size(level, 10, 25, 60))
    ending = rng.choice([".txt", ".log", ".md"])
    folder = paths[rng.randrange(len(paths))].rsplit("/", 1)[0]
    paths = sorted({*paths, f"{folder}/x{ending}", f"{folder}/y{ending}.old", f"{folder}/.hidden{ending}"})
    right = [path for path in paths if path.endswith(ending)]
    return Problem(
        asks=f"Write the paths of all files below `tree` whose name ends in `{ending}` (hidden ones too) to "
        "`found.txt`, one a line, such as `tree/a/b.txt`, in any order.",
        files={path: f"{rng.random()}\n" for path in paths},
        checks=[line_set("found.txt", right)],
        oracle=f"find tree -type f -name '*{ending}' > found.txt",
        wrong=[
            f"find tree -type f -name '*{ending}*' > found.txt",
            f"find tree -type f -name '*{ending}' ! -name '.*' > found.txt",
            f"cd tree; find . -type f -name '*{ending}' > ../found.txt",
        ],
        equivalent=[f"find tree -type f | grep '\\{ending}$' | sort -r > found.txt"],
    )


@template("largest_files", "find", "sort", "head")
def largest_files(rng: Random, level: int) -> Problem:
    paths = _tree(rng, size(level, 8, 20, 40))
    sizes = rng.sample(range(3, 4000), len(paths))
    num = rng.randint(2, 5)
    ranked = sorted(zip(sizes, paths, strict=True), reverse=True)
    rows = [f"{nbytes} {path}" for nbytes, path in ranked]
    return Problem(
        asks=f"Write the {num} largest files below `tree` to `largest.txt`, largest first, one a line: the size in "
        "bytes, a space, the path (such as `120 tree/a/b.txt`).",
        files={path: "x" * nbytes for nbytes, path in ranked},
        checks=[lines("largest.txt", rows[:num])],
        oracle=f"find tree -type f -printf '%s %p\\n' | sort -rn | head -n {num} > largest.txt",
        wrong=[
            f"find tree -type f -printf '%s %p\\n' | sort -rn | head -n {num - 1} > largest.txt",
            f"find tree -type f -printf '%s %p\\n' | sort -n | head -n {num} > largest.txt",
            f"find tree -type f -printf '%s %p\\n' | sort -rn | head -n {num + 1} > largest.txt",
        ],
        equivalent=[
            (
                f'find tree -type f | while read -r f; do echo "$(wc -c < $f) $f"; done | sort -k1,1nr | sed {num}q '
                "> largest.txt"
            )
        ],
    )


@template("count_matches", "grep")
def count_matches(rng: Random, level: int) -> Problem:
    """Lines that hold a word as a whole word, over a tree; the number is the answer."""
    paths, word = _tree(rng, size(level, 5, 12, 30)), rng.choice(WORDS)
    right, files = 0, {}
    for path in paths:
        body = []
        for _ in range(rng.randint(3, 12)):
            drawn = rng.choice([word, word, f"{word}s", f"un{word}", word.upper(), "", ""])
            twice = f" {word}" if drawn == word and rng.random() < 0.3 else ""
            body.append(f"{rng.choice(NAMES)} {drawn}{twice} {rng.randint(1, 999)}")
            right += drawn == word
        files[path] = "\n".join(body) + "\n"
    files[paths[0]] += f"x {word}s\ny un{word}\nz {word.upper()}\n"
    count = f"grep -rhw {word} tree | wc -l"
    return Problem(
        asks=f"How many lines in the files below `tree` hold `{word}` as a whole word, in lower case? Count a line "
        "once. Write the number to `count.txt` and give it as your answer when you finish.",
        files=files,
        checks=[answered(right), lines("count.txt", [right])],
        oracle=f"{count} > count.txt",
        wrong=[
            f"grep -rh {word} tree | wc -l > count.txt",
            f"grep -rhwi {word} tree | wc -l > count.txt",
            f"echo {right + 1} > count.txt",
        ],
        equivalent=[f"find tree -type f -exec cat {{}} + | grep -cE '\\b{word}\\b' > count.txt"],
    )


@template("verify_checksums", "sha256sum")
def verify_checksums(rng: Random, level: int) -> Problem:
    names = sorted(f"{word}.dat" for word in rng.sample(WORDS, size(level, 6, 12, 24)))
    files = {f"data/{name}": f"{rng.getrandbits(64):x}\n" for name in names}
    bad = sorted(rng.sample(names, rng.randint(2, 4)))
    sums = "".join(f"{hashlib.sha256(files[f'data/{name}'].encode()).hexdigest()}  {name}\n" for name in names)
    spoilt = {f"data/{name}": files[f"data/{name}"][:-2] + "\n" for name in bad}
    missing = bad[0]
    given = {**files, **spoilt}
    del given[f"data/{missing}"]
    return Problem(
        asks="`data/SHA256SUMS` lists checksums of files in `data`. Write the names of the files that are damaged or "
        "missing to `bad.txt`, one a line, in any order.",
        files={**given, "data/SHA256SUMS": sums},
        checks=[line_set("bad.txt", bad)],
        kept=["data/SHA256SUMS"],
        oracle="cd data\nsha256sum -c SHA256SUMS 2>/dev/null | grep -v ': OK$' | cut -d: -f1 > ../bad.txt\ncd ..",
        wrong=[
            "cd data; sha256sum -c SHA256SUMS 2>/dev/null | grep ': OK$' | cut -d: -f1 > ../bad.txt; cd ..",
            "cd data; sha256sum --ignore-missing -c SHA256SUMS 2>/dev/null | grep -v OK | cut -d: -f1 > ../bad.txt",
            "cd data; sha256sum *.dat > SHA256SUMS; touch ../bad.txt",
        ],
        equivalent=[
            (
                'while read -r sum name; do test "$(sha256sum < data/$name 2>/dev/null | cut -c1-64)" = $sum || '
                "echo $name; done < data/SHA256SUMS 2>/dev/null > bad.txt"
            )
        ],
    )


@template("duplicates", "sha256sum", "sort", "uniq", "awk")
def duplicates(rng: Random, level: int) -> Problem:
    paths = _tree(rng, size(level, 8, 18, 40))
    num = len(paths) // 3
    bodies = [f"{rng.getrandbits(48):012x}\n" for _ in range(len(paths) - num)]
    bodies += [rng.choice(bodies[:num]) for _ in range(num)]
    rng.shuffle(bodies)
    files = dict(zip(paths, bodies, strict=True))
    right = [path for path in paths if bodies.count(files[path]) > 1]
    hashes = "find tree -type f -exec sha256sum {} + | sort"
    return Problem(
        asks="Write to `same.txt` the path of every file below `tree` that has the same content as at least one other "
        "file below `tree`: all of them, one a line, in any order.",
        files=files,
        checks=[line_set("same.txt", right)],
        oracle=f"{hashes} | uniq -w64 -D | cut -c67- > same.txt",
        wrong=[
            f"{hashes} | uniq -w64 -d | cut -c67- > same.txt",
            f"{hashes} | uniq -w64 -u | cut -c67- > same.txt",
            "find tree -type f > same.txt",
        ],
        equivalent=[(f"{hashes} | awk '{{n[$1]++; p[NR]=$2; h[NR]=$1}} END {{for(i=1;i<=NR;i++) "
                    "if(n[h[i]]>1) print p[i]}' > same.txt")],
    )  # fmt: skip


@template("writable_by_others", "find", "chmod")
def writable_by_others(rng: Random, level: int) -> Problem:
    paths = _tree(rng, size(level, 6, 15, 40))
    modes = [rng.choice(["644", "600", "664", "666", "646", "777", "755"]) for _ in paths]
    modes[0], modes[1] = "666", "664"
    right = [path for path, mode in zip(paths, modes, strict=True) if int(mode[2]) & 2]
    return Problem(
        asks="Write the paths of all files below `tree` that users who are neither owner nor in the group may write "
        "to `open.txt`, one a line, in any order.",
        files=dict.fromkeys(paths, "x\n"),
        setup="\n".join(f"chmod {mode} {path}" for mode, path in zip(modes, paths, strict=True)),
        checks=[line_set("open.txt", right)],
        oracle="find tree -type f -perm -o+w > open.txt",
        wrong=[
            "find tree -type f -perm /g+w > open.txt",
            "find tree -type f -perm 666 -print > open.txt; echo tree/none >> open.txt",
            "chmod -R o-w tree; find tree -type f -perm -o+w > open.txt",
        ],
        equivalent=["find tree -type f -printf '%m %p\\n' | awk '$1 ~ /[2367]$/ {print $2}' > open.txt"],
    )


@template("archive_with_modes", "tar", "gzip", "chmod")
def archive_with_modes(rng: Random, level: int) -> Problem:
    """A tar file is the artifact, so the modes can be judged."""
    names = sorted(rng.sample(WORDS, size(level, 3, 6, 12)))
    kinds = {name: rng.choice(["sh", "key", "txt"]) for name in names}
    kinds[names[0]], kinds[names[1]], kinds[names[2]] = "sh", "key", "txt"
    modes = {"sh": rng.choice(["750", "755", "700"]), "key": rng.choice(["600", "400"]), "txt": "640"}
    files = {f"app/{name}.{kind}": f"{rng.getrandbits(40)}\n" for name, kind in kinds.items()}
    told = "".join(f"{int(modes[path.rsplit('.', 1)[1]], 8):o} {path} {files[path]}" for path in sorted(files))
    show = "mkdir -p o && tar -xpzf app.tar.gz -C o && cd o && find . -type f -printf '%m %P ' -exec cat {} \\; "
    pack = "tar -czf app.tar.gz app"
    fix = "".join(f"find app -name '*.{kind}' -exec chmod {mode} {{}} +\n" for kind, mode in modes.items())
    return Problem(
        asks="Give the files in `app` these permissions: "
        + ", ".join(f"`*.{kind}` {mode}" for kind, mode in modes.items())
        + " (octal). Then pack the folder as the gzipped tar `app.tar.gz`, with members such as `app/x.txt`.",
        files=files,
        has_state_hash=False,  # an archive holds times
        checks=[runs("app.tar.gz", f"{show} | sort -k2", told)],
        oracle=f"{fix}{pack}",
        wrong=[pack, f"{pack}\n{fix}", f"{fix}cd app && tar -czf ../app.tar.gz .", f"{fix}tar -cf app.tar.gz app"],
        equivalent=[f"{fix}tar -cf app.tar app && gzip app.tar", f"{fix}tar -C . -c app/* | gzip -9 > app.tar.gz"],
    )


@template("extract_newest", "tar", "gzip")
def extract_newest(rng: Random, level: int) -> Problem:
    """Several backups of one file; the newest by the date in its name counts, not by its time."""
    target, num = f"{rng.choice(WORDS)}.conf", size(level, 3, 5, 8)
    dates = sorted({f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" for _ in range(num)})
    bodies = [f"value = {rng.getrandbits(32)}\nowner = {rng.choice(NAMES)}\n" for _ in dates]
    files = {f"stage/{date}/etc/{target}": body for date, body in zip(dates, bodies, strict=True)}
    mixed = rng.sample(dates, len(dates))
    setup = "mkdir backups\n" + "\n".join(
        f"tar -czf backups/backup-{date}.tar.gz --mtime=2020-01-01 -C stage/{date} etc" for date in mixed
    )
    newest = f"tar -xzOf backups/backup-{dates[-1]}.tar.gz etc/{target}"
    return Problem(
        asks=f"`backups` holds archives named by their date. Put the file `etc/{target}` of the newest one at "
        f"`restored/{target}`; restore nothing else.",
        files=files,
        setup=f"{setup}\nrm -r stage",
        checks=[text(f"restored/{target}", bodies[-1])],
        oracle=f"mkdir restored\nlast=$(ls backups/*.tar.gz | sort | tail -n 1)\ntar -xzOf $last etc/{target} "
        f"> restored/{target}",
        wrong=[
            f"mkdir restored; tar -xzOf backups/backup-{dates[0]}.tar.gz etc/{target} > restored/{target}",
            f"mkdir restored; tar -xzf backups/backup-{dates[-1]}.tar.gz -C restored",
            f"{newest} > {target}",
        ],
        equivalent=[
            f"mkdir restored; {newest} > restored/{target}",
            f"mkdir restored; tar -xzf backups/backup-{dates[-1]}.tar.gz && mv etc/{target} restored/; rmdir etc",
        ],
    )


@template("rename_in_order", "mv", "sort")
def rename_in_order(rng: Random, level: int) -> Problem:
    names = rng.sample(WORDS, size(level, 4, 8, 15))
    if level > 1:
        names = [f"{name} {rng.choice(NAMES)}" for name in names]
    bodies = {name: f"{rng.getrandbits(40)}\n" for name in names}
    start = rng.randint(0, 40)
    right = {f"photo-{start + i:03}.txt": bodies[name] for i, name in enumerate(sorted(names))}
    loop = f'i={start}\nfor f in in/*.jpg; do cp "$f" out/photo-$(printf %03d $i).txt; i=$((i+1)); done'
    return Problem(
        asks="Copy the files `in/*.jpg` (names may hold spaces) to `out/photo-NNN.txt`, numbered in alphabetical order "
        f"of their names from {start} on, always three digits. They become "
        + ", ".join(f"`out/{name}`" for name in right) + ".",
        files={f"in/{name}.jpg": body for name, body in bodies.items()},
        checks=[text(f"out/{name}", body) for name, body in right.items()],
        oracle=f"mkdir out\n{loop}",
        wrong=[
            f"mkdir out\n{loop.replace(f'i={start}', f'i={start + 1}', 1)}",
            f"mkdir out\n{loop.replace('in/*.jpg', '$(ls -r in/*.jpg | cat)', 1)}",
            f"mkdir out; cp \"$(ls in/*.jpg | head -n 1)\" out/photo-{start:03}.txt",
        ],
        equivalent=[
            (f"mkdir out\nls in | sort | nl -v {start} -nrz -w3 -s'|' | while IFS='|' read -r n f; do "
            "cat \"in/$f\" > out/photo-$n.txt; done")
        ],
    )  # fmt: skip


TEMPLATES = (
    find_by_ending,
    largest_files,
    count_matches,
    verify_checksums,
    duplicates,
    writable_by_others,
    archive_with_modes,
    extract_newest,
    rename_in_order,
)
