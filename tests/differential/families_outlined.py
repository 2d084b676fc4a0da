"""Families whose iteration is spread over functions: helpers, methods, closures, wrapper classes."""

from __future__ import annotations

from random import Random

from tests.differential.draft import Draft, family, train
from tests.differential.families import accumulated
from tests.differential.outline import outline, rename
from tests.differential.tree import Node, block, line, rendered
from tests.differential.writer import Writer, net

LOCALS = {"x", "y", "i", "out", "loss", "loss_aux", "norm", "total", "boundary"}
SHARED = {"model", "optimizer", "opt", "opt_a", "opt_b", "scaler", "grad_scaler", "criterion"}


def _iteration(writer: Writer) -> tuple[list[Node], str, list[Node], list[Node]]:
    """An iteration, the head of its loop, what is made before, and the model's class."""
    kind = writer.one("iteration", "straight", "straight", "accumulated", "accumulated", "clip asked", "two optimizers")
    if kind == "accumulated":
        return accumulated(writer), "for i, (x, y) in enumerate(loader):", writer.made(), []
    if kind == "two optimizers":
        first, second = f"{writer.self}opt_a", f"{writer.self}opt_b"
        made = writer.made_model(parts=True)
        owners = f"{writer.model}.body", f"{writer.model}.head"
        body = [
            line(f"{writer.model}.zero_grad()", "zero"),
            writer.forward(),
            writer.backward(),
            *([writer.unscale(first), writer.unscale(second), writer.clip()] if writer.maybe("clipped") else []),
            writer.step(first),
            writer.step(second),
            writer.update(),
        ]
        criterion = line(f"{writer.self}criterion = nn.L1Loss()")
        optimizers = [writer.made_optimizer(*each) for each in zip((first, second), owners, strict=True)]
        return body, "for x, y in loader:", [made, criterion, *optimizers, writer.made_scaler()], net()
    body = writer.straight()
    if kind == "clip asked":
        body = [writer.zero(), *writer.losses()]
        body += [block(f"if {writer.flag('clip')}:", writer.unscale(), writer.clip()), writer.step(), writer.update()]
    return body, "for x, y in loader:", writer.made(), []


def _flag_names(writer: Writer) -> set[str]:
    return set(writer.flags) if writer.flag_style == "plain" else {"args"} if writer.flag_style == "args" else set()


@family("helpers")
def helpers(writer: Writer) -> Draft:
    body, head, made, model = _iteration(writer)
    depth = writer.one("calls deep", 1, 1, 2)
    renamed = writer.maybe("renamed parameters")
    defaults = writer.maybe("does by default")

    def whole() -> list[Node]:
        names = LOCALS | SHARED | _flag_names(writer)
        functions = []
        suite = body
        for number in range(depth):
            function = outline(suite, writer.choose, "helper", ("run_step", "finish")[number], names)
            if function is None:
                break
            functions.append(function)
            suite = function.body
        if defaults and functions:
            _by_default(functions[0], writer.choose)
        for function in functions:
            if renamed:
                rename(function, writer.optimizer, "optim")
                rename(function, writer.scaler, "amp_scaler")
        if writer.one("helpers stand", "before", "before", "behind") == "behind":
            return [*model, *train(writer, *made, block(head, *body)), *_apart(functions)]
        return [*model, *_apart(functions[::-1]), *train(writer, *made, block(head, *body))]

    return Draft(body, whole)


def _by_default(function: Node, choose: Random) -> None:
    """A function that clears, updates or unscales, unless it is told not to."""
    places = [position for position, node in enumerate(function.body) if node.tag in ("zero", "update", "unscale")]
    if places:
        position = choose.choice(places)
        function.body[position] = block("if ends:", function.body[position])
        function.text = function.text.replace("):", ", ends=True):").replace("(, ", "(")


def _apart(functions: list[Node]) -> list[Node]:
    return [each for function in functions for each in (line(""), function)]


@family("closures", "plain")
def closures(writer: Writer) -> Draft:
    body, head, made, model = _iteration(writer)

    def whole() -> list[Node]:
        function = outline(body, writer.choose, "closure", "run_step", LOCALS)
        return [*model, *train(writer, *made, *([function] if function is not None else []), block(head, *body))]

    return Draft(body, whole)


@family("trainer", "self")
def trainer(writer: Writer) -> Draft:
    body, head, made, model = _iteration(writer)
    many = writer.one("methods", 1, 1, 2, 3)
    defaults = writer.maybe("does by default")

    def whole() -> list[Node]:
        methods: list[Node] = []
        for name in ("train_step", "finish", "apply")[:many]:
            suite = writer.choose.choice([body, *(each.body for each in methods)])
            method = outline(suite, writer.choose, "method", name, LOCALS)
            if method is not None:
                methods.append(method)
        if defaults and methods:
            _by_default(methods[0], writer.choose)
        flags = sorted(writer.flags)
        given = ", ".join(["self", *flags])
        init = block(f"def __init__({given}):", *(line(f"self.{each} = {each}") for each in flags), *made)
        fit = block("def fit(self, loader):", block(head, *body))
        cls = block("class Trainer:", init, *_apart([fit, *methods]))
        arguments = ", ".join(flags)
        run = block(f"def train({', '.join(['loader', *flags])}):", line(f"Trainer({arguments}).fit(loader)"))
        return [line(""), *model, cls, line(""), run]

    return Draft(body, whole)


