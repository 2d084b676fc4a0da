"""Fifty faults that someone who works on flow analysis could make; the differential test has to notice them."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong, in which file of amplint/model, the exact text there, and what stands in its place."""

    name: str
    file: str
    old: str
    new: str


FAULTS = (
    # --- flow: branches, loops, regions ---
    Fault("a loop's body is run once", "loops.py", "MAX_ROUNDS = 6", "MAX_ROUNDS = 1"),
    Fault(
        "what continues comes to no next iteration",
        "statements.py",
        "else Paths(continues=states)",
        "else Paths()",
    ),
    Fault(
        "what breaks out of a loop is lost",
        "loops.py",
        "paths.normal += inner.breaks\n            paths.exits += inner.exits",
        "paths.exits += inner.exits",
    ),
    Fault(
        "a branch's else is dropped",
        "statements.py",
        "{True: statement.then, False: statement.orelse}",
        "{True: statement.then, False: None}",
    ),
    Fault(
        "a loop's next iteration isn't told from its last one",
        "state.py",
        "carried=self.carried | touched",
        "carried=self.carried",
    ),
    Fault("a loop over optimizers makes one turn", "loops.py", "for aliases in rounds:", "for aliases in rounds[:1]:"),
    Fault(
        "a region is not left where its with ends",
        "statements.py",
        "left[:] = [state.but(regions=state.regions[:depth]) for state in left]",
        "left[:] = list(left)",
    ),
    Fault(
        "the last suite of a try is not run",
        "statements.py",
        "inner = self.block(statement.final, joined(left)) if left else Paths()",
        "inner = Paths(normal=left)",
    ),
    # --- expressions: calls, and how tests come out ---
    Fault("only calls of the function itself are followed", "flow.py", "MAX_DEPTH = 24", "MAX_DEPTH = 1"),
    Fault(
        "a function that has ended is taken to run still",
        "expressions.py",
        "del self._active[around:]",
        "pass",
    ),
    Fault(
        "a parameter is not the caller's object",
        "expressions.py",
        "aliases[own] = state.object_of(key)",
        "held.append((own, None, []))",
    ),
    Fault(
        "what the caller knows of an argument isn't known of the parameter",
        "expressions.py",
        "            for fact, truth in facts:\n                state = state.with_fact(fact, truth)\n",
        "",
    ),
    Fault(
        "a function that returns is not gone on from",
        "expressions.py",
        "for state in paths.normal), *paths.exits]",
        "for state in paths.normal)]",
    ),
    Fault(
        "an or is left by what fails",
        "expressions.py",
        'if left.holds is (test.op == "or"):',
        'if left.holds is (test.op == "and"):',
    ),
    # --- transfer: what the events do ---
    Fault(
        "an update marks the gradients of every scaler",
        "transfer.py",
        "counts = before.scaler == scaler and before.kind",
        "counts = before.kind",
    ),
    Fault(
        "an update leaves no mark on the gradients",
        "transfer.py",
        "return before._replace(updated=event.call.id) if counts else before",
        "return before",
    ),
    Fault(
        "a step leaves no mark on the gradients",
        "transfer.py",
        '        if event.kind == "step":\n            held = held._replace(used=event.call.id)\n',
        "",
    ),
    Fault(
        "a direct step of scaled gradients passes",
        "transfer.py",
        'if held.kind in ("scaled", "mixed"):\n            how',
        'if held.kind == "mixed":\n            how',
    ),
    Fault(
        "a step alone divides nothing",
        "transfer.py",
        "if stage is Stage.READY:\n            held = after_unscale(",
        'if event.kind == "unscale_":\n            held = after_unscale(',
    ),
    Fault(
        "a path that knows the scaler off takes it for on",
        "switches.py",
        "return self._switched(scaler, state) is False",
        "return False",
    ),
    Fault(
        "a clip behind the step passes until the next clear",
        "transfer.py",
        '_USED = ("unscaled", "none", ',
        '_USED = ("none", ',
    ),
    Fault(
        "what an earlier iteration left is taken for this one's",
        "transfer.py",
        "event.call.id, state.is_carried(scaler, optimizer)",
        "event.call.id, False",
    ),
    Fault(
        "scaled gradients on top of unscaled ones pass the step",
        "transfer.py",
        "            state = self._over(event, [optimizer], state)\n            doer",
        "            doer",
    ),
    # --- state ---
    Fault(
        "an event for one optimizer forgets the others",
        "state.py",
        "kept = {each for each in self.groups if each[0] != optimizer}",
        "kept = set[tuple[str, Gradients]]()",
    ),
    Fault(
        "what is known of a variable outlives its value",
        "state.py",
        "if not any(key in fact[0] and _reads(fact[0], key) for key in keys)",
        "if fact[0]",
    ),
    Fault(
        "an optimizer that has stepped is not carried over",
        "state.py",
        "if standing.stage is not Stage.READY",
        "if standing.stage is Stage.UNSCALED",
    ),
    Fault(
        "a scaler from elsewhere is taken for a new one",
        "state.py",
        "_USED_BEFORE = Machine(scaled=True)",
        "_USED_BEFORE = Machine()",
    ),
    Fault(
        "an object's other name is forgotten",
        "state.py",
        "return held + key[len(name) :]",
        "return key",
    ),
    # --- gradients ---
    Fault(
        "a plain backward on scaled gradients is overlooked",
        "gradients.py",
        'return before._replace(kind="mixed", origin=call)',
        "return before",
    ),
    Fault(
        "scaled gradients on unscaled ones are all scaled",
        "gradients.py",
        'return before._replace(kind="over", scaler=scaler, origin=call, updated=0)',
        'return Gradients("scaled", scaler, call)',
    ),
    Fault(
        "what unscaled the gradients is not remembered",
        "gradients.py",
        'before._replace(kind="unscaled", scaler=scaler, by=call, used=used, updated=0)',
        'before._replace(kind="unscaled", scaler=scaler, used=used, updated=0)',
    ),
    # --- protocol: the scaler's machine ---
    Fault(
        "a step behind unscale_ leaves the optimizer unscaled",
        "protocol.py",
        '("step", Stage.UNSCALED): Stage.STEPPED',
        '("step", Stage.UNSCALED): Stage.UNSCALED',
    ),
    Fault(
        "an update with nothing checked passes",
        "protocol.py",
        "if not call.argument and not any(",
        "if call.argument and not any(",
    ),
    Fault(
        "a step without a scale passes",
        "protocol.py",
        '        if not self.scaled:\n            return self, _never_scaled("step")\n',
        "",
    ),
    # --- paths ---
    Fault(
        "paths are joined on what the first of them knows",
        "paths.py",
        "groups[bare] & state.facts if bare in groups else state.facts",
        "groups.get(bare, state.facts)",
    ),
    # --- conditions ---
    Fault(
        "a not is overlooked",
        "expressions.py",
        "yield each._replace(holds=not each.holds)",
        "yield each",
    ),
    Fault(
        "`is None` is taken for `is not None`",
        "conditions.py",
        'return (f"present({rendered})", not holds) if',
        'return (f"present({rendered})", holds) if',
    ),
    Fault(
        "a boundary is taken for a flag",
        "conditions.py",
        'if isinstance(value, ir.Binary) and value.op == "Modulo"',
        'if isinstance(value, ir.Binary) and value.op == "FloorDivide"',
    ),
    Fault(
        "a path forgets which arm it took",
        "conditions.py",
        "return state.with_fact(fact[0], fact[1] is holds)",
        "return state",
    ),
    # --- calls ---
    Fault(
        "arguments by name are overlooked",
        "arguments.py",
        "for arg in args if arg.keyword is not None and arg.keyword in found",
        "for arg in args if arg.keyword is None",
    ),
    Fault(
        "an object that is called runs nothing",
        "calls.py",
        "            return Callee(function)  # a function that was passed in\n"
        '        return self._of_instance(key, "__call__")',
        "            return Callee(function)  # a function that was passed in\n        return None",
    ),
    Fault("a function that only clears does not matter", "calls.py", '"zero_grad", "grad", ', '"grad", '),
    # --- containers ---
    Fault(
        "a loop over optimizers misses the first",
        "containers.py",
        "return self._keys(display.items, source)",
        "return self._keys(display.items[1:], source)",
    ),
    Fault(
        "a list in a variable is not looked up",
        "containers.py",
        "return sources[0]",
        "return value",
    ),
    # --- ownership ---
    Fault(
        "a loss of one model may reach another's parameters",
        "ownership.py",
        "return False if reach.whole and roots else None",
        "return None",
    ),
    Fault(
        "clearing a whole model does not clear its parts",
        "ownership.py",
        "if all(_contains(what, root) for root in owned):\n            return True",
        "if all(_contains(what, root) for root in owned):\n            return what in owned",
    ),
    Fault(
        "a clip is never told whose gradients it takes",
        "ownership.py",
        'return (found, True) if found else (met or [""], False)',
        'return met or [""], False',
    ),
    # --- regions ---
    Fault(
        "a region that is switched off counts",
        "regions.py",
        "if not state.regions or state.regions[-1].enabled is False:",
        "if not state.regions:",
    ),
    Fault("a choice of regions is its first arm", "regions.py", "opened = then or other", "opened = then"),
    # --- frames ---
    Fault(
        "an inner call forgets the outer one's names",
        "frames.py",
        "aliases, classes = {**self.aliases, **aliases},",
        "aliases, classes = aliases,",
    ),
)
