"""Frames of code that isn't run: of files, of functions around what is run, of constructors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from amplint.model.objects.key_parts import part_of
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import ifs_round
from amplint.verify.interpreter.allowed_calls import REGIONS
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.standins import MISSING, ClassValue, Closure, Dotted, Frame, Instance, Site, Unknown
from amplint.verify.interpreter.world import Knowledge
from amplint.verify.program.callers import argument, with_parameter
from amplint.verify.program.program import Code
from amplint.verify.program.unfollowed import makes

_MOST_VALUES = 20  # of variables that a scaler hangs on


class LazyFrames:
    """Makes frames of code that isn't run, with what the program's calls give the functions.

    The step that is run is `entry`, a function of the file `code`; it is run as a method of `cls`, where that is given.
    """

    def __init__(
        self, code: Code, entry: ir.Function | None, cls: ir.Class | None, knowledge: Knowledge, evaluator: Evaluator
    ) -> None:
        self._code = code
        self._entry = entry
        self._class = cls
        self._knowledge = knowledge
        self._evaluator = evaluator
        self._files: dict[int, Frame] = {}  # of the variables of files, by their ids
        self._constructed: dict[int, dict[str, Any]] = {}  # what constructors are given, by their ids

    def variables_of(self, code: Code) -> Frame:
        """The frame of a file's variables."""
        if id(code) not in self._files:
            self._files[id(code)] = Frame(code, code.module.program.scope, None, lazy=True)
        return self._files[id(code)]

    def of_function(self, function: ir.Function, outer: Frame, instance: Instance | None) -> Frame:
        """The frame of a function; of a constructor with what it is given."""
        frame = Frame(outer.code, function.scope, outer, lazy=True, function=function)
        if instance is not None and function.params:
            frame.variables[function.params[0].name] = instance
            if function.name == "__init__":
                frame.given = dict(self._constructs(function) if instance.given is None else instance.given)
        return frame

    def given_by_callers(self, function: ir.Function, *, bound: bool, depth: int = 3) -> dict[str, Any]:
        """The models and optimizers that the one call of a function in its file gives it.

        Of several calls, and of those in other files, what wraps a scaler: the first that gives it; None where under
        these conditions all of them give None instead.
        """
        code = self._code.owner(function)
        own = code.calls_of(function)
        if depth and len(own) == 1:
            frame = self.of_call(own[0], code, depth)
            given = self._given_by(Site(own[0], frame), function, bound=bound)
            optional = {each.name for each in function.params if each.default is not None}
            tied = _tied(Site(own[0], frame), function)
            return {
                name: value
                for name, value in given.items()
                if (self._is_tool(value) and name not in optional) or _wraps(value) or tied.holds(name, value)
            }
        followed = sorted(code.callers.followed.get(function.id, ()) if depth else ())
        found: dict[str, Any] = {}
        for name in followed:
            found |= self._wrapping(function, name, depth)
        return found

    def _wrapping(self, function: ir.Function, name: str, depth: int) -> dict[str, Any]:
        """What wraps a scaler of what calls give a parameter, with the settings that are given along with it.

        None where all of them give that; else nothing.
        """
        values: list[Any] = []
        for of, call in self._code.callers.calls(function):
            passed = argument(call, function, name)
            if passed is not None:
                frame = self.of_call(call, of, depth)
                frame.until = frame.until or call
                values.append(self._evaluator.evaluate(passed, frame))
                tied = _tied(Site(call, frame), function)
                if _wraps(values[-1]) or tied.holds(name, values[-1]):
                    settings = {each: self._evaluator.evaluate(tied.settings[each], frame) for each in tied.decide}
                    return {each: value for each, value in settings.items() if tied.holds(each, value)} | {
                        name: values[-1]
                    }
        return {name: None} if values and all(value is None for value in values) else {}

    def _given_by(self, site: Site, function: ir.Function, *, bound: bool) -> dict[str, Any]:
        """The arguments of a call, by the parameters of the function that it calls."""
        call, frame = site
        before, frame.until = frame.until, frame.until or call
        args, kwargs = self._evaluator.arguments(site)
        if function is not self._entry:
            frame.until = before
        names = [each.name for each in function.params[bound:] if each.kind == "positional"]
        params = {each.name for each in function.params[bound:]}
        return dict(zip(names, args, strict=False)) | {key: kwargs[key] for key in kwargs if key in params}

    def _is_tool(self, value: Any) -> bool:
        """Whether an argument is worth more than its name: no flag, no number, and nothing that is new in each call."""
        if isinstance(value, Unknown):
            return value.identity in self._knowledge.nets or (value.origin is not None and makes(value.origin))
        if isinstance(value, (list, tuple)):
            return bool(value) and all(map(self._is_tool, value))
        return isinstance(value, (torch.optim.Optimizer, torch.nn.Parameter, Instance, Closure))

    def of_call(self, call: ir.Call, code: Code, depth: int = 3) -> Frame:
        """The frame in which a call stands, whose code isn't run; its own parameters are its caller's."""
        caller = ir.function_of(call)
        if caller is None:
            return self.variables_of(code)
        outer, own = self.around(caller, depth - 1)
        frame = self.of_function(caller, outer, own)
        frame.given |= self.given_by_callers(caller, bound=own is not None, depth=depth - 1)
        return frame

    def around(self, function: ir.Function, depth: int = 3) -> tuple[Frame, Instance | None]:
        """The frame that a function was defined in, whose code isn't run, and its `self`.

        The function around it, which makes it, has been given what its callers give.
        """
        code = self._code.owner(function)
        outer = self.variables_of(code)
        if function.outer is not None:
            around, instance = self.around(function.outer, depth)
            outer = self.of_function(function.outer, around, instance)
            outer.given |= self.given_by_callers(function.outer, bound=instance is not None, depth=depth)
        if function.cls is None or not function.params:
            return outer, None
        static = {name for each in function.decorators for name in code.module.names.of(each)}
        if "builtins.staticmethod" in static:
            return outer, None
        cls = self._class if function is self._entry and self._class is not None else function.cls
        own = function.params[0].name
        return outer, Instance(ClassValue(cls, outer), own, own)

    def _constructs(self, function: ir.Function) -> dict[str, Any]:
        """What a constructor is given where its instance comes from out of sight, as far as its class's calls say."""
        if function.id not in self._constructed:
            self._constructed[function.id] = {}  # what is made of the instance itself comes from elsewhere
            if function.id in self._code.callers.followed:
                self._constructed[function.id] = self.given_by_callers(function, bound=True)
        return self._constructed[function.id]


