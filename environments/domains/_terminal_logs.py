"""Templates about logs: who, how often, when, between which times; answers are rankings, counts and extracts."""

from collections import Counter
from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Problem,
    answered,
    csv_rows,
    lines,
    size,
    template,
    text,
)


def _address(rng: Random) -> str:
    return f"10.{rng.randint(0, 9)}.{rng.randint(0, 99)}.{rng.randint(1, 250)}"


def _access_log(rng: Random, num: int) -> list[tuple[str, str, int, int]]:
    """Address, path, status and bytes of each request; addresses have different counts."""
    addresses = [_address(rng) for _ in range(5)]
    drawn = [address for i, address in enumerate(addresses) for _ in range(i * num // 10 + 2)]
    rng.shuffle(drawn)
    statuses = [200, 200, 200, 301, 404, 500, 503]
    return [(a, f"/{rng.choice(WORDS)}", rng.choice(statuses), rng.randint(20, 9000)) for a in drawn]


def _as_log(requests: list[tuple[str, str, int, int]]) -> str:
    return "".join(
        f'{address} - - [03/Mar/2025:10:{i // 60 % 60:02}:{i % 60:02} +0000] "GET {path} HTTP/1.1" {status} {nbytes}\n'
        for i, (address, path, status, nbytes) in enumerate(requests)
    )


@template("top_addresses", "awk", "sort", "uniq")
def top_addresses(rng: Random, level: int) -> Problem:
    requests = _access_log(rng, size(level, 20, 60, 200))
    counts = Counter(address for address, *_ in requests)
    ranked = [f"{n} {a}" for a, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))][:3]
    count = "awk '{n[$1]++} END {for (a in n) print n[a], a}' access.log"
    return Problem(
        asks="`access.log` is a web server's log; a line starts with the client's address. Write the three addresses "
        "with the most requests to `top.txt`, the most first (equal ones sorted by address as text), as "
        "`COUNT ADDRESS`.",
        files={"access.log": _as_log(requests)},
        checks=[lines("top.txt", ranked)],
        kept=["access.log"],
        oracle=f"{count} | LC_ALL=C sort -k1,1nr -k2,2 | head -n 3 > top.txt",
        wrong=[
            f"{count} | LC_ALL=C sort -k1,1n -k2,2 | head -n 3 > top.txt",
            f"{count} | LC_ALL=C sort -k1,1nr -k2,2 | head -n 4 > top.txt",
            f"{count} | sort -k1,1nr | head -n 3 | awk '{{print $2, $1}}' > top.txt",
        ],
        equivalent=[
            "cut -d' ' -f1 access.log | sort | uniq -c | sed 's/^ *//' | LC_ALL=C sort -k1,1nr -k2,2 | sed 3q > top.txt"
        ],
    )


@template("bytes_of_errors", "awk")
def bytes_of_errors(rng: Random, level: int) -> Problem:
    requests = _access_log(rng, size(level, 20, 60, 200))
    bad = [request for request in requests if request[2] >= 500]
    total = sum(request[3] for request in bad)
    awk = "awk '$9 >= 500 {s += $10; n++} END {print n+0, s+0}' access.log"
    return Problem(
        asks="`access.log` is a web server's log in the common format. Write to `errors.txt` one line: the number of "
        "requests with a status of 500 or more, a space, the sum of the bytes sent for them (the last column). Give "
        "the sum as your answer.",
        files={"access.log": _as_log([*requests, ("10.9.9.9", "/500", 200, 512), ("10.9.9.9", "/x", 499, 600)])},
        checks=[answered(total), lines("errors.txt", [f"{len(bad)} {total}"])],
        kept=["access.log"],
        oracle=f"{awk} > errors.txt",
        wrong=[
            f"{awk.replace('>= 500', '>= 400')} > errors.txt",
            "grep ' 5' access.log | awk '{s += $10; n++} END {print n+0, s+0+1}' > errors.txt",
            f"{awk} | awk '{{print $2, $1}}' > errors.txt",
        ],
        equivalent=[
            (
                "grep -E '\" 5[0-9][0-9] [0-9]+$' access.log > e; echo \"$(wc -l < e) "
                "$(( $(sed 's/.* //' e | paste -sd+) + 0 ))\" > errors.txt; rm e"
            )
        ],
    )


def _service_log(rng: Random, num: int) -> list[str]:
    """Lines in the order of time, a few seconds apart."""
    second, made = rng.randint(0, 3000), []
    for _ in range(num):
        second += rng.randint(1, 90)
        stamp = f"2025-03-03 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        level = rng.choice(["INFO", "INFO", "WARN", "ERROR"])
        made.append(f"{stamp} {level} {rng.choice(WORDS)}: {rng.choice(NAMES)} {rng.randint(1, 9999)}")
    return made


