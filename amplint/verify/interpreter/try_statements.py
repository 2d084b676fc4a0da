"""Running `try`."""

from __future__ import annotations

import inspect

from amplint.model.syntax import ir
from amplint.verify.fixtures.proof import said
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import Frame, Raised, Unknown
from amplint.verify.interpreter.suites import Suites
from amplint.verify.interpreter.truth import Truth
from amplint.verify.program.program import STEPS


class TryStatements:
    """Runs `try`."""

    def __init__(self, record: RunRecord, suites: Suites, truth: Truth) -> None:
        self._record = record
        self._suites = suites
        self._truth = truth

    def run(self, statement: ir.Try, frame: Frame) -> None:
        """Run `try`; only what torch or the program raises is caught."""
        try:
            try:
                if _may_fail(statement, frame):
                    where = frame.code.where(statement)
                    kind = frame.code.text(statement.handlers[0].type) if statement.handlers[0].type else "it"
                    if self._truth.of(Unknown(f"{where} raises {kind}"), matters=True):
                        raise Raised(f"raise {kind}", where)
                self._suites.run(statement.body, frame)
            except Raised as raised:
                handler = next((each for each in statement.handlers if _handles(each, raised, frame)), None)
                if handler is None:
                    raise
                if raised.error is not None:
                    self._record.caught.append(f"{raised.where}: {said(raised.error)}")
                if handler.name:
                    frame.variables[handler.name] = Unknown(handler.name)
                self._suites.run(handler.body, frame)
            else:
                if statement.orelse is not None:
                    self._suites.run(statement.orelse, frame)
        finally:
            if statement.final is not None:
                self._suites.run(statement.final, frame)


def _may_fail(statement: ir.Try, frame: Frame) -> bool:
    """Whether it is left to what can't be seen if a step is made in the suite or in its one handler."""
    if len(statement.handlers) != 1:
        return False
    below = frame.code.kinds_below(statement.handlers[0].body)
    return bool(below & STEPS) and not frame.code.kinds_below(statement.body) & {*STEPS, "backward"}


def _handles(handler: ir.Handler, raised: Raised, frame: Frame) -> bool:
    if handler.type is None:
        return True
    types = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    names = {name for each in types for name in frame.code.module.names.of(each)}
    if raised.error is None:
        own = raised.args[0].partition("(")[0].rpartition(" ")[2]
        return ("builtins.Exception" in names and own != "SystemExit") or any(
            ir.last_name(each) == own for each in types
        )
    kinds = {f"builtins.{each.__name__}" for each in inspect.getmro(type(raised.error))}
    return bool(kinds & names)
