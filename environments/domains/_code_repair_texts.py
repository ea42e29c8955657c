"""Functions of `code_repair` over text and words; `_code_repair_family` says what the parts mean."""

from environments.domains._code_repair_family import Family, bugs, each

_TEXTS = ("text", "word", "line")

FAMILIES: tuple[Family, ...] = (
    Family(
        id="count_letter",
        level=1,
        does='count how often "$c" occurs in $v',
        names=("count_letter", "occurrences", "how_many"),
        variables=_TEXTS,
        code='def $f($v):\n    return $v.count("$c")',
        other='def $f($v):\n    return len([x for x in $v if x == "$c"])',
        options=each(c=("a", "e", "o", "s", "n", "t")),
        bugs=bugs(
            ("wrong_method", "count", "find"),
            ("wrong_constant", '"$c"', '"i"'),
        ),
        inputs="letters",
    ),
    Family(
        id="join_words",
        level=1,
        does='join the words with "$c" between them',
        names=("join_words", "combine", "glue"),
        variables=("words", "parts", "names"),
        code='def $f($v):\n    return "$c".join($v)',
        other='def $f($v):\n    result = ""\n'
        '    for i, x in enumerate($v):\n        result += ("$c" if i else "") + x\n'
        "    return result",
        options=each(c=("-", "/", "+", ", ", "_", ";")),
        bugs=bugs(
            ("wrong_constant", '"$c"', '" "'),
            ("wrong_slice", "join($v)", "join($v[1:])"),
            ("wrong_order", "join($v)", "join($v[::-1])"),
        ),
        inputs="words",
    ),
    Family(
        id="replace_letter",
        level=1,
        does='replace every "$a" by "$b"',
        names=("replace_letter", "swap_letter", "rewrite"),
        variables=_TEXTS,
        code='def $f($v):\n    return $v.replace("$a", "$b")',
        other='def $f($v):\n    return "$b".join($v.split("$a"))',
        options=each(a=("a", "e", "o", "s", "t", "n"), b=("o", "a", "e", "z", "d", "m")),
        bugs=bugs(
            ("swapped_arguments", '"$a", "$b"', '"$b", "$a"'),
            ("missing_argument", '"$a", "$b"', '"$a", ""'),
        ),
        inputs="letters",
    ),
    Family(
        id="starts_with",
        level=1,
        does='tell whether $v starts with "$c"',
        names=("starts_with", "has_prefix", "begins"),
        variables=_TEXTS,
        code='def $f($v):\n    return $v.startswith("$c")',
        other='def $f($v):\n    return $v[:1] == "$c"',
        options=each(c=("a", "b", "s", "t", "n", "e")),
        bugs=bugs(
            ("wrong_method", "startswith", "endswith"),
            ("negated_condition", "return", "return not"),
            ("wrong_operator", '$v.startswith("$c")', '"$c" in $v'),
        ),
        inputs="letters",
    ),
    Family(
        id="long_words",
        level=2,
        does="return the words longer than $k letters",
        names=("long_words", "keep_long", "big_words"),
        variables=("words", "names", "items"),
        code="def $f($v):\n    return [w for w in $v if len(w) > $k]",
        other="def $f($v):\n    kept = []\n    for w in $v:\n        if $k < len(w):\n            kept.append(w)\n"
        "    return kept",
        options=each(k=(2, 3, 4, 5)),
        bugs=bugs(
            ("comparison_flip", ">", "<"),
            ("boundary", ">", ">="),
            ("wrong_variable", "len(w)", "len($v)"),
        ),
        inputs="words",
    ),
    Family(
        id="shout_start",
        level=2,
        does="put the first $k letters in upper case",
        names=("shout_start", "raise_start", "capital_start"),
        variables=_TEXTS,
        code="def $f($v):\n    return $v[:$k].upper() + $v[$k:]",
        other="def $f($v):\n    start = $v[:$k]\n    return start.upper() + $v[len(start):]",
        options=each(k=(1, 2, 3, 4)),
        bugs=bugs(
            ("wrong_method", "upper", "lower"),
            ("missing_step", " + $v[$k:]", ""),
            ("wrong_slice", "$v[:$k]", "$v[$k:]"),
        ),
        inputs="letters",
    ),
)
