"""Interpreting a training step of the IR on the bench. Nothing of the program's executes."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.amp_events import AmpEvents
from amplint.verify.interpreter.arithmetic import Arithmetic
from amplint.verify.interpreter.assignments import Assignments
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.builtin_calls import Builtins
from amplint.verify.interpreter.calls import Calls
from amplint.verify.interpreter.condition_values import Choices
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.expressions import Expressions
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.generators import Generators
from amplint.verify.interpreter.gradient_calls import GradientCalls
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.library_calls import LibraryCalls
from amplint.verify.interpreter.lookup import Lookup
from amplint.verify.interpreter.loop_items import LoopItems
from amplint.verify.interpreter.method_calls import MethodCalls
from amplint.verify.interpreter.net_calls import NetCalls
from amplint.verify.interpreter.optimizer_calls import OptimizerCalls
from amplint.verify.interpreter.program_calls import ProgramCalls
from amplint.verify.interpreter.region_calls import RegionCalls
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.scaler_calls import ScalerCalls
from amplint.verify.interpreter.standins import Closure, Frame, Jumped, Raised, Returned, Unknown
from amplint.verify.interpreter.statements import Statements
from amplint.verify.interpreter.suites import Suites
from amplint.verify.interpreter.table_items import TableItems
from amplint.verify.interpreter.tensor_calls import TensorCalls
from amplint.verify.interpreter.truth import Truth
from amplint.verify.interpreter.try_statements import TryStatements
from amplint.verify.interpreter.unrun_code import UnrunAssignments
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.unseen_training import UnseenTraining
from amplint.verify.interpreter.with_statements import WithStatements
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import Code, Step

_ITERATIONS = 4  # of a loop over batches, and calls of a step that has no loop
_MOST_ITERATIONS = 64


class Interpreter:
    """One run of a step, put together of its parts. What the run has shown is in `record` when it is over.

    The step is run as a method of `cls`, where that is given.
    """

    def __init__(self, step: Step, code: Code, stage: Stage, choices: Choices, cls: ir.Class | None = None) -> None:
        self._step = step
        self._code = code
        self.stage = stage
        stage.clears_itself = not step.clears or stage.knowledge.cleared
        facts = Facts(choices, code.periods, stage.knowledge.there)
        self.record = record = RunRecord(code)
        iterations = min(_MOST_ITERATIONS, max(_ITERATIONS, stage.knowledge.period * 2))
        self._state = state = RunState(stage, facts, record, iterations)
        self._evaluator, self._suites = Evaluator(state), Suites()
        self._frames = LazyFrames(code, step.function, cls, stage.knowledge, self._evaluator)
        self._functions = Functions(state, self._evaluator, self._suites)
        self._attach_parts(state, choices)

    def _attach_parts(self, state: RunState, choices: Choices) -> None:
        """Make the parts that evaluate expressions and run statements."""
        stage, record = state.stage, state.record
        evaluator, suites, frames, functions = self._evaluator, self._suites, self._frames, self._functions
        # What values are.
        training = UnseenTraining(record)
        truth = Truth(state.facts, training)
        roles = Roles(stage, record)
        arithmetic = Arithmetic(state, truth, roles)
        items = LoopItems(roles, state.iterations)
        unrun = UnrunAssignments(record, evaluator, truth)
        instances = Instances(record, evaluator, functions, frames, unrun)
        lookup = Lookup(evaluator, roles, frames, unrun, instances)
        tables = TableItems(choices, evaluator, frames)
        # What torch does.
        events = AmpEvents(record, training)
        unseen = UnseenCalls(stage, record, training)
        optimizers = OptimizerCalls(stage, functions, roles, events, unseen)
        scalers = ScalerCalls(state, truth, roles, events, optimizers)
        gradients = GradientCalls(
            stage=stage, record=record, roles=roles, events=events, training=training, scalers=scalers
        )
        tensors = TensorCalls(stage, events, unseen)
        accelerators = Accelerators(
            state=state, evaluator=evaluator, roles=roles, events=events, optimizers=optimizers, gradients=gradients
        )
        # What is called.
        generators = Generators(evaluator, functions)
        libraries = LibraryCalls(
            stage=stage,
            roles=roles,
            regions=RegionCalls(stage, record, truth, events),
            scalers=scalers,
            optimizers=optimizers,
            gradients=gradients,
            tensors=tensors,
            accelerators=accelerators,
            builtins=Builtins(state, truth, roles, items, arithmetic, lookup),
            unseen=unseen,
        )
        methods = MethodCalls(
            state=state,
            evaluator=evaluator,
            lookup=lookup,
            instances=instances,
            roles=roles,
            tables=tables,
            scalers=scalers,
            gradients=gradients,
            tensors=tensors,
            accelerators=accelerators,
            nets=NetCalls(stage),
            unseen=unseen,
        )
        calls = Calls(
            state=state,
            evaluator=evaluator,
            instances=instances,
            accelerators=accelerators,
            programs=ProgramCalls(evaluator, functions, generators, instances, unseen),
            methods=methods,
            libraries=libraries,
            unseen=unseen,
        )
        # Expressions and statements.
        assignments = Assignments(evaluator, accelerators)
        expressions = Expressions(
            evaluator=evaluator,
            truth=truth,
            arithmetic=arithmetic,
            lookup=lookup,
            tables=tables,
            items=items,
            assignments=assignments,
            accelerators=accelerators,
        )
        evaluator.attach({**expressions.by_kind(), ir.Call: calls.call, ir.Suspend: generators.suspend}, calls)
        statements = Statements(
            state=state,
            evaluator=evaluator,
            suites=suites,
            truth=truth,
            arithmetic=arithmetic,
            items=items,
            assignments=assignments,
            tensors=tensors,
        )
        withs = WithStatements(
            evaluator=evaluator,
            suites=suites,
            assignments=assignments,
            instances=instances,
            functions=functions,
            generators=generators,
        )
        tries = TryStatements(record, suites, truth)
        suites.attach({**statements.by_kind(), ir.With: withs.run, ir.Try: tries.run})

    def run(self) -> None:
        """Run the step, several times where it has no loop of its own.

        Raises:
            CannotFollow: it can't be interpreted.
        """
        try:
            if self._step.function is None:
                frame = Frame(self._code, self._code.module.program.scope, None)
                self._suites.run(self._code.module.program.body, frame)
            else:
                self._call(self._step.function)
        except Raised as raised:
            self.record.ended = raised
        except (Jumped, Returned):  # at module level, which ast refuses
            pass

    def _call(self, function: ir.Function) -> None:
        """Call the step as often as a loop over batches would."""
        outer, own = self._frames.around(function)
        closure = Closure(function, outer, own, bound=own is not None)
        known = self._frames.given_by_callers(function, bound=own is not None)
        for at in range(1 if self._step.has_loop else self._state.iterations):
            self.record.busy, self._state.tick, self.record.scalers.call = False, at, at
            self.stage.iteration += 1
            given = self._unknown_arguments(function, bound=own is not None)
            self._functions.apply(closure, [], given | {name: known[name] for name in given if name in known})

    def _unknown_arguments(self, function: ir.Function, *, bound: bool) -> dict[str, Any]:
        """Values for a function's parameters, but for those whose default is a scaler or a region."""
        return {
            each.name: Unknown(each.name)
            for each in function.params[bound:]
            if each.kind != "*" and not (each.default is not None and self._code.naming(each.default))
        }
