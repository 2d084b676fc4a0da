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
    Fault("a loop's body is run once", "flow/eval_loops.py", "MAX_ROUNDS = 6", "MAX_ROUNDS = 1"),
    Fault(
        "what continues comes to no next iteration",
        "syntax/interpreter.py",
        "else Paths(continues=states)",
        "else Paths()",
    ),
    Fault(
        "what breaks out of a loop is lost",
        "syntax/interpreter.py",
        "paths.normal += inner.breaks\n                paths.exits += inner.exits",
        "paths.exits += inner.exits",
    ),
    Fault(
        "a branch's else is dropped",
        "flow/eval_statements.py",
        "{True: statement.then, False: statement.orelse}",
        "{True: statement.then, False: None}",
    ),
    Fault(
        "a loop's next iteration isn't told from its last one",
        "flow/state.py",
        "carried=self.carried | touched",
        "carried=self.carried",
    ),
    Fault(
        "a loop over optimizers makes one turn",
        "flow/eval_loops.py",
        "self._todo = iter(rounds)",
        "self._todo = iter(rounds[:1])",
    ),
    Fault(
        "a region is not left where its with ends",
        "flow/eval_statements.py",
        "return state.replace(regions=state.regions[:depth])",
        "return state",
    ),
    Fault(
        "the last suite of a try is not run",
        "syntax/interpreter.py",
        "inner = self.block(final, self.joined(left))",
        "inner = Paths(normal=left)",
    ),
    # --- expressions: calls, and how tests come out ---
    Fault(
        "only calls of the function itself are followed", "flow/eval_expressions.py", "MAX_DEPTH = 24", "MAX_DEPTH = 1"
    ),
    Fault(
        "a function that has ended is taken to run still",
        "flow/eval_expressions.py",
        "del self._active[around:]",
        "pass",
    ),
    Fault(
        "a parameter is not the caller's object",
        "flow/eval_expressions.py",
        "aliases[own] = state.object_of(key)",
        "held.append((own, None, []))",
    ),
    Fault(
        "what the caller knows of an argument isn't known of the parameter",
        "flow/eval_expressions.py",
        "            for fact in facts:\n                state = state.with_fact(*fact)\n",
        "",
    ),
    Fault(
        "a function that returns is not gone on from",
        "flow/eval_expressions.py",
        "for state in paths.normal), *paths.exits]",
        "for state in paths.normal)]",
    ),
    Fault(
        "an or is left by what fails",
        "flow/eval_expressions.py",
        'if left.holds is (test.op == "or"):',
        'if left.holds is (test.op == "and"):',
    ),
    # --- transfer: what the events do ---
    Fault(
        "an update marks the gradients of every scaler",
        "flow/transfer.py",
        "counts = before.scaler == scaler and before.kind",
        "counts = before.kind",
    ),
    Fault(
        "an update leaves no mark on the gradients",
        "flow/transfer.py",
        "return before._replace(updated=event.call.id) if counts else before",
        "return before",
    ),
    Fault(
        "a step leaves no mark on the gradients",
        "flow/transfer.py",
        "held = state.gradients_of(optimizer)._replace(used=event.call.id, stepped=stepped)",
        "held = state.gradients_of(optimizer)",
    ),
    Fault(
        "a direct step of scaled gradients passes",
        "flow/transfer.py",
        "if held.kind in (GradientKind.SCALED, GradientKind.MIXED):\n        return",
        "if held.kind is GradientKind.MIXED:\n        return",
    ),
    Fault(
        "a step alone divides nothing",
        "flow/transfer.py",
        "if stage is Stage.READY:\n            held = after_unscale(",
        'if event.kind == "unscale_":\n            held = after_unscale(',
    ),
    Fault(
        "a path that knows the scaler off takes it for on",
        "flow/scaler_enabled.py",
        "return self._switched(scaler, state) is False",
        "return False",
    ),
    Fault(
        "a clip behind the step passes until the next clear",
        "flow/transfer.py",
        "_USED = (GradientKind.UNSCALED, GradientKind.NONE, ",
        "_USED = (GradientKind.NONE, ",
    ),
    Fault(
        "what an earlier iteration left is taken for this one's",
        "flow/transfer.py",
        "carried = state.is_carried(scaler, optimizer)",
        "carried = False",
    ),
    Fault(
        "scaled gradients on top of unscaled ones pass the step",
        "flow/transfer.py",
        "            state = self._over(event, [optimizer], state)\n            state = self._use",
        "            state = self._use",
    ),
    # --- state ---
    Fault(
        "an event for one optimizer forgets the others",
        "flow/state.py",
        "kept = {each for each in self.groups if each[0] != optimizer}",
        "kept = set[tuple[str, Gradients]]()",
    ),
    Fault(
        "what is known of a variable outlives its value",
        "flow/state.py",
        "if not any(reads(fact.condition, key) for key in keys)",
        "if fact.condition",
    ),
    Fault(
        "an optimizer that has stepped is not carried over",
        "flow/state.py",
        "if its.stage is not Stage.READY",
        "if its.stage is Stage.UNSCALED",
    ),
    Fault(
        "a scaler from elsewhere is taken for a new one",
        "flow/state.py",
        "_USED_BEFORE = Machine(scaled=True)",
        "_USED_BEFORE = Machine()",
    ),
    Fault(
        "an object's other name is forgotten",
        "flow/state.py",
        "return moved(key, name, held)",
        "return key",
    ),
    # --- gradients ---
    Fault(
        "a plain backward on scaled gradients is overlooked",
        "flow/gradients.py",
        "return before._replace(kind=GradientKind.MIXED, origin=call, stepped=0)",
        "return before",
    ),
    Fault(
        "scaled gradients on unscaled ones are all scaled",
        "flow/gradients.py",
        "return before._replace(kind=GradientKind.OVER, scaler=scaler, origin=call, updated=0)",
        "return Gradients(GradientKind.SCALED, scaler, call)",
    ),
    Fault(
        "what unscaled the gradients is not remembered",
        "flow/gradients.py",
        "before._replace(kind=GradientKind.UNSCALED, scaler=scaler, by=call, used=used, updated=0)",
        "before._replace(kind=GradientKind.UNSCALED, scaler=scaler, used=used, updated=0)",
    ),
    # --- protocol: the scaler's machine ---
    Fault(
        "a step behind unscale_ leaves the optimizer unscaled",
        "torch_facts/grad_scaler.py",
        '("step", Stage.UNSCALED): Stage.STEPPED',
        '("step", Stage.UNSCALED): Stage.UNSCALED',
    ),
    Fault(
        "an update with nothing checked passes",
        "torch_facts/grad_scaler.py",
        "if not call.argument and not any(",
        "if call.argument and not any(",
    ),
    Fault(
        "a step without a scale passes",
        "torch_facts/grad_scaler.py",
        '        if not self.scaled:\n            return self, _never_scaled("step")\n',
        "",
    ),
    # --- paths ---
    Fault(
        "paths are joined on what the first of them knows",
        "flow/path_sets.py",
        "groups[bare] & state.facts if bare in groups else state.facts",
        "groups.get(bare, state.facts)",
    ),
    # --- conditions ---
    Fault(
        "a not is overlooked",
        "flow/eval_expressions.py",
        "yield each._replace(holds=not each.holds)",
        "yield each",
    ),
    Fault(
        "`is None` is taken for `is not None`",
        "flow/path_conditions.py",
        "return Fact(present(term), not holds) if",
        "return Fact(present(term), holds) if",
    ),
    Fault(
        "a boundary is taken for a flag",
        "flow/path_conditions.py",
        'return value.op == "Modulo"',
        'return value.op == "FloorDivide"',
    ),
    Fault(
        "a path forgets which arm it took",
        "flow/path_conditions.py",
        "return state.with_fact(condition, meant is holds)",
        "return state",
    ),
    # --- calls ---
    Fault(
        "arguments by name are overlooked",
        "syntax/arguments.py",
        "for param in named if param.name in keywords",
        "for param in named if not param.name",
    ),
    Fault(
        "an object that is called runs nothing",
        "calls/call_graph.py",
        "            return Callee(function)  # a function that was passed in\n"
        '        return self._of_instance(key, "__call__")',
        "            return Callee(function)  # a function that was passed in\n        return None",
    ),
    Fault("a function that only clears does not matter", "calls/call_graph.py", '"zero_grad", "grad", ', '"grad", '),
    # --- containers ---
    Fault(
        "a loop over optimizers misses the first",
        "flow/containers.py",
        "return self._keys(display.items, source)",
        "return self._keys(display.items[1:], source)",
    ),
    Fault(
        "a list in a variable is not looked up",
        "flow/containers.py",
        "return sources[0]",
        "return value",
    ),
    # --- ownership ---
    Fault(
        "a loss of one model may reach another's parameters",
        "flow/parameter_ownership.py",
        "return False if reach.whole and roots else None",
        "return None",
    ),
    Fault(
        "clearing a whole model does not clear its parts",
        "flow/parameter_ownership.py",
        "if all(contains(what, root) for root in owned):\n            return True",
        "if all(contains(what, root) for root in owned):\n            return what in owned",
    ),
    Fault(
        "a clip is never told whose gradients it takes",
        "flow/parameter_ownership.py",
        'return (found, True) if found else (met or [""], False)',
        'return met or [""], False',
    ),
    # --- regions ---
    Fault(
        "a region that is switched off counts",
        "flow/open_regions.py",
        "if not state.regions or state.regions[-1].enabled is False:",
        "if not state.regions:",
    ),
    Fault("a choice of regions is its first arm", "flow/open_regions.py", "opened = then or other", "opened = then"),
    # --- frames ---
    Fault(
        "an inner call forgets the outer one's names",
        "objects/call_context.py",
        "aliases = {**self.aliases, **aliases, ",
        "aliases = {**aliases, ",
    ),
)
