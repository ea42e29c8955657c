"""The SQL prompt: `assay sql` without a query. Completion knows tables, columns, functions and named queries.

`Shell` answers one line and knows no terminal; `converse` puts prompt_toolkit around it.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from assay.errors import AssayError, unknown_choice
from assay.settings import settings
from console import show
from console.output import put, say, table
from console.runs import rows
from console.sql import Answer, expanded, footer, print_answer
from storage import named
from storage.catalog import Catalog
from storage.tables import TABLES

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

# Completion reads the text before the cursor from its end: a word, perhaps behind the dot of a command.
WORD_BACKWARDS = re.compile(r"^(\w+[.\\]?|[.\\])")
HELP = """\
Type SQL and press Enter; Alt-Enter makes a new line. The catalogue is read-only.
.queries        named questions in words
.run NAME       ask one of them
.schema         the tables; .schema TABLE its columns with meaning and unit
.show ID        a trajectory, task or policy
.refresh        see what was committed since
\\x              rows down the screen, on and off
.exit           leave (also Ctrl-D)"""
KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT FILTER HAVING QUALIFY JOIN LEFT USING DISTINCT COUNT AVG SUM MIN MAX CASE "
    "WHEN THEN ELSE END WITH AS AND OR NOT NULL IS IN LIKE DESC ALL OVER PARTITION"
)


class Shell:
    """One conversation with a catalogue. `reopen` gives the catalogue as it is then."""

    def __init__(self, reopen: Callable[[], Catalog]) -> None:
        self._reopen = reopen
        self.catalog = reopen()
        self.down = False
        self.open = True

    def answer(self, line: str) -> None:
        """Print the answer to one line; a fault is said and the conversation goes on."""
        word, _, rest = line.strip().partition(" ")
        command = self.commands().get(word)
        try:
            if command is not None:
                command(rest.strip())
            elif word.startswith((".", "\\")):
                say(f"unknown command {word!r}; .help lists them")
            elif word:
                self.ask(line.strip())
        except AssayError as error:
            say(f"error: {error}")

    def commands(self) -> dict[str, Callable[[str], None]]:
        """By name; each takes what follows the name."""
        return {
            ".help": lambda _: put(HELP),
            ".queries": lambda _: put(queries_table()),
            ".run": lambda name: self.ask(named.load(name).sql),
            ".schema": lambda name: put(schema_table(name)),
            ".show": lambda wanted: put("\n".join(show.lines(show.find(self.catalog, wanted)))),
            ".refresh": lambda _: self._refresh(),
            "\\x": lambda _: self._turn(),
            ".exit": lambda _: self._leave(),
            ".quit": lambda _: self._leave(),
        }

    def ask(self, sql: str) -> None:
        result = self.catalog.sql(sql)
        if self.down:
            put(expanded(result))
            say(footer(result, len(result.pl())))
        else:
            say(footer(result, print_answer(result, Answer())))

    def words(self) -> list[str]:
        """What completion offers: commands, tables, columns, named queries, keywords and functions."""
        columns = [row["column_name"] for row in rows(self.catalog, "FROM information_schema.columns")]
        functions = rows(self.catalog, "FROM duckdb_functions() SELECT DISTINCT function_name AS name ORDER BY 1")
        plain = [row["name"] for row in functions if row["name"].isidentifier() and not row["name"].startswith("_")]
        questions = [query.name for query in named.queries()]
        return list(dict.fromkeys([*self.commands(), *TABLES, *questions, *columns, *KEYWORDS.split(), *plain]))

    def _refresh(self) -> None:
        self.catalog = self._reopen()
        say(f"snapshot {self.catalog.sql('SELECT 1').snapshot}")

    def _turn(self) -> None:
        self.down = not self.down
        say("rows down the screen" if self.down else "rows as a table")

    def _leave(self) -> None:
        self.open = False


def queries_table() -> str:
    """The named queries with the question each answers."""
    return table(["name", "question"], [[query.name, query.title] for query in named.queries()])


def schema_table(name: str = "") -> str:
    """All tables with their meaning, or one table's columns with type and meaning. ConfigurationError if unknown."""
    if not name:
        return table(["table", "meaning"], [[t.name, t.meaning] for t in TABLES.values()])
    if name not in TABLES:
        raise unknown_choice("table", name, TABLES)
    columns = TABLES[name].columns.items()
    return table(["column", "type", "meaning"], [[column, str(c.type), c.meaning] for column, c in columns])


def converse(reopen: Callable[[], Catalog]) -> None:
    """Talk until Ctrl-D or .exit. History is kept under the home folder."""
    shell = Shell(reopen)
    session = _session(shell)
    say(f"snapshot {shell.catalog.sql('SELECT 1').snapshot}; .help tells what can be typed")
    while shell.open:
        try:
            line = session.prompt("assay> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        shell.answer(line)


def _session(shell: Shell) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    home = settings().home_dir
    home.mkdir(parents=True, exist_ok=True)
    return PromptSession(
        history=FileHistory(str(home / "sql_history")),
        completer=WordCompleter(shell.words(), ignore_case=True, pattern=WORD_BACKWARDS),
        complete_while_typing=False,
        key_bindings=keys,
    )