@family("wrapper", "plain")
def wrapper(writer: Writer) -> Draft:
    """`NativeScaler`: one call for all that the scaler does."""
    accumulates = writer.maybe("accumulation", 0.5)
    k = writer.flag("k", 1, 2, 3) if accumulates else ""
    bound = writer.flag("max_norm", None, 1.0)
    # What is wrong with a class is wrong whatever this file makes of it: no constants given.
    writer.enabled = writer.one("enabled", "always", "flag")
    made = [node for node in writer.made() if not node.text.startswith(f"{writer.scaler} = ")]
    enabled = "True" if writer.enabled == "always" else writer.flag(writer.amp)
    inner = "self._scaler"
    clip = line("norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)", "clip")
    arms = writer.one("clips", "if", "arms", "unscale first")
    if arms == "if":
        middle = [block("if clip_grad is not None:", writer.unscale("optimizer", inner), clip)]
    elif arms == "arms":
        middle = [
            block("if clip_grad is not None:", writer.unscale("optimizer", inner), clip),
            block("else:", writer.unscale("optimizer", inner)),
        ]
    else:
        middle = [writer.unscale("optimizer", inner), block("if clip_grad is not None:", clip)]
    last = [*middle, writer.step("optimizer", inner), writer.update(inner)]
    last = [block("if need_update:", *last)] if accumulates else last
    body = [writer.backward(scaler=inner), *last]
    optional = ", need_update=True" if accumulates else ""
    head = f"def __call__(self, loss, optimizer, clip_grad=None, parameters=None{optional}):"
    given = f"clip_grad={bound}, parameters={writer.model}.parameters()"
    boundary = f"(i + 1) % {k} == 0"
    arguments = ", ".join(
        filter(None, ("loss", writer.optimizer, given, f"need_update={boundary}" if accumulates else ""))
    )
    call = line(f"loss_scaler({arguments})", "call")
    if accumulates:
        steps = [writer.forward(), call, block(f"if {boundary}:", writer.zero())]
    elif writer.maybe("one call for each loss", 0.7):
        again = line(call.text.replace("(loss", "(loss_aux"), "call")
        steps = [writer.zero(), writer.forward(), call, writer.zero(), writer.forward(loss="loss_aux"), again]
    else:
        steps = [writer.zero(), writer.forward(), call]
    writer.wraps_in_class = not writer.maybe("the caller is spoiled", 0.6)
    if not writer.wraps_in_class:
        for node in body[0].walk():  # a call may come twice
            node.text = node.text.replace(".backward()", ".backward(retain_graph=True)")

    def whole() -> list[Node]:
        read = [each for each in sorted(writer.flags) if f"self.{each}" in rendered(body)]
        init = block(
            f"def __init__({', '.join(['self', 'enabled', *read])}):",
            line(f'self._scaler = {writer.grad_scaler}("cpu", enabled=enabled)'),
            *(line(f"self.{each} = {each}") for each in read),
        )
        cls = block("class NativeScaler:", init, block(head, *body))
        made.append(line(f"loss_scaler = NativeScaler({', '.join([enabled, *read])})"))
        loop = block("for i, (x, y) in enumerate(loader):" if accumulates else "for x, y in loader:", *steps)
        return [line(""), cls, *train(writer, *made, loop)]

    return Draft(body if writer.wraps_in_class else steps, whole)


@family("object", "plain")
def object_(writer: Writer) -> Draft:
    """A scaler of the file's own, with a method for each thing that its caller does; the caller is spoiled."""
    writer.enabled = writer.one("enabled", "always", "flag")
    made = [node for node in writer.made() if not node.text.startswith(f"{writer.scaler} = ")]
    enabled = "True" if writer.enabled == "always" else writer.flag(writer.amp)
    steps = [writer.zero(), writer.forward(), line("precision(loss)", "backward")]
    if writer.maybe("two calls"):
        steps += [writer.forward(loss="loss_aux"), line("precision(loss_aux)", "backward")]
    if writer.maybe("clipped"):
        steps += [line(f"precision.divide({writer.optimizer})", "unscale"), writer.clip()]
    steps.append(line(f"precision.advance({writer.optimizer})", "step"))
    inner = "self._scaler"
    methods = {
        "precision(": block("def __call__(self, loss):", line(f"{inner}.scale(loss).backward(retain_graph=True)")),
        ".divide(": block("def divide(self, optimizer):", writer.unscale("optimizer", inner)),
        ".advance(": block("def advance(self, optimizer):", writer.step("optimizer", inner), writer.update(inner)),
    }

    def whole() -> list[Node]:
        init = block("def __init__(self, enabled):", line(f'{inner} = {writer.grad_scaler}("cpu", enabled=enabled)'))
        # Another file may call a method that nobody calls here.
        cls = block(
            "class Precision:", init, *_apart([each for how, each in methods.items() if how in rendered(steps)])
        )
        loop = block("for x, y in loader:", *steps)
        return [line(""), cls, *train(writer, *made, line(f"precision = Precision({enabled})"), loop)]

    return Draft(steps, whole)
