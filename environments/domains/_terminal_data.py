"""Templates about tables and texts: sort, join, convert, sum up, decode, in CSV, TSV, JSON and plain lines."""

import json
from random import Random

from environments.domains._terminal_problem import (
    NAMES,
    WORDS,
    Problem,
    answered,
    csv_rows,
    json_value,
    line_set,
    lines,
    size,
    table,
    template,
    text,
)


@template("join_tables", "join", "sort", "awk")
def join_tables(rng: Random, level: int) -> Problem:
    num = size(level, 6, 15, 40)
    ids = rng.sample(range(100, 999), num)
    people = [(number, rng.choice(NAMES)) for number in ids]
    amounts = [(number, rng.randint(1, 500)) for number in ids if rng.random() < 0.7]
    amounts = [*amounts, (ids[0], 501), (1001, 7), (1002, 8)]
    rng.shuffle(amounts)
    named = dict(people)
    right = [f"{number} {named[number]} {amount}" for number, amount in amounts if number in named]
    sort = "sort people.txt > p.tmp; sort orders.txt > o.tmp"
    return Problem(
        asks="Lines of `people.txt` are `ID NAME`, lines of `orders.txt` are `ID AMOUNT`; neither is sorted. Write "
        "`ID NAME AMOUNT` to `joined.txt` for every order whose ID is in `people.txt`, in any order.",
        files={"people.txt": table(people, " "), "orders.txt": table(amounts, " ")},
        checks=[line_set("joined.txt", right)],
        kept=["people.txt", "orders.txt"],
        oracle=f"{sort}\njoin p.tmp o.tmp > joined.txt\nrm p.tmp o.tmp",
        wrong=[
            f"{sort}; join -a 2 p.tmp o.tmp > joined.txt",
            f"{sort}; join o.tmp p.tmp > joined.txt",
            "sort -o people.txt people.txt; sort -o orders.txt orders.txt; join people.txt orders.txt > joined.txt",
        ],
        equivalent=["awk 'NR==FNR {n[$1]=$2; next} $1 in n {print $1, n[$1], $2}' people.txt orders.txt > joined.txt"],
    )


@template("sum_by_group", "awk", "sort")
def sum_by_group(rng: Random, level: int) -> Problem:
    groups = rng.sample(WORDS, size(level, 3, 5, 9))
    rows = [(rng.choice(NAMES), rng.choice(groups), rng.randint(-20, 300)) for _ in range(size(level, 12, 40, 150))]
    totals: dict[str, int] = {}
    for _, group, amount in rows:
        totals[group] = totals.get(group, 0) + amount
    ranked = sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))
    awk = "awk -F, 'NR>1 {s[$2]+=$3} END {for (g in s) print g\",\"s[g]}' sales.csv"
    order = "sort -t, -k2,2nr -k1,1"
    return Problem(
        asks="`sales.csv` has the columns person, region, amount. Write `totals.csv` with the header `region,total` "
        "and "
        "a row for each region: its name and the sum of its amounts, the largest sum first, equal ones by name.",
        files={"sales.csv": table([("person", "region", "amount"), *rows])},
        checks=[csv_rows("totals.csv", [("region", "total"), *ranked])],
        kept=["sales.csv"],
        oracle=f"(echo region,total; {awk} | {order}) > totals.csv",
        wrong=[
            f"{awk} | {order} > totals.csv",
            f"(echo region,total; {awk} | sort) > totals.csv; echo total,0 >> totals.csv",
            f"(echo region,total; {awk.replace('+=$3', '++')} | {order}) > totals.csv",
        ],
        equivalent=[
            ("python3 -c \"import csv, collections; t=collections.Counter()\nfor r in "
            "csv.DictReader(open('sales.csv')): "
            "t[r['region']]+=int(r['amount'])\nw=csv.writer(open('totals.csv','w')); w.writerow(['region','total'])\n"
            'w.writerows(sorted(t.items(), key=lambda p: (-p[1], p[0])))"')
        ],
    )  # fmt: skip


