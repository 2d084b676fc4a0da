"""The messages that amplint knows, read from the tables in `tables/`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from amplint.config.toml_lines import parse_toml
from amplint.explain.concepts import Asked, asked

TABLES = Path(__file__).parent / "tables"


class Text(NamedTuple):
    """One wording of a message; `{...}` in it stands for what varies (`amplint.explain.patterns`).

    `origin` says who prints it: a file of torch's, `libtorch` (its compiled part), `cuda` (builds for CUDA only),
    `python` (Python itself, or torch's reading of arguments), `earlier` (releases of torch before the one that the
    tests run), or another library. `releases` says which of them do, for people.
    """

    text: str
    origin: str
    releases: str


class Cause(NamedTuple):
    """A usual cause: the rules that find it, if any does, and what to do; `change` is a small diff.

    A text that is `about` one of these concepts makes it the first of its message's causes, and one that says `unless`
    rules it out: what is to be done is done already. `on_page` says, by rule, how the misuse that this rule finds leads
    to the message, where `why` speaks of more; words after the first choose the wordings that contain one of them. An
    empty text leaves the message out of the rule's page. `sign` says in a few words how the cause differs from the
    others, where a message has many.
    """

    rules: tuple[str, ...]
    why: str
    do: str
    change: str = ""
    about: tuple[Asked, ...] = ()
    unless: tuple[Asked, ...] = ()
    on_page: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sign: str = ""

    @property
    def before(self) -> str:
        """The code of `change` as it was."""
        return self._half("+")

    @property
    def after(self) -> str:
        """The code of `change` as it is to be."""
        return self._half("-")

    def _half(self, without: str) -> str:
        return "\n".join(line[1:] for line in self.change.split("\n") if line and not line.startswith(without))


class Message(NamedTuple):
    """What is known of one message, in all its wordings, or of one symptom.

    `causes` begin with the most likely. `lines` are expressions for lines of logs, from which what matches `but` is
    removed first, and `perhaps` for errors that are not known, which may be of its kind. A text that matches one of
    `never` is not about it. `questions` ask about it, and `when` says how it differs from what it is `like`: those have
    the same causes. A wording that is general counts only `beside` one of these words, and with `half` only where one
    of the dtypes in it is a half type. What is seen `anywhere` is as common without AMP.
    """

    id: str
    means: str
    says: tuple[Text, ...]
    causes: tuple[Cause, ...]
    lines: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    when: str = ""
    like: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    half: bool = False
    general: bool = False
    anywhere: bool = False

    @property
    def title(self) -> str:
        """What the message is called where there is no text of it to show: its first wording, or a question."""
        return plain(self.says[0].text) if self.says else self.questions[0]

    def ordered_for(self, concepts: Collection[str]) -> Message:
        """The same message for a text that speaks of these concepts.

        The causes that are about them come first, and those that they rule out are gone. What they don't speak of is
        not the first.
        """

        def said(cause: Cause) -> int:
            return max((1 + len(each.wanted) for each in cause.about if each.fits(concepts)), default=0)

        left = [each for each in self.causes if not any(every.fits(concepts) for every in each.unless)]
        ordered = sorted(left, key=said, reverse=True)
        first = next((each for each in ordered if not each.about or said(each)), ordered[0])
        return self._replace(causes=(first, *(each for each in ordered if each is not first)))

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules that find one of its causes, the most likely first."""
        return tuple(dict.fromkeys(code for cause in self.causes for code in cause.rules))


def plain(text: str) -> str:
    """A wording for people: what varies is three dots."""
    shown = text.replace("{start}", "").replace("{end}", "")
    while "{" in shown:
        before, _, rest = shown.partition("{")
        shown = f"{before}...{rest.partition('}')[2]}"
    return shown


@cache
def known() -> tuple[Message, ...]:
    """All messages, in the order of the tables."""
    return tuple(
        _message(each)
        for path in sorted(TABLES.glob("*.toml"))
        for each in parse_toml(path.read_text("utf-8"))["message"]
    )


def leading_to(code: str) -> list[Message]:
    """The messages of which the rule `code` finds a cause."""
    return [each for each in known() if code in each.codes]


def _on_page(table: dict[str, Any]) -> Iterable[tuple[str, str | list[str]]]:
    found: dict[str, str | list[str]] = table.get("on_page", {})
    return found.items()


def _message(table: dict[str, Any]) -> Message:
    return Message(
        table["id"],
        " ".join(table["means"].split()),
        tuple(Text(**each) for each in table.get("says", ())),
        tuple(
            Cause(
                tuple(each["rules"]),
                each["why"],
                each["do"],
                each.get("change", "").strip("\n"),
                tuple(map(asked, each.get("about", ()))),
                tuple(map(asked, each.get("unless", ()))),
                tuple((code, (said,) if isinstance(said, str) else tuple(said)) for code, said in _on_page(each)),
                each.get("sign", ""),
            )
            for each in table["cause"]
        ),
        tuple(table.get("lines", ())),
        tuple(table.get("but", ())),
        tuple(table.get("perhaps", ())),
        tuple(table.get("never", ())),
        tuple(table.get("questions", ())),
        table.get("when", ""),
        tuple(table.get("like", ())),
        tuple(table.get("beside", ())),
        table.get("half", False),
        table.get("general", False),
        table.get("anywhere", False),
    )
