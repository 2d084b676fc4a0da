"""What verify has looked at in a file: its training steps, and of what else has AMP why it is none, or can't be run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from amplint.base.paths import seen_from
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import OF_SCALER
from amplint.model.syntax import ir
from amplint.model.torch_facts.grad_modes import NO_GRAD
from amplint.model.torch_facts.names import SCALERS
from amplint.verify.program.program import MAKES, STEPS, Code, Step
from amplint.verify.program.unfollowed import KNOWN
from amplint.verify.steps.looks import Kind, Look, Looked

# What a function is called that trains nothing.
_INFERS = re.compile(
    r"(?i)eval|valid|test|infer|predict|sampl|generat|demo|encod|embed|extract|export|bench|visuali|render|score|transcrib"
)
_OF_AMP = re.compile(r"torch\.(\w+\.)?amp\b|torch\.\w*autocast|(?!\.).*\bcustom_[fb]wd$|apex\.amp\b")
_APEX = "apex.amp."
_MOST_MAKERS = 40  # modules and functions that one is followed through to who makes it
_ACCELERATOR = re.compile(r"(?i)accelerator$")


class _Above(NamedTuple):
    """What a function is to other files, why, and which of them have the steps."""

    kind: Kind
    why: str
    files: list[str]


class _Seen(NamedTuple):
    """A function's look, the files with steps that run it, and the cause that other methods of modules can have too."""

    look: Look
    files: Sequence[str] = ()
    cause: str = ""


