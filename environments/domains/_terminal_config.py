"""Templates about configuration: INI, YAML, cron, environment files, JSON settings, patches."""

import json
from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Problem,
    ini_values,
    json_value,
    line_set,
    lines,
    size,
    template,
    text,
)


@template("edit_ini", "sed", "python3")
def edit_ini(rng: Random, level: int) -> Problem:
    """The same key is in several sections; one of them changes."""
    names = rng.sample(WORDS, size(level, 3, 5, 9))
    values = {
        name: {"host": f"{rng.choice(NAMES)}.example", "port": str(rng.randint(1000, 9999)), "debug": "no"}
        for name in names
    }
    chosen, port = rng.choice(names[1:]), str(rng.randint(10000, 20000))
    right = {name: {**keys, "port": port, "tls": "yes"} if name == chosen else keys for name, keys in values.items()}
    body = "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + "\n"
        for name, keys in values.items()
    )
    edit = f"sed -i '/^\\[{chosen}\\]/,/^$/ s/^port = .*/port = {port}\\ntls = yes/' app.ini"
    return Problem(
        asks=f"In `app.ini`, in the section `{chosen}`, set `port` to {port} and add the key `tls` with the value "
        "`yes`. Nothing else may change.",
        files={"app.ini": body},
        checks=[ini_values("app.ini", right)],
        oracle=edit,
        wrong=[
            f"sed -i 's/^port = .*/port = {port}\\ntls = yes/' app.ini",
            edit.replace("\\ntls = yes", ""),
            f"printf '[{chosen}]\\nport = {port}\\ntls = yes\\n' >> app.ini",
        ],
        equivalent=[
            (
                "python3 -c \"import configparser as c; p=c.ConfigParser(); p.read('app.ini'); "
                f"p['{chosen}']['port']='{port}'; p['{chosen}']['tls']='yes'; p.write(open('app.ini','w'))\""
            )
        ],
    )


@template("env_to_yaml", "awk", "sed")
def env_to_yaml(rng: Random, level: int) -> Problem:
    """Asked for in one exact form, so that text can be compared."""
    names = rng.sample(WORDS, size(level, 4, 8, 16))
    values = {
        name: rng.choice([rng.choice(NAMES), f"a={rng.choice(NAMES)}", f"{rng.randint(1, 99)}"]) for name in names
    }
    values[names[0]] = f"key={rng.choice(NAMES)}"
    body = "".join(f"{rng.choice(['', '# note: A=1' + chr(10)])}{k.upper()}={v}\n" for k, v in values.items())
    right = ["settings:", *(f'  {name}: "{values[name]}"' for name in sorted(names))]
    awk = (
        "grep -v '^#' app.env | LC_ALL=C sort | sed 's/=/ /' | while read -r k v; do echo \"  ${k,,}: "
        '\\"$v\\""; done'
    )
    return Problem(
        asks="Turn `app.env` (lines `NAME=VALUE`, comments start with `#`; a value may hold `=`) into `app.yaml`: the "
        'line `settings:`, then for each name, sorted, a line of two spaces, the name in lower case, `: ` and the '
        'value '
        'in double quotes.',
        files={"app.env": body},
        checks=[lines("app.yaml", right)],
        kept=["app.env"],
        oracle=f"(echo settings:; {awk}) > app.yaml",
        wrong=[
            ("(echo settings:; grep -v '^#' app.env | sort | awk -F= "
            "'{print \"  \" tolower($1) \": \\\"\" $2 \"\\\"\"}') "
            "> app.yaml"),
            f"{awk} > app.yaml",
            f"(echo settings:; {awk.replace(',,', '')}) > app.yaml",
        ],
        equivalent=[
            ("python3 - <<'X' > app.yaml\nprint('settings:')\nfor line in sorted(open('app.env')):\n    if line[0] "
            "!= '#':"
            "\n        k, v = line.rstrip().split('=', 1)\n        print(f'  {k.lower()}: \"{v}\"')\nX")
        ],
    )  # fmt: skip


@template("edit_cron", "sed")
def edit_cron(rng: Random, level: int) -> Problem:
    jobs = rng.sample(WORDS, size(level, 4, 7, 14))
    chosen, dropped = jobs[1], jobs[2]
    hours = {job: (rng.randint(0, 59), rng.randint(0, 22)) for job in jobs}
    hour, minute = rng.randint(1, 23), rng.randint(0, 59)

    def line(job: str, at: tuple[int, int], days: str = "*") -> str:
        return f"{at[0]} {at[1]} * * {days} /opt/jobs/{job}.sh"

    made = ["# min hour day month weekday", *(line(job, hours[job]) for job in jobs)]
    right = [made[0]]
    for job in jobs:
        if job == chosen:
            right.append(line(job, (minute, hour), "1-5"))
        else:
            right.append(f"# {line(job, hours[job])}" if job == dropped else line(job, hours[job]))
    new = f"{minute} {hour} * * 1-5 /opt/jobs/{chosen}.sh"
    drop = f"sed -i '/{dropped}.sh$/ s/^/# /' crontab"
    return Problem(
        asks=f"Edit the table `crontab`: `{chosen}.sh` is to run at {hour:02}:{minute:02} from Monday to Friday only "
        "(write the numbers without leading zeros, the days as a range of numbers); the line of "
        f"`{dropped}.sh` is to be commented out with `# ` before it. Leave the rest and the order as they are.",
        files={"crontab": "\n".join(made) + "\n"},
        checks=[lines("crontab", right)],
        oracle=f"sed -i 's|.*/{chosen}.sh$|{new}|' crontab\n{drop}",
        wrong=[
            f"sed -i 's|.*/{chosen}.sh$|{hour} {minute + 60} * * 1-5 /opt/jobs/{chosen}.sh|' crontab\n{drop}",
            f"sed -i 's|.*/{chosen}.sh$|{new}|; /{dropped}.sh/d' crontab",
            f"sed -i '/{chosen}.sh$/d' crontab\necho '{new}' >> crontab\n{drop}\nsort -o crontab crontab",
            drop,
        ],
        equivalent=[
            (
                f'awk \'/{chosen}.sh$/ {{print "{new}"; next}} /{dropped}.sh$/ {{$0 = "# " $0}} {{print}}\' crontab '
                "> c && mv c crontab"
            )
        ],
    )


