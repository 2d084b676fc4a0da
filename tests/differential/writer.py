"""The parts that all generated programs are made of: flags, regions, backwards, clips and steps, in many spellings."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from tests.differential.tree import Node, block, group, line

T = TypeVar("T")
REGION_ARGS = '"cpu", dtype=torch.bfloat16'


class Writer:
    """Makes the parts of one program, at random, and remembers which flags they ask for and what they look like."""

    def __init__(self, choose: Random, flag_style: str = "") -> None:
        self.choose = choose
        self.flags: dict[str, tuple[Any, ...]] = {}
        self.shapes: set[str] = set()
        self.overflow = False
        self._region = ""
        self.wraps_in_class = False  # what is spoiled reads flags from `self`, whatever the rest does
        self.imports = {"import torch", "from torch import nn"}
        self.flag_style = flag_style or self.one("flags are", "plain", "plain", "args")
        self.self = "self." if flag_style == "self" else ""
        short = self.one("imports", "torch", "torch", "names") == "names"
        self.grad_scaler = self._imported("torch.amp", "GradScaler") if short else "torch.amp.GradScaler"
        self.autocast = self._imported("torch", "autocast") if short else "torch.autocast"
        self.clip_norm = self._clip("clip_grad_norm_", short)
        self.clip_value = self._clip("clip_grad_value_", short)
        self.model = f"{self.self}model"
        self.optimizer = f"{self.self}{self.one('optimizer', 'optimizer', 'optimizer', 'opt')}"
        self.scaler = f"{self.self}{self.one('scaler', 'scaler', 'scaler', 'grad_scaler')}"
        # Where AMP's flag can't be told by its name, any other may be AMP's, unless its own name says what it asks for.
        self.amp = self.one("AMP's flag", "use_amp", "fast")
        self.extra = "extra" if self.amp == "use_amp" else "warm"
        self.enabled = self.one("enabled", *["always"] * 3, *["flag"] * 6, "never")

    def _imported(self, module: str, name: str) -> str:
        self.imports.add(f"from {module} import {name}")
        return name

    def _clip(self, name: str, short: bool) -> str:
        return f"nn.utils.{name}" if short else f"torch.nn.utils.{name}"

    def one(self, what: str, *options: T) -> T:
        """One of some options, which coverage counts."""
        found = self.choose.choice(options)
        self.shapes.add(f"{what}: {found}")
        return found

    def maybe(self, what: str, chance: float = 0.5) -> bool:
        """Whether the program has something."""
        has = self.choose.random() < chance
        if has:
            self.shapes.add(what)
        return has

    def flag(self, name: str, *values: Any) -> str:
        """How the program reads a flag."""
        self.flags[name] = values or (True, False)
        return {"plain": name, "args": f"args.{name}", "self": f"self.{name}"}[self.flag_style]

    # --- what is made once ------------------------------------------------------------------------------------------

    def made_scaler(self, name: str = "", init_scale: str = "") -> Node:
        """The scaler: on, off, or asking its flag."""
        args = ['"cpu"'] + ([f"init_scale={init_scale}"] if init_scale else [])
        if self.enabled != "always":
            args.append(f"enabled={self.flag(self.amp) if self.enabled == 'flag' else 'False'}")
        return line(f"{name or self.scaler} = {self.grad_scaler}({', '.join(args)})")

    def made_model(self, name: str = "", parts: bool = False) -> Node:
        return line(f"{name or self.model} = {'Net()' if parts else 'nn.Linear(1, 1)'}")

    def made_optimizer(self, name: str = "", owner: str = "") -> Node:
        name, owner = name or self.optimizer, owner or self.model
        kind = self.one("optimizer class", "SGD", "SGD", "SGD with momentum")
        more = ", momentum=0.9" if kind != "SGD" else ""
        return line(f"{name} = torch.optim.SGD({owner}.parameters(), lr=1e-6{more})")

    def made(self) -> list[Node]:
        """The usual four."""
        found = [self.made_model(), self.made_optimizer(), self.made_scaler()]
        return [found[0], line(f"{self.self}criterion = nn.L1Loss()"), *found[1:]]

    # --- what is done in each iteration -----------------------------------------------------------------------------

    def zero(self, optimizer: str = "", model: str = "") -> Node:
        optimizer, model = optimizer or self.optimizer, model or self.model
        option = self.one("zero", "optimizer", "optimizer", "optimizer", "model", "set_to_none", "by hand")
        if option == "model" and model != "-":
            return line(f"{model}.zero_grad()", "zero")
        if option == "by hand" and model != "-":
            return block(f"for p in {model}.parameters():", line("p.grad = None"), tag="zero")
        return line(f"{optimizer}.zero_grad({'set_to_none=True' if option == 'set_to_none' else ''})", "zero")

    def region(self, *body: Node) -> Node:
        """An autocast region, on or asking the flag."""
        # The same for all: what one region makes half, another one takes.
        self._region = self._region or self.one("region", "on", "on", "flag", "chosen", "chosen last")
        if self._region.startswith("chosen"):
            return block(f"with {self.chosen(self._region == 'chosen last')}:", *body, tag="region")
        more = f", enabled={self.flag(self.amp)}" if self._region == "flag" else ""
        return block(f"with {self.autocast}({REGION_ARGS}{more}):", *body, tag="region")

    def chosen(self, last: bool) -> str:
        """A region or none, as the flag says; `last`: the region is the second arm."""
        self.imports.add("import contextlib")
        flag, region, none = self.flag(self.amp), f"{self.autocast}({REGION_ARGS})", "contextlib.nullcontext()"
        return f"{none} if not {flag} else {region}" if last else f"{region} if {flag} else {none}"

    def forward(self, model: str = "", loss: str = "loss", inputs: str = "x") -> Node:
        model, criterion = model or self.model, f"{self.self}criterion"
        if self.one("forward", "one line", "two lines") == "one line":
            return self.region(line(f"{loss} = {criterion}({model}({inputs}), y)"))
        return self.region(line(f"out = {model}({inputs})"), line(f"{loss} = {criterion}(out, y)"))

    def backward(self, loss: str = "loss", scaler: str = "") -> Node:
        if self.maybe("backward in two lines", 0.1):
            name = loss.split(" ", maxsplit=1)[0].replace("loss", "scaled")
            scaled = line(f"{name} = {scaler or self.scaler}.scale({loss})")
            return group(scaled, line(f"{name}.backward()"), tag="backward")
        return line(f"{scaler or self.scaler}.scale({loss}).backward()", "backward")

    def unscale(self, optimizer: str = "", scaler: str = "") -> Node:
        return line(f"{scaler or self.scaler}.unscale_({optimizer or self.optimizer})", "unscale")

    def step(self, optimizer: str = "", scaler: str = "") -> Node:
        return line(f"{scaler or self.scaler}.step({optimizer or self.optimizer})", "step")

    def update(self, scaler: str = "") -> Node:
        return line(f"{scaler or self.scaler}.update()", "update")

    def clip(self, model: str = "", bound: str = "1.0", kinds: Sequence[str] = ()) -> Node:
        """A clip: by norm, by value, by hand."""
        model = model or self.model
        kind = self.one("clip", *(kinds or ("norm", "norm", "norm", "value", "clamp", "hand", "kept norm")))
        parameters = f"{model}.parameters()"
        if kind in ("value", "norm", "kept norm"):
            spelled = self.one("clipped parameters", "call", "call", "call", "list", "chosen")
            parameters = {
                "call": parameters,
                "list": f"list({parameters})",
                "chosen": f"[p for p in {parameters} if p.requires_grad]",
            }[spelled]
            if kind != "value" and self.maybe("max_norm by name", 0.2):
                bound = f"max_norm={bound}"
        if kind == "value":
            return line(f"{self.clip_value}({parameters}, {bound})", "clip")
        if kind == "kept norm":
            return line(f"norm = {self.clip_norm}({parameters}, {bound})", "clip")
        guard = "if p.grad is not None:"
        if kind == "clamp":
            inner = line(f"p.grad.clamp_(-{bound}, {bound})")
            return block(f"for p in {parameters}:", block(guard, inner), tag="clip")
        if kind == "hand":
            total = line(f"total = sum(p.grad.norm() for p in {parameters} if p.grad is not None)")
            factor = line(f"p.grad.mul_({bound} / (total + 1e-6))")
            return group(total, block(f"for p in {parameters}:", block(guard, factor)), tag="clip")
        return line(f"{self.clip_norm}({parameters}, {bound})", "clip")

    def clipped(self, chance: float = 0.6) -> list[Node]:
        """`unscale_` and a clip, or nothing, or `unscale_` alone."""
        option = self.choose.random()
        if option < chance:
            return [self.unscale(), self.clip()]
        return [self.unscale()] if option > 0.8 else []

    def losses(self, over: str = "") -> list[Node]:
        """One loss or two, forward and backward; `over`: what the losses are divided by as they are scaled."""
        body = [self.forward(), self.backward(f"loss{over}")]
        kind = self.one("losses", "one", "one", "one region", "each its own")
        if kind == "one region":
            body[0].body.append(line(f"loss_aux = {self.self}criterion({self.model}(x * 1.5), y)"))
        elif kind == "each its own":
            body.append(self.forward(loss="loss_aux", inputs="x * 1.5"))
        return body if kind == "one" else [*body, self.backward(f"loss_aux{over}")]

    def straight(self, *, zero: str = "", chance: float = 0.6) -> list[Node]:
        """One iteration, right."""
        zero = zero or self.one("cleared", "first", "first", "last")
        body = [*self.losses(), *self.clipped(chance), self.step(), self.update()]
        return [self.zero(), *body] if zero == "first" else [*body, self.zero()]


def net() -> list[Node]:
    """A model of two parts."""
    init = block(
        "def __init__(self):",
        line("super().__init__()"),
        line("self.body = nn.Linear(1, 1)"),
        line("self.head = nn.Linear(1, 1)"),
    )
    forward = block("def forward(self, x):", line("return self.head(self.body(x))"))
    return [block("class Net(nn.Module):", init, line(""), forward)]