class _Tied(NamedTuple):
    """What a call gives that hangs together, by the names of parameters, as it is written in the call."""

    scalers: dict[str, ir.Value]
    settings: dict[str, ir.Value]  # that are given along with scalers
    decide: list[str]  # those of them that decide what the scalers are

    def holds(self, name: str, value: Any) -> bool:
        """Whether a parameter has to be given a value, as another one hangs together with it."""
        if name in self.scalers:
            return value is None or isinstance(value, torch.amp.GradScaler)
        return name in self.settings and (
            isinstance(value, torch.dtype) or (name in self.decide and isinstance(value, Unknown))
        )


def _tied(site: Site, function: ir.Function) -> _Tied:
    """The scalers that a call gives, and the settings that it gives as well."""
    code, call = site.code, site.call
    given = {each.name: passed for each in function.params if (passed := argument(call, function, each.name))}
    makers = {name: made for name, passed in given.items() if (made := _makers(site, passed))}
    if not makers:
        return _Tied({}, {}, [])
    known = {
        _setting(code, each)
        for made in makers.values()
        for value in _hangs_on(code, made)
        for each in ir.walk_values(value)
    }
    settings = {name: passed for name, passed in given.items() if name not in makers and _is_setting(passed)}
    decide = [
        name
        for name, passed in settings.items()
        if _passed_on(site, passed) is not MISSING or not known.isdisjoint(_settings(code, passed))
    ]
    return _Tied({name: given[name] for name in makers}, settings, decide)


