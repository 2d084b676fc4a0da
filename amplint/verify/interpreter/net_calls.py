"""What methods of models do."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.allowed_calls import SAME_METHODS
from amplint.verify.interpreter.standins import Instance, Unknown
from amplint.verify.interpreter.value_queries import lasting, text_of
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import TOOLS


class NetCalls:
    """Calls methods of models: of the bench's parts that stand for them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def method(self, base: Unknown | Instance, name: str) -> Any:
        """A method of a model."""
        net = text_of(base) or ""
        if name in SAME_METHODS:
            self._stage.convert(net, name)
            return base
        parameters = self._stage.parameters(net, lasting(base))
        if name == "zero_grad":
            for each in parameters:
                each.grad = None
            return None
        if name == "named_parameters":
            return [(f"weight{at}", each) for at, each in enumerate(parameters)]
        return parameters

    def of_container(self, base: dict[Any, Any] | list[Any], name: str) -> Any:
        """A method of a ModuleDict or ModuleList."""
        found = [
            self.method(each, name)
            for each in (base.values() if isinstance(base, dict) else base)
            if isinstance(each, (Unknown, Instance))
        ]
        if name in SAME_METHODS or name == "zero_grad":
            return base if name in SAME_METHODS else None
        return [parameter for each in found for parameter in each]

    def holds_tools(self, base: Unknown) -> bool:
        """Whether a container out of sight is one of models, optimizers or scalers: by its name, or as some are asked.

        Then it is a mapping, where a method of one is called.
        """
        made = base.origin is not None and ir.last_name(base.origin.func) == "ModuleDict"
        return made or bool(TOOLS.search(base.text)) or self._stage.has_nets_in(base.identity)