def _record(rng: Random) -> dict[str, object]:
    note = rng.choice(
        ["", f"{rng.choice(WORDS)}, {rng.choice(WORDS)}", f'the "{rng.choice(WORDS)}"', rng.choice(WORDS)]
    )
    return {"id": rng.randint(100, 99999), "name": rng.choice(NAMES), "note": note}


@template("csv_to_json", "python3")
def csv_to_json(rng: Random, level: int) -> Problem:
    """Cells hold commas and quotes, so splitting at commas is wrong."""
    rows = [_record(rng) for _ in range(size(level, 4, 10, 30))]
    rows.append({"id": rng.randint(100, 99999), "name": rng.choice(NAMES), "note": f"x, {rng.choice(WORDS)}"})
    body = "id,name,note\n" + "".join(
        "{},{},{}\n".format(row["id"], row["name"], '"' + str(row["note"]).replace('"', '""') + '"') for row in rows
    )
    read = "import csv, json; rows = [dict(r, id=int(r['id'])) for r in csv.DictReader(open('in.csv', newline=''))]"
    return Problem(
        asks="Convert `in.csv` (quoted as in RFC 4180) to `out.json`: a JSON list with an object for each row in the "
        "same order, with the keys id (a number), name and note (texts).",
        files={"in.csv": body},
        checks=[json_value("out.json", rows)],
        kept=["in.csv"],
        oracle=f"python3 -c \"{read}; json.dump(rows, open('out.json', 'w'))\"",
        wrong=[
            "python3 -c \"import csv, json; json.dump(list(csv.DictReader(open('in.csv'))), open('out.json','w'))\"",
            (
                "python3 -c \"import json; ls=[l.rstrip().split(',') for l in open('in.csv')]; "
                "json.dump([dict(zip(ls[0], l)) for l in ls[1:]], open('out.json','w'))\""
            ),
            f"python3 -c \"{read}; json.dump(rows[1:], open('out.json', 'w'))\"",
        ],
        equivalent=[f"python3 -c \"{read}; open('out.json','w').write(json.dumps(rows, indent=4, sort_keys=True))\""],
    )


@template("json_to_csv", "python3")
def json_to_csv(rng: Random, level: int) -> Problem:
    limit = rng.randint(18, 30)
    # One who is old enough but not active, one too young, one just old enough; the rest is drawn.
    sure = [(limit + 5, False), (limit - 1, True), (limit, True)]
    drawn = [(rng.randint(15, 80), rng.random() < 0.6) for _ in range(size(level, 5, 14, 40))]
    people = [
        {"name": rng.choice(NAMES), "age": age, "address": {"city": rng.choice(WORDS)}, "active": active}
        for age, active in [*sure, *drawn]
    ]
    rng.shuffle(people)
    chosen = [p for p in people if p["active"] and int(str(p["age"])) >= limit]
    rows = [(p["name"], p["address"]["city"], p["age"]) for p in chosen]  # type: ignore[index]
    code = (
        "python3 -c \"import json\nout=open('adults.csv','w'); print('name,city,age', file=out)\n"
        "for p in json.load(open('people.json')):\n"
        f"  if p['active'] and p['age'] >= {limit}: print(p['name'], p['address']['city'], p['age'], sep=',', "
        'file=out)"'
    )
    return Problem(
        asks=f"From `people.json` write `adults.csv` with the header `name,city,age` and a row for everyone who is "
        f"active and at least {limit} years old, in the order of the file. The city is inside of the address.",
        files={"people.json": json.dumps(people, indent=rng.choice([None, 1, 2]))},
        checks=[csv_rows("adults.csv", [("name", "city", "age"), *rows])],
        kept=["people.json"],
        oracle=code,
        wrong=[code.replace("p['active'] and ", ""), code.replace("city,age'", "age,city'"), code.replace(
            "print('name,city,age', file=out)", "pass")],
        equivalent=[
            ("python3 - <<'X'\nimport csv, json\nwith open('adults.csv', 'w') as out:\n    w = csv.writer(out, quoting="
            "csv.QUOTE_ALL)\n    w.writerow(['name', 'city', 'age'])\n    w.writerows([p['name'], "
            "p['address']['city'], "
            f"p['age']] for p in json.load(open('people.json')) if p['active'] and p['age'] > {limit - 1})\nX")
        ],
    )  # fmt: skip


