"""Call contexts: what the names of a function that is called are for its caller.

Flow analysis follows a call by running the callee's body with the caller's keys in the place of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.objects.terms import Op, Term

if TYPE_CHECKING:
    from amplint.model.objects.event import Event
    from amplint.model.syntax import ir

# The root of a key: a variable of a numbered scope, or the `self` of a class.
_ROOT = re.compile(r"(?<![\w.'\"])(?:\d+:\w+|self\d+)\b")
_Pool = dict[tuple[frozenset[tuple[str, str]], frozenset[tuple[str, "ir.Class"]]], "CallContext"]


@dataclass(slots=True)
class Recognised:
    """What calls and other values are in one call context, by their ids: found out once, as paths come by again.

    It depends on the call context, and on the keys that call contexts gave so far, of which there are `origins`
    (`Keys.original`).
    """

    events: dict[int, Event | None] = field(default_factory=dict)
    callees: dict[int, Callee | None] = field(default_factory=dict)
    harmless: dict[int, bool] = field(default_factory=dict)
    inert: dict[int, bool] = field(default_factory=dict)
    idle: dict[int, bool] = field(default_factory=dict)
    quiet: dict[int, bool] = field(default_factory=dict)
    origins: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class CallContext:
    """One call that is followed: the keys that stand for the callee's own, and the classes of its instances.

    `values`: the parameters and loops' variables that stand for a literal, or for what is computed; they are among
    the aliases too, as text.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, ir.Class] = field(default_factory=dict)
    values: Mapping[str, Term] = field(default_factory=dict)
    recognised: Recognised = field(default_factory=Recognised)

    _terms: dict[Term, Term] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _pool: _Pool = field(default_factory=dict)  # the call contexts that this one leads to, and those that led to it

    def translate(self, key: str) -> str:
        """A key as the outermost caller has it."""
        if key not in self._known:
            self._known[key] = _ROOT.sub(lambda found: self.aliases.get(found[0], found[0]), key)
        return self._known[key]

    def translated(self, term: Term) -> Term:
        """A term as the outermost caller has it."""
        if term not in self._terms:
            stands = self.values.get(term.name) if term.is_path else None
            if stands is None:
                name = term.name if term.op == Op.LITERAL else self.translate(term.name)
                stands = term._replace(name=name, parts=tuple(map(self.translated, term.parts)))
            self._terms[term] = stands
        return self._terms[term]

    def inner(
        self,
        aliases: Mapping[str, str],
        classes: Mapping[str, ir.Class] | None = None,
        values: Mapping[str, Term] | None = None,
    ) -> CallContext:
        """The call context of a call from this one: what is in sight here stays so, for closures."""
        values = values or {}
        values = {**{name: term for name, term in self.values.items() if name not in aliases}, **values}
        aliases = {**self.aliases, **aliases, **{name: str(term) for name, term in values.items()}}
        classes = {**self.classes, **(classes or {})}
        key = frozenset(aliases.items()), frozenset(classes.items())
        if key not in self._pool:
            self._pool[key] = CallContext(aliases, classes, values, _pool=self._pool)
        return self._pool[key]


class Callee(NamedTuple):
    """A function of this file that a call runs; for a method the key of its `self` and that one's class.

    `made`: the call that made what is called, `partial(function, ...)` or one of `maker`, a function of this file whose
    parameters the nested function that it returns sees.
    """

    function: ir.Function
    instance: str | None = None
    cls: ir.Class | None = None
    bound: bool = False  # the first parameter isn't among the arguments
    made: ir.Call | None = None
    maker: Callee | None = None
