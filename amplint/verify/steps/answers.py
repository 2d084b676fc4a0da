"""The worker's answers about the training steps of a program: which there are, and what running one shows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from amplint.base.paths import look_again
from amplint.base.project_root import Start
from amplint.engine.reading import UnreadableError
from amplint.model.inference.devices import devices, region_devices
from amplint.model.objects.autocast_objects import regions
from amplint.model.project.resolve_import import look_in
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.sources.source import Source
from amplint.verify.bench.bench import is_there
from amplint.verify.bench.simulated_devices import DEVICES
from amplint.verify.program.files import lowered
from amplint.verify.program.program import Code, Step
from amplint.verify.steps.looked_at import Looker
from amplint.verify.steps.trials import judged, run_step

if TYPE_CHECKING:
    from amplint.model import Module


class Answers:
    """Answers for one file after the other; the last texts are kept, lowered."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], Code] = {}
        self._changes = 0

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What is `asked`: the steps of a text, what else in it has AMP ("look"), or what running a step shows.

        Either has `path`, `text`, `device` (None: the one that the text trains on), `usual` (the project's), `src`,
        `start`, `unavoidable`, the old names of which warnings don't count, and how many `changes` of files there have
        been. Of the `names` of steps that were found before a fix there are steps in any case, if only as parts of
        others. A run has the step's `name`, its `number` among those of that name, and the `answers` that paths have to
        have.
        """
        if asked["changes"] != self._changes:
            self._changes = asked["changes"]
            self._codes.clear()
            look_again()
        given, working = asked["start"]
        look_in(None if asked["src"] is None else tuple(asked["src"]), Start(tuple(given), working))
        try:
            code = self._code(asked["path"], asked["text"])
        except UnreadableError as error:
            row = Source(asked["path"], asked["text"]).row(error.finding.start)
            return {"steps": [], "error": error.finding.message, "row": row}
        steps = [*code.steps]
        device = asked["device"] or trained_on(code, asked["usual"])
        if asked["ask"] == "steps":
            known = {each.name for each in steps}
            steps += [each for name in asked.get("names", ()) if name not in known for each in code.steps_named(name)]
            return {"steps": [_described(code, each) for each in steps], "device": device, "error": ""}
        if asked["ask"] == "look":
            looked = Looker(code).look()
            looks = [[each.name, each.row, each.kind.value, each.why] for each in looked.looks]
            return {**looked._asdict(), "looks": looks}
        named = [each for each in steps if each.name == asked["name"]] or code.steps_named(asked["name"])
        return self._run(code, named[asked["number"]], device, asked)

    def _code(self, path: str, text: str) -> Code:
        known = self._codes.get((path, text))
        if known is None:
            while len(self._codes) >= 2:  # before and after
                del self._codes[next(iter(self._codes))]
            known = Code(lowered(Source(path, text)))
            self._codes[path, text] = known
        return known

    def _run(self, code: Code, step: Step, device: str, asked: dict[str, Any]) -> dict[str, Any]:
        real = device != "cpu" and is_there(device)
        runs = run_step(code, step, device, real=real, asked_for=asked.get("answers", ()))
        for path in runs.paths:
            path.observed.warnings = [
                each for each in path.observed.warnings if not any(f"{old}(" in each for old in asked["unavoidable"])
            ]
        return {
            **dataclasses.asdict(judged(code, step, runs)),
            "device": device,
            "simulated": device != "cpu" and not real,
            "runs": runs.runs,
            "touched": sorted(runs.touched),
            "seconds": round(runs.seconds, 3),
            "notes": [[row, text, what] for (row, text), what in sorted(runs.notes.items())],
        }


def _described(code: Code, step: Step) -> dict[str, Any]:
    own = [each for each in step.reach if code.owner(each) is code]
    return {
        "name": step.name,
        "row": step.row,
        "functions": [code.name(each) for each in own],
        "rows": [code.rows(each) for each in own],
    }


def trained_on(code: Code, usual: str | None = None) -> str:
    """The device of a file's regions and scalers, by most of them; where none says one the project's, else cuda."""
    module = code.module
    found = [each.type for region in regions(module) for each in region_devices(module, region)]
    for call in module.calls:
        found += _scaler_devices(module, call)
    known = Counter(each for each in found if each in (*DEVICES, "cpu"))
    if not known:
        return usual if usual in (*DEVICES, "cpu") else "cuda"
    accelerators = [each for each, _ in known.most_common() if each != "cpu"]
    return accelerators[0] if accelerators else "cpu"


def _scaler_devices(module: Module, call: ir.Call) -> list[str | None]:
    """The devices that a call makes a scaler for."""
    name = module.names.only(call.func)
    if name in OLD_SCALER:
        return [OLD_SCALER[name]]
    given = call.positional[0] if call.positional else call.keyword("device")
    if name != SCALER or not isinstance(given, ir.Value):
        return []
    return [each.type for each in devices(module, given)]