@template("version_sort", "sort")
def version_sort(rng: Random, level: int) -> Problem:
    num = size(level, 8, 20, 60)
    made = {tuple(rng.randint(0, 25) for _ in range(3)) for _ in range(num)} | {(1, 9, rng.randint(0, 5)), (1, 10, 0)}
    given = [".".join(map(str, version)) for version in made] + ["1.10.0"]
    rng.shuffle(given)
    right = [".".join(map(str, version)) for version in sorted(made, reverse=True)]
    return Problem(
        asks="`versions.txt` holds version numbers, some of them several times. Write each one once to `sorted.txt`, "
        "the newest version first (1.10.0 is newer than 1.9.3).",
        files={"versions.txt": "\n".join(given) + "\n"},
        checks=[lines("sorted.txt", right)],
        kept=["versions.txt"],
        oracle="sort -Vru versions.txt > sorted.txt",
        wrong=["sort -ru versions.txt > sorted.txt", "sort -Vr versions.txt > sorted.txt",
               "sort -Vu versions.txt > sorted.txt", "sort -Vru -o versions.txt versions.txt"],
        equivalent=["sort -u versions.txt | sort -t. -k1,1nr -k2,2nr -k3,3nr > sorted.txt"],
    )  # fmt: skip


@template("set_difference", "comm", "sort")
def set_difference(rng: Random, level: int) -> Problem:
    num = size(level, 8, 20, 60)
    pool = [f"{word}{rng.randint(1, 99)}@{name}.example" for word in WORDS for name in rng.sample(NAMES, 5)]
    chosen = rng.sample(pool, 2 * num)
    invited, came = chosen[: num + num // 2], chosen[num // 2 :]
    missing = sorted(set(invited) - set(came))
    came = [mail.upper() if i == 0 or rng.random() < 0.3 else mail for i, mail in enumerate(came)]
    rng.shuffle(came)
    sides = "<(tr A-Z a-z < invited.txt | sort -u) <(tr A-Z a-z < came.txt | sort -u)"
    return Problem(
        asks="Write to `missing.txt` the addresses of `invited.txt` that are not in `came.txt`, whatever their case "
        "there: in lower case, sorted by byte, one a line. Give their number as your answer.",
        files={"invited.txt": "\n".join(invited) + "\n", "came.txt": "\n".join(came) + "\n"},
        checks=[answered(len(missing)), lines("missing.txt", missing)],
        kept=["invited.txt", "came.txt"],
        oracle=f"LC_ALL=C comm -23 {sides} > missing.txt",
        wrong=[
            "LC_ALL=C comm -23 <(sort -u invited.txt) <(sort -u came.txt) > missing.txt",
            f"LC_ALL=C comm -13 {sides} > missing.txt",
            f"LC_ALL=C comm -12 {sides} > missing.txt",
        ],
        equivalent=["grep -vixFf came.txt invited.txt | LC_ALL=C sort -u > missing.txt"],
    )


@template("latin1_to_utf8", "iconv", "tr")
def latin1_to_utf8(rng: Random, level: int) -> Problem:
    """The work's input is made in the sandbox, as task files are text."""
    odd = ["café", "naïve", "Müller", "señor", "façade", "Ångström", "crème", "über"]
    made = [f"{rng.choice(odd)} {rng.choice(WORDS)} {rng.randint(1, 999)}" for _ in range(size(level, 4, 12, 40))]
    made[0] = f"{odd[0]} {made[0]}"
    body = "\n".join(made) + "\n"
    return Problem(
        asks="`old.txt` is encoded as ISO 8859-1 with Windows line ends. Write it as UTF-8 with Unix line ends to "
        "`new.txt`.",
        files={"source.tmp": body},
        setup="sed 's/$/\\r/' source.tmp | iconv -f UTF-8 -t ISO-8859-1 > old.txt; rm source.tmp",
        checks=[text("new.txt", body)],
        oracle="iconv -f ISO-8859-1 -t UTF-8 old.txt | tr -d '\\r' > new.txt",
        wrong=[
            "iconv -f ISO-8859-1 -t UTF-8 old.txt > new.txt",
            "tr -d '\\r' < old.txt > new.txt",
            "iconv -f UTF-8 -t UTF-8 -c old.txt | tr -d '\\r' > new.txt",
        ],
        equivalent=[
            "python3 -c \"open('new.txt','w',encoding='utf-8').write(open('old.txt',encoding='latin-1').read())\""
        ],
    )


@template("pivot_columns", "awk", "paste")
def pivot_columns(rng: Random, level: int) -> Problem:
    num_rows, num_columns = size(level, 3, 6, 12), size(level, 4, 5, 9)
    rows = [[rng.randint(0, 999) for _ in range(num_columns)] for _ in range(num_rows)]
    turned = [list(column) for column in zip(*rows, strict=True)]
    awk = (
        'awk -F\'\\t\' \'{for(i=1;i<=NF;i++) r[i]=(NR>1 ? r[i] "\\t" : "") $i; n=NF} '
        "END {for(i=1;i<=n;i++) print r[i]}' in.tsv > out.tsv"
    )
    return Problem(
        asks="`in.tsv` is a table with tabs between the cells. Write it to `out.tsv` with rows and columns exchanged.",
        files={"in.tsv": table(rows, "\t")},
        checks=[text("out.tsv", table(turned, "\t"))],
        kept=["in.tsv"],
        oracle=awk,
        wrong=["tac in.tsv > out.tsv", "rev in.tsv > out.tsv", f"{awk}; tr '\\t' ' ' < out.tsv > o; mv o out.tsv"],
        equivalent=[f"for i in $(seq {num_columns}); do cut -f$i in.tsv | paste -s; done > out.tsv"],
    )


@template("rewrite_dates", "sed")
def rewrite_dates(rng: Random, level: int) -> Problem:
    """Dates change their form, version numbers that look like them do not."""
    made, right = [], []
    for _ in range(size(level, 6, 15, 40)):
        year, month, day = rng.randint(1990, 2029), rng.randint(1, 12), rng.randint(1, 28)
        form = "{} {} {}, build {}.{}.{} of {}"
        words = (rng.choice(NAMES), rng.choice(["on", "until", "from"]))
        build = (rng.randint(1, 9), rng.randint(0, 9), rng.randint(0, 9), rng.choice(WORDS))
        made.append(form.format(*words, f"{day:02}.{month:02}.{year}", *build))
        right.append(form.format(*words, f"{year}-{month:02}-{day:02}", *build))
    pattern = "s/([0-9]{2})\\.([0-9]{2})\\.([0-9]{4})/\\3-\\2-\\1/"
    return Problem(
        asks="In `notes.txt` dates are written as 31.12.2020 (day, month, year). Change them in place to 2020-12-31; "
        "change nothing else.",
        files={"notes.txt": "\n".join(made) + "\n"},
        checks=[lines("notes.txt", right)],
        oracle=f"sed -E -i '{pattern}g' notes.txt",
        wrong=[
            f"sed -E '{pattern}g' notes.txt > fixed.txt",
            "sed -E -i 's/([0-9]{2})\\.([0-9]{2})\\.([0-9]{4})/\\3-\\1-\\2/; s/20/19/' notes.txt",
            f"sed -E -i '1,2{pattern}g' notes.txt",
            f"sed -E -i '{pattern}g; s/\\./-/g' notes.txt",
        ],
        equivalent=[
            (
                "python3 -c \"import re; t=open('notes.txt').read(); open('notes.txt','w').write("
                "re.sub(r'(\\d\\d)[.](\\d\\d)[.](\\d{4})', r'\\3-\\2-\\1', t))\""
            )
        ],
    )


TEMPLATES = (
    join_tables,
    sum_by_group,
    csv_to_json,
    json_to_csv,
    version_sort,
    set_difference,
    latin1_to_utf8,
    pivot_columns,
    rewrite_dates,
)