class Looker:
    """Looks at one file."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._steps = code.steps
        self._within: dict[int, Step] = {}
        for step in self._steps:
            for each in step.reach:
                self._within.setdefault(_key(each), step)

    def step_with(self, function: ir.Function | None) -> Step | None:
        """The first of the file's steps that runs a function; None is the file's own code."""
        return self._within.get(_key(function))

    def look(self) -> Looked:
        """What was seen."""
        code = self._code
        follow = list(dict.fromkeys(self._below())) or list(dict.fromkeys(self._below(hidden=True)))
        leads = bool(follow)
        looks: list[Look] = []
        causes: dict[str, list[int]] = {}  # of what methods of modules can't be checked for: their looks
        for function in (None, *code.module.functions):
            seen = self._seen(function, leads=leads)
            if seen is not None:
                follow += [each for each in seen.files if each not in follow]
                if seen.cause:
                    causes.setdefault(seen.cause, []).append(len(looks))
                looks.append(seen.look)
        for cause, places in causes.items():
            self._join(looks, cause, places)
        own = code.module.source.filename
        read = [each.module.source.filename for each in code.files.codes if each.module.source.filename != own]
        return Looked(self._outermost(looks), follow, read, code.files.unread, self._names_amp())

    def _seen(self, function: ir.Function | None, *, leads: bool) -> _Seen | None:
        """What a function is; None: it has nothing to do with AMP. `leads`: the file leads to others with steps."""
        has = self.has(function) or self._given_away(function)
        name, row = self._code.name(function), self._code.row(function) if function is not None else 1
        if has is None and not self._is_step(function):
            kind, why = self._idle(function) if not leads and not self._steps else (Kind.NONE, "")
            return _Seen(Look(name, row, kind, why)) if why else None
        kind, why = self._kind(function, has, followed=leads)
        if has is None or kind not in (Kind.NONE, Kind.HIDDEN):
            return _Seen(Look(name, row, kind, why))
        above = self._seen_above(function, has, kind, alone=not (self._steps or leads))
        kind, why, files = above if above is not None else (kind, why, [])
        cause = self._cause(function, has, why) if kind is Kind.HIDDEN else ""
        return _Seen(Look(name, row, kind, why), files, cause)

    def _cause(self, function: ir.Function | None, has: ir.Value, why: str) -> str:
        """Why a method of a module can't be checked, without the line that says so; "": it is another function."""
        is_modules = function is not None and function.cls is not None and _is_module(self._code, function.cls)
        line = self._line(has)
        return why.removeprefix(line) if is_modules and why.startswith(line) else ""

    @staticmethod
    def _join(looks: list[Look], cause: str, places: list[int]) -> None:
        """Say one cause once: by the first of a file's methods that have it."""
        first, *others = places
        if others:
            known = looks[first]
            line = known.why.removesuffix(cause)
            more = f"and so {'have' if len(others) > 1 else 'has'} {len(others)} more of the file's modules"
            looks[first] = known._replace(why=f"{line}, {more}{cause}")
            for each in others:
                looks[each] = looks[each]._replace(kind=Kind.PART, why=f"like {known.name}{cause}")

    def _line(self, has: ir.Value) -> str:
        """The line with what a function has of AMP, in words."""
        return f"{self._code.where(has)} has {_short(self._code.text(has))}"

    def _names_amp(self) -> bool:
        """Whether the file names something of AMP, if only to import it."""
        module = self._code.module
        imported = {
            f"{each.module}.{alias.name}" if each.module else alias.name
            for each in module.own.imports
            for alias in each.aliases
        }
        named = {
            name
            for each in module.values
            if isinstance(each, (ir.Name, ir.Attribute))
            for name in module.names.of(each)
        }
        return any(_OF_AMP.match(each) for each in imported | named)

    def _outermost(self, looks: list[Look]) -> list[Look]:
        """Of functions that hide a step, those that no other one of them runs."""
        hidden = {each.name for each in looks if each.kind is Kind.HIDDEN}
        inner = {
            self._code.name(each)
            for function in (None, *self._code.module.functions)
            if self._code.name(function) in hidden
            for each in self._code.reach(function)[1:]
            if each is not None and self._code.owner(each) is self._code
        }
        return [
            each._replace(kind=Kind.PART, why="a part of another function")
            if each.kind is Kind.HIDDEN and each.name in inner and not hidden <= inner
            else each
            for each in looks
        ]

    def _is_step(self, function: ir.Function | None) -> bool:
        return any(each.function is function for each in self._steps)

    def _kind(self, function: ir.Function | None, has: ir.Value | None, *, followed: bool) -> tuple[Kind, str]:
        if self._is_step(function):
            return Kind.STEP, "a training step"
        if (step := self.step_with(function)) is not None:
            return Kind.PART, f"a part of {step.name}"
        assert has is not None
        code = self._code
        if (given_away := self._given_away(function)) is not None:
            return Kind.HIDDEN, self._unseen(given_away)
        runs = next((each for each in code.reach(function)[1:] if each is not None and self._steps_in(each)), None)
        if runs is not None:
            owner = code.owner(runs)
            return Kind.PART, f"runs {owner.name(runs)}{'' if owner is code else f' of {_file(code, owner)}'}"
        if self._steps and _makes_scaler(code, has) and not code.own_kinds(function):
            return Kind.PART, self._line(has)
        return self._kind_without_step(function, has, followed=followed)

    def _kind_without_step(self, function: ir.Function | None, has: ir.Value, *, followed: bool) -> tuple[Kind, str]:
        """What a function with AMP is that neither is a step nor runs one, nor is run by one of the file."""
        code = self._code
        what = self._line(has)
        kinds = code.kinds_in(code.reach(function))
        trains = bool(kinds & {"backward", *STEPS, *OF_SCALER})
        missing = [
            said
            for said, there in (("no backward", "backward" in kinds), ("no optimizer step", bool(kinds & STEPS)))
            if not there
        ]
        why = f"{what}, but {' and '.join(missing)} is reached from it" if missing else what
        if isinstance(has, ir.Call) and any(each.startswith(_APEX) for each in code.module.names.of(has.func)):
            return Kind.HIDDEN, f"{what}, which is apex's: amplint doesn't interpret apex"
        hidden = self._hidden(function)
        if hidden is not None:
            return Kind.HIDDEN, self._unseen(hidden)
        if trains and missing and (inherited := self._inherited(function)):
            return Kind.HIDDEN, inherited
        if trains:
            return Kind.HIDDEN, why if missing else f"{what}, but amplint sees no backward and no step for it"
        if self._steps or followed or not self._may_train(function, has):
            return Kind.NONE, f"{why}: nothing to check"
        return Kind.HIDDEN, f"{what}, but amplint doesn't see the training step that runs it"

    def _may_train(self, function: ir.Function | None, has: ir.Value) -> bool:
        """Whether what has AMP can be a part of a step that is out of sight: nothing says that it only infers."""
        code = self._code
        if _makes_scaler(code, has):
            return True
        if function is None or _is_inference(code, function):
            return False
        if _INFERS.search(function.name) and not _returns_function(function):
            return False
        callers = [ir.function_of(each) for each in code.calls_of(function)]
        return not callers or any(each is not None and self._may_train(each, has) for each in callers)

    # --- what a function has of AMP

    def has(self, function: ir.Function | None) -> ir.Value | None:
        """The first expression of a function's own that makes or uses a region or scaler."""
        code = self._code
        body = function.body if function is not None else code.module.program.body
        for each in function.decorators if function is not None else ():
            if code.naming(each):
                return each
        return next(filter(self._is_of_amp, self._values(body)), None)

    def _is_of_amp(self, value: ir.Value) -> bool:
        """Whether an expression makes or uses a region or scaler, or names what makes one."""
        if isinstance(value, ir.Call):
            return self._calls_amp(value)
        if not isinstance(value, (ir.Name, ir.Attribute)) or _is_bound(value):
            return False
        called = isinstance(value.parent, ir.Call) and value.parent.func is value
        names = self._code.module.names.of(value)
        return bool(names & MAKES) and not called and not isinstance(value.parent, ir.Attribute)

    def _calls_amp(self, call: ir.Call) -> bool:
        code = self._code
        names = code.names_of(call.func)
        if names & MAKES or any(each.startswith(_APEX) for each in names) or region_of(code.module, call) is not None:
            return True
        if code.callers.gives_region(call) or self._makes_own_scaler(call):
            return True
        event = code.event(call)
        if event is None:
            return False
        if event.kind == "opaque" and _is_accelerators(call.func):
            return True
        return event.kind in OF_SCALER or event.how == "accelerate"

    def _makes_own_scaler(self, call: ir.Call) -> bool:
        """Whether a call makes a scaler of a class of the program that inherits torch's."""
        what = self._code.files.what(self._code, call.func)
        classes = self._code.files.bases(self._code.owner(what), what) if isinstance(what, ir.Class) else ()
        return any(of.module.names.of(base.value) & SCALERS for of, each in classes for base in each.bases)

    @staticmethod
    def _values(body: ir.Block) -> Iterator[ir.Value]:
        for value in ir.values_below(body):
            yield value
            if isinstance(value, ir.Lambda):
                yield from ir.values_below(value.function.body)

    def _hidden(self, function: ir.Function | None) -> ir.Call | None:
        """The first call that may make or use gradients where that can't be seen, reached from a function."""
        code = self._code
        for each in code.reach(function):
            owner = code.owner(each)
            body = each.body if each is not None else code.module.program.body
            for event in owner.events.below(body):
                call = event.call
                if event.kind != "opaque" or not isinstance(call, ir.Call) or owner.unfollowed.is_followed(owner, call):
                    continue
                may_train = owner.unfollowed.may_train(owner, call) or owner.unfollowed.steps_by_itself(owner, call)
                if owner is code and may_train:
                    return call
        return None

    def _given_away(self, function: ir.Function | None) -> ir.Call | None:
        """The first call of a function's own suite that is given a scaler and can't be followed."""
        code = self._code
        body = function.body if function is not None else code.module.program.body
        for call in self._values(body):
            if not isinstance(call, ir.Call) or not code.unfollowed.is_given_scaler(code, call):
                continue
            event = code.event(call)
            if (
                (event is None or event.kind == "opaque")
                and not code.unfollowed.is_followed(code, call)
                and not code.unfollowed.is_harmless(code, call)
            ):
                return call
        return None

    def _unseen(self, call: ir.Call) -> str:
        """That a call can't be followed, in words."""
        code = self._code
        return f"{code.where(call)}: amplint can't see what {_short(code.text(call))} does{self._origin(call)}"

    def _origin(self, call: ir.Call) -> str:
        """Where what is called comes from, in words, if that is no file of the project."""
        code = self._code
        base = call.func.base if isinstance(call.func, ir.Attribute) else call.func
        for value in dict.fromkeys((call.func, base)):
            for of, source in code.callers.sources(code, value, 6):
                named = source.func if isinstance(source, ir.Call) else source
                found = of.module.names.only(named)
                is_library = found is not None and found[0].isalpha() and found.partition(".")[0] not in KNOWN
                if why := of.files.why_unread(of, named):
                    return f": {why}"
                if is_library and of.files.what(of, named) is None:
                    return f": {found} is not in the project"
        return ""

    # --- other files

    def _below(self, *, hidden: bool = False) -> Iterator[str]:
        """The files with steps (or `hidden`: what may hide some) that functions of this one run, and no step of it."""
        code = self._code
        for function in (None, *code.module.functions):
            if self.step_with(function) is not None:
                continue
            for each in code.reach(function)[1:]:
                owner = code.owner(each)
                if each is None or owner is code or self.step_with(each) is not None:
                    continue
                if Looker(owner).hides(each) if hidden else owner.is_step(each):
                    yield owner.module.source.filename

    def hides(self, function: ir.Function) -> bool:
        """Whether a function has AMP, and may train where that can't be seen."""
        has = self.has(function)
        return has is not None and self._kind(function, has, followed=False)[0] is Kind.HIDDEN

    def _idle(self, function: ir.Function | None) -> tuple[Kind, str]:
        """What a function runs of another file that has AMP: it trains nothing, or may where that can't be seen."""
        code = self._code
        for each in code.reach(function)[1:]:
            owner = code.owner(each)
            if each is not None and owner is not code and Looker(owner).has(each) is not None:
                runs = f"runs {owner.name(each)} of {_file(code, owner)}"
                if code.files.is_full:
                    read = len(code.files.codes)
                    return Kind.HIDDEN, f"{runs}, which is connected with more files than the {read} that amplint reads"
                if kept := self._kept_out_of_sight(function):
                    return Kind.HIDDEN, f"{runs}, and {kept}"
                return Kind.NONE, f"{runs}, which trains nothing: nothing to check"
        return Kind.NONE, ""

    def _kept_out_of_sight(self, function: ir.Function | None) -> str:
        """That a function which may train, by name, is called and can't be followed, in words; "": there is none."""
        code = self._code
        for each in code.reach(function):
            owner = code.owner(each)
            for value in ir.values_below(each.body if each is not None else owner.module.program.body):
                if isinstance(value, ir.Call) and owner.unfollowed.hides_training(owner, value):
                    return f"{owner.where(value)}: amplint can't see what {_short(owner.text(value))} does"
        return ""

    def _inherited(self, function: ir.Function | None) -> str:
        """That a function calls what may train of a class out of sight, in words; "": it doesn't."""
        code = self._code
        for each in code.reach(function):
            owner = code.owner(each)
            for value in ir.values_below(each.body if each is not None else owner.module.program.body):
                cls = owner.unfollowed.inherits_training(owner, value) if isinstance(value, ir.Call) else ""
                if cls:
                    called = _short(owner.text(value))
                    return f"{owner.where(value)}: amplint can't see what {called} of {cls} does"
        return ""

    def _seen_above(self, function: ir.Function | None, has: ir.Value, kind: Kind, *, alone: bool) -> _Above | None:
        """What a function is to those who import its file: a part of a step of theirs; None: nothing is known of it.

        `alone`: the file neither has a step nor leads to one.
        """
        code = self._code
        if function is not None and _is_inference(code, function):
            return None
        cls = function.cls if function is not None else None
        users = code.callers.may_use(code, cls) if cls is not None else code.files.importing(code)
        for owner in users:
            step = self._step_with(owner, function, has) if owner is not code else None
            if step is not None:
                why = f"a part of {step.name} of {_file(code, owner)}"
                return _Above(Kind.PART, why, [owner.module.source.filename])
        if function is None or kind is not Kind.HIDDEN or not alone:
            return None
        beside = [each for each in dict.fromkeys(self._beside(function, has)) if each != code.module.source.filename]
        if beside:
            return _Above(Kind.PART, "a part of a step of another file", beside)
        return self._of_module(function, has)

    def _step_with(self, owner: Code, function: ir.Function | None, has: ir.Value) -> Step | None:
        """The step of another file that runs a function, or methods of the instance that it makes, or uses a variable.

        The variable is one of the file itself, which is given what `has` AMP.
        """
        if function is None:
            return self._using_step(owner, has)
        cls = function.cls
        running = [function]
        if cls is not None and function.name == "__init__":
            running = [each for each in cls.body.statements if isinstance(each, ir.Function)]
        step = next(filter(None, map(Looker(owner).step_with, running)), None)
        return step or (self._inheriting_step(owner, cls, has) if cls is not None else None)

    def _using_step(self, owner: Code, has: ir.Value) -> Step | None:
        """The step of another file that uses the variable which is given what has AMP."""
        names = {each.name for each in _targets(has) if isinstance(each, ir.Name)}
        for step in owner.steps:
            for each in step.reach:
                of = owner.owner(each)
                values = ir.values_below(each.body if each is not None else owner.module.program.body)
                places = (of.files.of(of, value) for value in values)
                if any(place is not None and place.code is self._code and place.name in names for place in places):
                    return step
        return None

    @staticmethod
    def _inheriting_step(owner: Code, cls: ir.Class, has: ir.Value) -> Step | None:
        """The step of a class of another file that inherits one, and uses the attribute that is given what has AMP."""
        names = {
            value.attr for each in _targets(has) for value in ir.walk_values(each) if isinstance(value, ir.Attribute)
        }
        for step in owner.steps if names else ():
            of = step.function.cls if step.function is not None else None
            if of is not None and owner.callers.derives(owner, of, cls) and names & _attributes(step):
                return step
        return None

    def _beside(self, function: ir.Function, has: ir.Value) -> Iterator[str]:
        """The files with steps that those lead to who run a function; of one that makes a scaler their own as well."""
        code = self._code
        for owner in code.files.importing(code):
            if any(function in owner.reach(each) for each in (None, *owner.module.functions)):
                yield from [owner.module.source.filename] if owner.steps and _makes_scaler(code, has) else []
                yield from Looker(owner)._below()

    def _of_module(self, function: ir.Function, has: ir.Value) -> _Above | None:
        """What a method of a module is to the files that make one, and that have steps or lead to some.

        A part of a module that has AMP, too, and is made of this one.
        """
        code, cls = self._code, function.cls
        if cls is None or not _is_module(code, cls):
            return None
        files: dict[str, str] = {}  # with the first that makes one
        for owner, maker in self._makers(cls):
            looker = Looker(owner)
            if maker is not None and owner is not code and looker.hides_any(maker):
                why = f"a part of {maker.name} of {_file(code, owner)}"
                return _Above(Kind.PART, why, [owner.module.source.filename])
            own = [owner.module.source.filename] if owner.steps else list(looker._below())
            files |= {each: _file(code, owner) for each in own if each not in files}
        if not files:
            return None
        made = ", ".join(dict.fromkeys(files.values()))
        why = f"{self._line(has)}, in a module that {made} creates next to a training step"
        return _Above(Kind.HIDDEN, f"{why}: amplint doesn't interpret what a module computes", [*files])

    def _makers(self, cls: ir.Class) -> Iterator[tuple[Code, ir.Class | None]]:
        """The files that make a module, and the modules that are made of it; then those that make these.

        What a function makes, those make who call it.
        """
        callers = self._code.callers
        todo: list[ir.Class | ir.Function] = [cls]
        seen = {cls.id}
        while todo:
            wanted = todo.pop(0)
            calls = callers.made_in(wanted) if isinstance(wanted, ir.Class) else callers.calls(wanted)
            for owner, call in calls:
                around = ir.function_of(call)
                inside = around.cls if around is not None else None
                maker = inside if inside is not None and _is_module(owner, inside) else None
                yield owner, maker
                following = maker or around
                if following is not None and following.id not in seen and len(seen) < _MOST_MAKERS:
                    seen.add(following.id)
                    todo.append(following)

    def hides_any(self, cls: ir.Class) -> bool:
        """Whether a module has such a method, and so a row itself."""
        return any(self.hides(each) for each in cls.body.statements if isinstance(each, ir.Function))

    def _steps_in(self, function: ir.Function) -> bool:
        """Whether a function is a step, of this file or another."""
        return self._code.owner(function).is_step(function)


