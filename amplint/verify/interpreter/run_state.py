"""One run of an interpreted program: how far it is, what it takes for granted, and what it has shown."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.standins import Frame, Raised
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import Code

_Place = tuple[ir.Call, str]  # the call that makes a scaler, and what the object is called that it makes it for


@dataclass(eq=False)
class _Scaler:
    """A scaler of a run, kept so that no other one gets its id."""

    scaler: Any
    place: _Place
    call: int  # of the step by who runs it, from 0
    lasts: bool = False  # code that isn't run has made it, before
    scales: bool = False  # a loss, so that its scale is worth something
    stepped: set[Any] = field(default_factory=set)  # what says which optimizers


class Remade:
    """Remembers the scalers of a run, and what they are used for."""

    def __init__(self) -> None:
        self.call = 0  # of the step by who runs it, as many times as that has no loop
        self._scalers: dict[int, _Scaler] = {}

    def made(self, scaler: Any, place: _Place, *, lasts: bool) -> None:
        """The program has made a scaler; one that `lasts` longer than the step is made by code that isn't run."""
        self._scalers[id(scaler)] = _Scaler(scaler, place, self.call, lasts)

    def scaled(self, scaler: Any) -> None:
        """A scaler that is switched on has scaled a loss."""
        if id(scaler) in self._scalers:
            self._scalers[id(scaler)].scales = True

    def stepped(self, scaler: Any, trained: Any) -> None:
        """A scaler steps an optimizer; `trained` is the same for as long as one training lasts."""
        if id(scaler) in self._scalers:
            self._scalers[id(scaler)].stepped.add(trained)

    def known(self) -> set[int]:
        """The ids of the scalers that the step has made so far."""
        return {scaler for scaler, each in self._scalers.items() if not each.lasts}

    def most(self, *, again: bool) -> int:
        """How many more than one of the scalers of one line have scaled for one training.

        `again`: the calls of the step, too, are of one training, as the program makes them.
        """
        found: Counter[tuple[Any, ...]] = Counter()
        for each in self._scalers.values():
            if each.scales:
                call = 0 if again else each.call
                found.update((each.place, call, trained) for trained in each.stepped or {None})
        return max(found.values(), default=1) - 1


@dataclass
class RunRecord:
    """Remembers what is run; `code` is the file that is verified."""

    code: Code
    executed: set[ir.Value] = field(default_factory=set)  # calls that are events
    applied: set[int] = field(default_factory=set)  # functions that were run, by their ids
    # How tests of ifs came out, by their ids; None: by a choice.
    decided: dict[int, set[bool | None]] = field(default_factory=dict)
    held: dict[int, set[bool]] = field(default_factory=dict)  # the same, by choices and counters too
    # What was run, by its line and text, and what it was replaced by.
    notes: dict[tuple[int, str], str] = field(default_factory=dict)
    touched: set[tuple[str, int]] = field(default_factory=set)  # functions with such lines, run or only read, and lines
    unseen_effects: dict[str, str] = field(default_factory=dict)  # lines with calls that can do anything to training
    heard: list[warnings.WarningMessage] = field(default_factory=list)  # what torch warns of, as it is caught
    warned: dict[str, set[int]] = field(default_factory=dict)  # by warnings: the lines that have them
    half_losses: dict[str, float] = field(default_factory=dict)  # lines that scale float16 losses, and the start scale
    unsure_losses: dict[str, str] = field(
        default_factory=dict
    )  # lines with losses that may be float16, and their calls
    # Lines on which the program computes a loss in half precision and the bench has its own: the call, and how.
    not_run: dict[str, tuple[str, str]] = field(default_factory=dict)
    unseen_regions: dict[str, str] = field(default_factory=dict)  # lines with contexts out of sight, named of autocast
    assumed: dict[str, str] = field(
        default_factory=dict
    )  # what says a precision out of sight, and what it is taken for
    unscaled: str = ""  # the first line that asks for gradients of a float16 loss that no scaler scales
    unseen_model: bool = False  # one was run whose own regions can't be seen
    by_accelerate: bool = False  # accelerate scales the loss, and computes the models that it prepared in a region
    caught: list[str] = field(default_factory=list)  # exceptions of torch's that the program has caught, with lines
    event: str = ""  # the line of the last event, as it is said
    ended: Raised | None = None  # by an exception
    scalers: Remade = field(default_factory=Remade)
    fails: bool = False  # a call has run out of memory, as the run assumes
    busy: bool = False  # events have run in this iteration
    open_steps: dict[int, set[int]] = field(default_factory=dict)  # by scalers: optimizers used since the last update
    _noted: set[tuple[ir.Node, str]] = field(default_factory=set)

    def note(self, code: Code, node: ir.Node, what: str) -> None:
        """Remember what was run, or what it was replaced by."""
        self.busy = True
        if (node, what) in self._noted:
            return
        self._noted.add((node, what))
        if code is not self.code:
            key = 0, f"{code.where(node)}: {code.text(node)}"
        else:
            self.touched.add((code.known(_home, node), code.row(node)))
            if isinstance(node, ir.Value):
                self.read(code, node)
            key = code.row(node), code.text(node)
        if what or key not in self.notes:
            self.notes[key] = what

    def leaves_steps(self, before: set[int]) -> bool:
        """Whether a scaler has unscaled or stepped and was not updated since, that is known in the next epoch as well.

        `before`: the scalers that were made before this one.
        """
        made = self.scalers.known()
        return any(used and (scaler in before or scaler not in made) for scaler, used in self.open_steps.items())

    def read(self, code: Code, value: ir.Value) -> None:
        """Remember that a run has taken something from code that isn't run, where that names a region or scaler."""
        for each in code.naming(value) if code is self.code else ():
            self.touched.add((code.known(_home, each), code.row(each)))


def _home(code: Code, node: ir.Node) -> str:
    """The function that a node stands in."""
    return code.name(ir.function_of(node))


BUDGET = 400_000  # expressions that a run may evaluate


@dataclass
class RunState:
    """One run: its bench and device, what it takes for granted, what it has shown, and how far it is."""

    stage: Stage
    facts: Facts
    record: RunRecord
    iterations: int  # of a loop over batches, and calls of a step that has no loop
    is_called_again: bool = False  # the step has no loop: its calls are the iterations
    tick: int = 0  # the iteration of the step, from 0
    catching: int = 0  # suites around whose exceptions of torch's are caught, and after which training goes on
    # For each suite that is run of a `try`, the innermost last: whether it catches an exception, and training goes on.
    tries: list[Callable[[Raised], bool]] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)  # variables that have begun to count
    budget: int = BUDGET  # what is left of it
    running: list[Frame] = field(default_factory=list)  # of the functions that have been called, the innermost last
