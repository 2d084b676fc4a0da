"""Families with two optimizers, or two models."""

from __future__ import annotations

import re

from tests.differential.draft import Draft, family, looped
from tests.differential.tree import Node, block, group, line
from tests.differential.writer import Writer, net


def _made(writer: Writer, *, first: str, second: str, owners: tuple[str, str], scalers: tuple[str, ...]) -> list[Node]:
    parts = owners[0].startswith("model.")
    models = [writer.made_model("model", parts=True)] if parts else [writer.made_model(each) for each in owners]
    sizes = ("", "1024.0")
    return [
        *models,
        line("criterion = nn.L1Loss()"),
        writer.made_optimizer(first, owners[0]),
        writer.made_optimizer(second, owners[1]),
        *(writer.made_scaler(name, sizes[number]) for number, name in enumerate(scalers)),
    ]


def _renamed(node: Node, name: str) -> Node:
    return line(re.sub(rf"\b{name}\b", "current", node.text), node.tag)


def _whole(writer: Writer, made: list[Node], body: list[Node], head: str = "for x, y in loader:") -> Draft:
    model = net() if any("Net()" in node.text for node in made) else []
    return looped(writer, made, body, head, model)


NAMES = (("optimizer_a", "optimizer_b"), ("opt1", "opt2"), ("encoder_optimizer", "decoder_optimizer"))


@family("two optimizers")
def two_optimizers(writer: Writer) -> Draft:
    first, second = writer.one("optimizers", *NAMES)
    made = _made(writer, first=first, second=second, owners=("model.body", "model.head"), scalers=(writer.scaler,))
    clear: list[Node] = [writer.zero(first, "-"), writer.zero(second, "-")]
    if writer.maybe("whole model cleared"):
        clear = [line("model.zero_grad()", "zero")]
    kind = writer.one("unscales", "both", "one", "each", "each", "none")
    middle: list[Node] = []
    if kind == "both":
        middle = [writer.unscale(first), writer.unscale(second), writer.clip("model")]
    elif kind == "one":
        middle = [writer.unscale(first), writer.clip("model.body")]
    elif kind == "each":
        middle = [writer.unscale(first), writer.clip("model.body"), writer.unscale(second), writer.clip("model.head")]
    steps = [writer.step(first), writer.step(second)]
    if writer.maybe("one name for both", 0.7):
        for part in (middle, steps) if kind == "both" else (steps,):
            part[:2] = [
                group(line(f"current = {name}"), _renamed(node, name), tag=node.tag)
                for name, node in zip((first, second), part[:2], strict=True)
            ]
    body = [*clear, writer.forward("model"), writer.backward(), *middle, *steps, writer.update()]
    return _whole(writer, made, body)


@family("two scalers")
def two_scalers(writer: Writer) -> Draft:
    first, second = writer.one("optimizers", *NAMES)
    scalers = ("scaler_a", "scaler_b")
    made = _made(writer, first=first, second=second, owners=("net_a", "net_b"), scalers=scalers)
    parts = []
    for optimizer, scaler, model, loss in zip(
        (first, second), scalers, ("net_a", "net_b"), ("loss_a", "loss_b"), strict=True
    ):
        clip = [writer.unscale(optimizer, scaler), writer.clip(model)] if writer.maybe("clipped") else []
        parts.append(
            [
                writer.zero(optimizer, model),
                writer.forward(model, loss),
                writer.backward(loss, scaler),
                *clip,
                writer.step(optimizer, scaler),
                writer.update(scaler),
            ]
        )
    order = writer.one("order", "one by one", "together")
    if order == "one by one":
        return _whole(writer, made, [*parts[0], *parts[1]])
    return _whole(writer, made, [*parts[0][:3], *parts[1][:3], *parts[0][3:], *parts[1][3:]])


@family("gan")
def gan(writer: Writer) -> Draft:
    scaler, (d, g) = writer.scaler, writer.one("optimizers", ("optimizer_d", "optimizer_g"), ("opt_d", "opt_g"))
    made = _made(writer, first=d, second=g, owners=("net_d", "net_g"), scalers=(scaler,))
    two = writer.one("updates", "one", "each") == "each"
    fake = line("fake = net_g(x)")
    real_loss = line("loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)")
    clip_d = [writer.unscale(d), writer.clip("net_d")] if writer.maybe("clipped", 0.4) else []
    clip_g = [writer.unscale(g), writer.clip("net_g")] if writer.maybe("clipped", 0.4) else []
    body = [
        writer.zero(d, "net_d"),
        writer.region(fake, real_loss),
        writer.backward("loss_d"),
        *clip_d,
        writer.step(d),
        *([writer.update()] if two else []),
        writer.zero(g, "net_g"),
        writer.region(line("loss_g = criterion(net_d(fake), y)")),
        writer.backward("loss_g"),
        *clip_g,
        writer.step(g),
        writer.update(),
    ]
    return _whole(writer, made, body)


@family("loops over optimizers")
def loops_over_optimizers(writer: Writer) -> Draft:
    first, second = writer.one("optimizers", *NAMES)
    kept = writer.one("kept", "tuple", "list", "variable", "zip")
    owners = ("model.body", "model.head")
    made = _made(writer, first=first, second=second, owners=owners, scalers=(writer.scaler,))
    pair = {"tuple": f"({first}, {second})", "list": f"[{first}, {second}]"}.get(kept, "optimizers")
    if kept in ("variable", "zip"):
        made.append(line(f"optimizers = [{first}, {second}]"))
    if kept == "zip":
        made.append(line("parts = [model.body, model.head]"))

    def each(node: Node) -> Node:
        if kept != "zip" and writer.maybe("written out", 0.25):
            return group(*(line(re.sub(r"\bopt\b", name, node.text)) for name in (first, second)), tag=node.tag)
        return block(f"for opt in {pair}:", node, tag=node.tag)

    unscale = each(writer.unscale("opt"))
    if kept == "zip":
        both = [writer.unscale("opt"), writer.clip("part", kinds=("norm", "value"))]
        middle = [block("for part, opt in zip(parts, optimizers):", *both)]
    else:
        middle = [unscale, writer.clip("model")] if writer.maybe("clipped", 0.6) else []
    body = [each(writer.zero("opt", "-")), writer.forward("model"), writer.backward(), *middle]
    if kept != "zip" and writer.maybe("one loop for all", 0.3):
        body += [block(f"for opt in {pair}:", writer.unscale("opt"), writer.step("opt")), writer.update()]
        body = [node for node in body if node is not unscale]
        if middle:
            body = [node for node in body if node is not middle[-1]]
    else:
        body += [each(writer.step("opt")), writer.update()]
    return _whole(writer, made, body)