@template("time_window", "awk", "gzip")
def time_window(rng: Random, level: int) -> Problem:
    """Both ends count; from level 2 on the older half is compressed."""
    made = _service_log(rng, size(level, 15, 50, 150))
    first, last = sorted(rng.sample(range(1, len(made) - 1), 2))
    start, end = made[first][:19], made[last][:19]
    half = len(made) // 2 if level > 1 else 0
    files = {"app.log": "\n".join(made[half:]) + "\n"}
    if level > 1:
        files["app.log.1"] = "\n".join(made[:half]) + "\n"
    old = "zcat app.log.1.gz; " if level > 1 else ""
    awk = f"awk -v a='{start}' -v b='{end}' '{{t=$1\" \"$2}} t >= a && t <= b'"
    told = " Older lines are in `app.log.1.gz`." if level > 1 else ""
    return Problem(
        asks=f"`app.log` is sorted by time.{told} Write the lines from {start} to {end}, both included, in order to "
        "`window.log`.",
        files=files,
        setup="gzip -n app.log.1" if level > 1 else "",
        checks=[lines("window.log", made[first : last + 1])],
        kept=["app.log"],
        oracle=f"({old}cat app.log) | {awk} > window.log",
        wrong=[
            f"({old}cat app.log) | {awk.replace('<=', '<')} > window.log",
            f"({old}cat app.log) | {awk.replace('>=', '>')} > window.log",
            f"({old}cat app.log) | {awk} | sort -r | sed '1!G;$!h;s/INFO/info/;s/WARN/warn/;s/ERR/err/' > window.log",
        ],
        equivalent=[f"({old}cat app.log) | sed -n '/^{start}/,/^{end}/p' > window.log"],
    )  # fmt: skip


@template("errors_per_hour", "awk", "sort")
def errors_per_hour(rng: Random, level: int) -> Problem:
    made = [
        f"2025-0{rng.randint(1, 3)}-{rng.randint(10, 28)}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:00Z "
        f"{rng.choice(['INFO', 'ERROR', 'WARN'])} {rng.choice(['ERROR in', 'no', 'one'])} {rng.choice(WORDS)}"
        for _ in range(size(level, 20, 60, 200))
    ]
    made.append("2025-01-09T00:00:00Z ERROR no disk")
    counts = Counter(line[11:13] for line in made if line.split()[1] == "ERROR")
    awk = 'awk \'$2 == "ERROR" {n[substr($1, 12, 2)]++} END {for (h in n) print h "," n[h]}\' app.log'
    return Problem(
        asks="Lines of `app.log` are `TIME LEVEL MESSAGE`. Write `hours.csv` with the header `hour,errors` and a row "
        "for each hour of the day (two digits) in which there is a line with the level ERROR, with their number over "
        "all days, sorted by hour.",
        files={"app.log": "\n".join(made) + "\n"},
        checks=[csv_rows("hours.csv", [("hour", "errors"), *sorted(counts.items())])],
        kept=["app.log"],
        oracle=f"(echo hour,errors; {awk} | sort) > hours.csv",
        wrong=[
            f"(echo hour,errors; {awk} | sort -r) > hours.csv; echo 24,0 >> hours.csv",
            (
                "(echo hour,errors; grep ERROR app.log | cut -c12-13 | sort | uniq -c | awk '{print $2\",\"$1+1}') > "
                "hours.csv"
            ),
            f"{awk} | sort > hours.csv",
        ],
        equivalent=[
            (
                "(echo hour,errors; grep '^[^ ]* ERROR ' app.log | cut -c12-13 | sort | uniq -c "
                "| awk '{print $2\",\"$1}') > hours.csv"
            )
        ],
    )


@template("split_by_service", "awk")
def split_by_service(rng: Random, level: int) -> Problem:
    services = sorted(rng.sample(WORDS, size(level, 2, 4, 7)))
    made = [(service, f"{rng.choice(NAMES)} {rng.randint(1, 9999)}") for service in services for _ in range(level + 2)]
    rng.shuffle(made)
    right = {s: "".join(f"{said}\n" for service, said in made if service == s) for s in services}
    code = 'awk \'{f = "out/" $1 ".log"; sub(/^[^ ]+ /, ""); print > f}\' all.log'
    named = code.replace("sub", "gsub", 1).replace("/^[^ ]+ /", "/^$/")
    return Problem(
        asks="A line of `all.log` is the name of a service, a space and a message. Write the messages (without the "
        "name) of each service in their order to a file of its own: "
        + ", ".join(f"`out/{service}.log`" for service in services)
        + ".",
        files={"all.log": "".join(f"{service} {said}\n" for service, said in made)},
        checks=[text(f"out/{service}.log", body) for service, body in right.items()],
        kept=["all.log"],
        oracle=f"mkdir out\n{code}",
        wrong=[
            f"mkdir out\n{named}",
            f"mkdir out\ngrep '^{services[0]} ' all.log | cut -d' ' -f2- > out/{services[0]}.log",
            f"mkdir out\nsort -o all.log all.log\n{code}",
        ],
        equivalent=[
            f'mkdir out\nfor s in {" ".join(services)}; do sed -n "s/^$s //p" all.log > out/$s.log; done',
        ],
    )


TEMPLATES = (top_addresses, bytes_of_errors, time_window, errors_per_hour, split_by_service)