@template("merge_json", "python3")
def merge_json(rng: Random, level: int) -> Problem:
    """A deep merge: objects key by key, anything else is replaced."""
    names = rng.sample(WORDS, size(level, 3, 5, 9))
    base = {
        name: {"size": rng.randint(1, 99), "tags": rng.sample(NAMES, 2), "on": {"x": True, "y": rng.randint(0, 9)}}
        for name in names
    }
    over = {
        names[0]: {"size": rng.randint(100, 199), "on": {"y": 77}},
        names[1]: {"tags": [rng.choice(NAMES)]},
        "new": 1,
    }
    code = (
        "python3 - <<'X'\nimport json\ndef merge(a, b):\n    if isinstance(a, dict) and isinstance(b, dict):\n"
        "        return {**a, **{k: merge(a[k], v) if k in a else v for k, v in b.items()}}\n    return b\n"
        "a, b = (json.load(open(n + '.json')) for n in ('base', 'local'))\njson.dump(merge(a, b), "
        "open('merged.json', 'w'))"
        "\nX"
    )
    return Problem(
        asks="Merge the settings `base.json` and `local.json` into `merged.json`: where both have an object, merge it "
        "key by key (at any depth); otherwise the value of `local.json` wins, lists included.",
        files={"base.json": json.dumps(base, indent=2), "local.json": json.dumps(over, indent=2)},
        checks=[json_value("merged.json", _merged(base, over))],
        kept=["base.json", "local.json"],
        oracle=code,
        wrong=[
            ("python3 -c \"import json; a,b=(json.load(open(n)) for n in ('base.json','local.json')); "
            "json.dump({**a, **b}, open('merged.json','w'))\""),
            "cat base.json local.json > merged.json",
            code.replace("('base', 'local')", "('local', 'base')"),
        ],
        equivalent=[code.replace("open('merged.json', 'w'))", "open('merged.json', 'w'), indent=1, sort_keys=True)")],
    )  # fmt: skip


def _merged(base: object, over: object) -> object:
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: _merged(base[key], value) if key in base else value for key, value in over.items()}}


@template("apply_patches", "patch", "diff")
def apply_patches(rng: Random, level: int) -> Problem:
    """Made as real patches from the two versions; one does not apply any more and is to be left out."""
    names = sorted(rng.sample(WORDS, size(level, 2, 3, 6)))
    old = {name: [f"{rng.choice(WORDS)} = {rng.randint(1, 999)}" for _ in range(9)] for name in names}
    new = {name: [*rows[:4], f"changed = {rng.randint(1000, 9999)}", *rows[5:]] for name, rows in old.items()}
    stale = rng.choice(names)
    given = {name: [f"# {row}" for row in rows] if name == stale else rows for name, rows in old.items()}
    right = {name: given[name] if name == stale else new[name] for name in names}
    files = {f"a/{name}.conf": "\n".join(rows) + "\n" for name, rows in old.items()}
    files |= {f"b/{name}.conf": "\n".join(rows) + "\n" for name, rows in new.items()}
    files |= {f"conf/{name}.conf": "\n".join(rows) + "\n" for name, rows in given.items()}
    setup = "mkdir patches\n" + "\n".join(
        f"diff -u --label a/{name}.conf --label b/{name}.conf a/{name}.conf b/{name}.conf > patches/{name}.patch || "
        "true"
        for name in names
    )
    good = " ".join(name for name in names if name != stale)
    return Problem(
        asks="Apply the patches `patches/*.patch` to the files in `conf`. A patch that does not apply cleanly must "
        "leave "
        "its file as it was; write the names of such patches (such as `x.patch`) to `failed.txt`, one a line, in any "
        "order. Files are " + ", ".join(f"`conf/{name}.conf`" for name in names if name != stale) + " and "
        f"`conf/{stale}.conf`.",
        files=files,
        setup=f"{setup}\nrm -r a b",
        checks=[
            *(text(f"conf/{name}.conf", "\n".join(right[name]) + "\n") for name in names),
            line_set("failed.txt", [f"{stale}.patch"]),
        ],
        num_already_right=1,
        oracle="for p in patches/*.patch; do\n  patch -d conf -p1 --dry-run -s -f < $p > /dev/null && patch -d conf "
        "-p1 -s "
        "< $p || basename $p >> failed.txt\ndone",
        wrong=[
            "for p in patches/*.patch; do patch -d conf -p1 -s -f < $p || true; done",
            "ls patches > failed.txt",
            f"for n in {good}; do patch -d conf -p1 -s -f < patches/$n.patch; done; touch failed.txt",
        ],
        equivalent=[
            (f"cd conf; for n in {good}; do patch -s $n.conf ../patches/$n.patch; done; echo {stale}.patch > "
            "../failed.txt")
        ],
    )  # fmt: skip


TEMPLATES = (edit_ini, env_to_yaml, edit_cron, merge_json, apply_patches)
