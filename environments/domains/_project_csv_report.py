"""Comma-separated values: cells, rows, groups, a page of text. One kind of project; see `_project_kind`."""

from random import Random

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
    id="csv_report",
    summary="Reports over comma-separated values.",
    library="cells",
    features={
        "quotes": (True, False),
        "total": ("sum", "mean", "largest"),
        "order": ("name", "value"),
        "blank": ("skip", "zero"),
        "footer": (True, False),
    },
    constants={
        "pkg": ("report", "tables", "figures", "summary"),
        "split": ("split_line", "cells_of", "fields"),
        "mark": ("-", "=", "~"),
        "gap": (1, 2, 3),
        "width": (6, 7, 8),
        "separator": (";", ",", "|"),
    },
    modules={
        "cells": '''
"""Cells of one line."""


def $split(line, separator='$separator'):
    """The cells of a line, without spaces around them."""
    found = []
    cell = ''
    quoted = False                                                #? quotes
    for letter in line:
        if letter == '"':                                         #? quotes
            quoted = not quoted                                   #? quotes
        elif letter == separator and (not quoted):                #? quotes
        if letter == separator:                                   #? !quotes
            found.append(cell.strip())
            cell = ''
        else:
            cell += letter
    found.append(cell.strip())
    return found


def number(cell, empty=None):
    """The whole number in a cell, or `empty` for a cell without one."""
    digits = cell[1:] if cell[:1] == '-' else cell
    if not digits.isdigit():
        return empty
    return int(cell)


def padded(text, width, right=False):
    """The text filled up with spaces, or cut, to a width."""
    text = text[:width]
    space = ' ' * (width - len(text))
    return space + text if right else text + space
''',
        "table": '''
"""Text as rows."""
from $lib.cells import $split


def lines_of(text):
    """Lines with something in them that are no comments."""
    for line in text.split('\\n'):
        if line.strip() and (not line.startswith('#')):
            yield line


def read(text):
    """Rows as dictionaries by the names in the first line; rows that are too short have empty cells."""
    rows = []
    head = None
    for line in lines_of(text):
        cells = $split(line)
        if head is None:
            head = cells
            continue
        cells += [''] * (len(head) - len(cells))
        rows.append(dict(zip(head, cells)))
    return rows
''',
        "groups": '''
"""Figures of groups of rows."""
from $lib.cells import number


def values_of(rows, column):
    found = []
    for row in rows:
        value = number(row.get(column, ''))
        if value is None:
            continue                            #? blank=skip
            value = 0                           #? blank=zero
        found.append(value)
    return found


def figure(values):
    """One figure for all values, 0 when there are none."""
    if not values:
        return 0
    return sum(values)                          #? total=sum
    return sum(values) // len(values)           #? total=mean
    return max(values)                          #? total=largest


def by_group(rows, key, column):
    """Pairs of a group and its figure."""
    groups = {}
    for row in rows:
        groups.setdefault(row.get(key, ''), []).append(row)
    pairs = [(name, figure(values_of(members, column))) for name, members in groups.items()]
    return sorted(pairs)                                                #? order=name
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))          #? order=value
''',
        "layout": '''
"""Rows of text."""
from $lib.cells import padded

WIDTH = $width
GAP = $gap


def line(left, right):
    return padded(left, WIDTH) + ' ' * GAP + padded(right, WIDTH, True)


def ruler(mark='$mark'):
    return mark * (2 * WIDTH + GAP)


def page(title, pairs):
    """A title, a ruler and a line for each pair."""
    lines = [title, ruler()]
    for name, value in pairs:
        lines.append(line(name, str(value)))
    if pairs:                                                                   #? footer
        lines.append(ruler())                                                   #? footer
        lines.append(line('all', str(sum((value for _, value in pairs)))))      #? footer
    return lines
''',
        "app": '''
"""Reports from text."""
from $pkg.groups import by_group
from $pkg.layout import page
from $pkg.table import read


def rows(text):
    """The rows of a table."""
    return read(text)


def report(text, key, column, top=None):
    """The lines of a report: a figure for each group, at most `top` of them."""
    pairs = by_group(read(text), key, column)
    if top is not None:
        pairs = pairs[:top]
    return page(f'{column} by {key}', pairs)
''',
    },
    spec="""
- Cells are separated by `$separator`; spaces around a cell do not count. Empty lines and lines that begin with `#` are skipped.
- Separators between double quotes belong to the cell; the quotes do not.             #? quotes
- Quotes have no meaning.                                                             #? !quotes
- The first line names the columns. A row with too few cells has empty ones; cells beyond the columns are dropped.
- `report(text, key, column, top)` gives the title, a ruler of `$mark` over the whole width, and a line for each group.
- The figure of a group is the sum of its values.                                     #? total=sum
- The figure of a group is the mean of its values, rounded down.                      #? total=mean
- The figure of a group is the largest of its values.                                 #? total=largest
- A cell without a whole number does not count as a value; a group without values has 0.    #? blank=skip
- A cell without a whole number counts as 0.                                          #? blank=zero
- Groups are sorted by name.                                                          #? order=name
- Groups are sorted by figure, the largest first; equal ones by name.                 #? order=value
- With `top`, only so many groups are shown.
- A line is the name, filled up or cut to $width characters, $gap space(s), and the figure to the right in $width characters.
- When there are groups, another ruler and a line `all` with the sum of the shown figures follow.     #? footer
""",  # noqa: E501
    cases=lambda rng, v: _report_case(rng, v),
)


def _report_case(rng: Random, v: Values) -> Case:
    separator = v["separator"]
    lines = [f"city {separator} kind{separator}sold"]
    cities = rng.sample(["Oslo", "Lima", "Reykjavik", '"Port' + separator + ' Said"', "Bern", ""], 3)
    for _ in range(rng.randint(0, 6)):
        sold = rng.choice(["1", "2", "7", "15", "30", "-4", "", "n/a", " 12 ", "400"])
        kind = rng.choice(["new", "old", ' "mid" '])
        cells = [rng.choice(cities), kind, sold][: rng.choice([2, 3, 3, 3, 3])]
        lines.append(separator.join(cells))
        if rng.random() < 0.2:
            lines.append(rng.choice(["", "# later", "   ", " #5" + separator + "x"]))
    text = "\n".join(lines)
    if rng.random() < 0.25:
        return f"{v['pkg']}.app:rows", [text]
    top = [rng.choice([None, 1, 2])] if rng.random() < 0.5 else []
    return f"{v['pkg']}.app:report", [text, rng.choice(["city", "kind"]), "sold", *top]