def _hangs_on(code: Code, values: list[ir.Value]) -> list[ir.Value]:
    """Values, and what the variables in them are set to."""
    found = [*values]
    for value in found:  # grows
        for name in ir.walk_values(value):
            bindings = code.module.names.bindings(name) if isinstance(name, ir.Name) else []
            more = [each.value for each in bindings if isinstance(each, Assigned) and _is_condition(each.value)]
            found += [each for each in more if each not in found][: _MOST_VALUES - len(found)]
    return found


def _is_condition(value: ir.Value) -> bool:
    """Whether a value is a comparison, or a condition on some."""
    return isinstance(value, (ir.Compare, ir.Bool, ir.Unary))


def _makers(site: Site, passed: ir.Value) -> list[ir.Value]:
    """What a scaler that is given to a function is made by, and what that hangs on; nothing where it isn't one."""
    code = site.code
    if isinstance(passed, ir.Conditional):
        arms = [each for each in (passed.then, passed.other) if not ir.is_none(each)]
        made = [_makers(site, each) for each in arms]
        return [passed.test, *(each for of in made for each in of)] if made and all(made) else []
    if isinstance(_passed_on(site, passed), torch.amp.GradScaler):
        return [passed]
    bindings = code.module.names.bindings(passed) if isinstance(passed, ir.Name) else []
    made_by = [each.value for each in bindings if isinstance(each, Assigned)]
    tools = [each for each in made_by if not ir.is_none(each)]
    if not tools or not all(map(code.is_tool, tools)):
        return []
    return [*made_by, *(owner.test for each in made_by for owner in ifs_round(each))]


def _passed_on(site: Site, passed: ir.Value) -> Any:
    """What the function around a call was given that it gives the call; `MISSING`: that is another value."""
    around = with_parameter(passed) if isinstance(passed, ir.Name) else None
    if around is None or around is not site.frame.function or not isinstance(passed, ir.Name):
        return MISSING
    return site.frame.given.get(passed.name, MISSING)


def _is_setting(passed: ir.Value) -> bool:
    """Whether an argument is a variable, an attribute or an entry, or a condition on some."""
    followed = (ir.Name, ir.Attribute, ir.Constant, ir.Compare, ir.Bool, ir.Unary, ir.Subscript)
    return all(isinstance(each, followed) or _key(each) is not None for each in ir.walk_values(passed))


def _settings(code: Code, value: ir.Value) -> set[str]:
    """What a value and its parts are called, whichever way they are written."""
    return {_setting(code, each) for each in ir.walk_values(value)}


def _setting(code: Code, value: ir.Value) -> str:
    """The same of a value itself: `cfg["amp"]`, `cfg.amp` and `cfg.get("amp")` are one setting."""
    if isinstance(value, ir.Attribute):
        return part_of(_setting(code, value.base), value.attr)
    base = value.base if isinstance(value, ir.Subscript) else ir.called_on(value, "get")
    key = _key(value)
    return part_of(_setting(code, base), key) if base is not None and key is not None else code.text(value)


def _key(value: ir.Value) -> str | None:
    """The key by which a value is taken of another, where it is written out; None: it is no such value."""
    given: ir.Value | None = None
    if isinstance(value, ir.Subscript):
        given = value.index
    elif isinstance(value, ir.Call) and ir.called_on(value, "get") is not None and value.positional:
        given = value.positional[0]
    return given.value if isinstance(given, ir.Constant) and isinstance(given.value, str) else None


def _wraps(value: Any) -> bool:
    """Whether a function or an instance's methods do something to scaler or gradients, or a name makes a region."""
    if isinstance(value, Instance):
        return value.cls.frame.code.class_matters(value.cls.cls)
    if isinstance(value, Closure):
        return value.frame.code.function_matters(value.function)
    return isinstance(value, Dotted) and value.name in REGIONS