def _targets(has: ir.Value) -> Sequence[ir.Value]:
    """What is given a value, if its statement assigns."""
    stored = ir.statement_of(has)
    return stored.targets if isinstance(stored, ir.Assign) else ()


def _attributes(step: Step) -> set[str]:
    """The attributes that the methods in a step name."""
    bodies = [each.body for each in step.reach if each is not None and each.cls is not None]
    return {each.attr for body in bodies for each in ir.values_below(body) if isinstance(each, ir.Attribute)}


def _is_inference(code: Code, function: ir.Function) -> bool:
    """Whether a function makes no gradients, or calls `eval` of what it runs."""
    values = [
        *ir.values_below(function.body),
        *(each for one in function.decorators for each in ir.walk_values(one)),
    ]
    return any(
        bool(code.module.names.of(each) & NO_GRAD)
        or (isinstance(each, ir.Call) and isinstance(each.func, ir.Attribute) and each.func.attr == "eval")
        for each in values
    )


def _returns_function(function: ir.Function) -> bool:
    """Whether a function returns one that it makes: what that does is up to who calls it."""
    own = {each.name for each in ir.walk_statements(function.body, into=False) if isinstance(each, ir.Function)}
    return any(isinstance(each.value, ir.Name) and each.value.name in own for each in returned(function))


def _is_module(code: Code, cls: ir.Class) -> bool:
    """Whether a class is one of torch's modules, by what it inherits."""
    names = {
        name
        for of, each in code.files.bases(code, cls)
        for base in each.bases
        for name in of.module.names.of(base.value)
    }
    return any(name.startswith("torch.nn.") or name.endswith("Module") for name in names)


def _file(code: Code, other: Code) -> str:
    """Another file, as one says where it is."""
    return seen_from(other.module.source.filename, code.module.source.filename)


def _key(function: ir.Function | None) -> int:
    return function.id if function is not None else 0


def _is_bound(value: ir.Name | ir.Attribute) -> bool:
    return isinstance(value, ir.Name) and value.bound


def _is_accelerators(func: ir.Value) -> bool:
    return (
        isinstance(func, ir.Attribute)
        and func.attr == "backward"
        and bool(_ACCELERATOR.search(ir.last_name(func.base)))
    )


def _makes_scaler(code: Code, value: ir.Value) -> bool:
    names = code.module.names.of(value.func if isinstance(value, ir.Call) else value)
    event = code.event(value) if isinstance(value, ir.Call) else None
    return any(each.endswith("GradScaler") for each in names) or (event is not None and event.kind in OF_SCALER)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
