"""Families with one optimizer: loops, conditions, accumulation, regions."""

from __future__ import annotations

from itertools import pairwise

from tests.differential.draft import Draft, family, looped, simple, train
from tests.differential.tree import Node, block, line
from tests.differential.writer import REGION_ARGS, Writer


@family("straight")
def straight(writer: Writer) -> Draft:
    writer.overflow = writer.maybe("overflow", 0.2)
    return simple(writer, writer.straight())


def accumulated(writer: Writer) -> list[Node]:
    """One micro step, right, with what belongs to the boundary under its condition."""
    k = writer.flag("k", 1, 2, 3)
    clipped, last = writer.clipped(), [writer.step(), writer.update(), writer.zero()]
    loss = writer.one("micro loss", "divided", "divided in scale", "whole")
    if loss == "divided":
        body = [writer.forward(), line(f"loss = loss / {k}"), writer.backward()]
    else:
        body = writer.losses(f" / {k}" if loss == "divided in scale" else "")
    test, ends = f"(i + 1) % {k} == 0", [*clipped, *last]
    kind = writer.one("boundary", "if", "continue", "named", "pieces", "pieces", "pieces")
    if kind == "continue":
        return [*body, block(f"if {test.replace('==', '!=')}:", line("continue")), *ends]
    if kind == "named":
        body, test = [line(f"boundary = {test}"), *body], "boundary"
    cuts = sorted({0, writer.choose.randrange(1, len(ends)), writer.choose.randrange(1, len(ends)), len(ends)})
    parts = [ends[start:stop] for start, stop in pairwise(cuts)] if kind == "pieces" else [ends]
    return [*body, *(block(f"if {test}:", *part) for part in parts)]


@family("accumulation")
def accumulation(writer: Writer) -> Draft:
    return simple(writer, accumulated(writer), "for i, (x, y) in enumerate(loader):")


@family("flags")
def flags(writer: Writer) -> Draft:
    kind = writer.one("condition", "clip", "clip", "max_norm", "unscale too", "arms", "optional", "is_enabled")
    end = [writer.step(), writer.update()]
    start = [writer.zero(), writer.forward()] if kind in ("arms", "optional") else [writer.zero(), *writer.losses()]
    if kind == "arms":
        writer.enabled = writer.one("enabled", "always", "flag")
        amp = [writer.backward(), *writer.clipped(), *end]
        plain = [line("loss.backward()", "backward"), writer.clip(), line(f"{writer.optimizer}.step()", "step")]
        flag = writer.flag(writer.amp)
        return simple(writer, [*start, block(f"if {flag}:", *amp), block("else:", *plain)])
    if kind == "optional":
        return optional(writer, start)
    if kind == "is_enabled":
        unscale = block(f"if {writer.scaler}.is_enabled():", writer.unscale())
        return simple(writer, [*start, unscale, writer.clip(), *end])
    clip: list[Node]
    if kind == "clip":
        clip = [block(f"if {writer.flag('clip')}:", writer.unscale(), writer.clip())]
    elif kind == "max_norm":
        bound = writer.flag("max_norm", None, 0.0, 1.0)
        asked = writer.one("asks", "is not None", "truth")
        clip = [
            block(
                f"if {bound} is not None:" if asked == "is not None" else f"if {bound}:",
                writer.unscale(),
                writer.clip(bound=bound),
            )
        ]
    else:
        clip = [writer.unscale(), block(f"if {writer.flag('clip')}:", writer.clip())]
    return simple(writer, [*start, *clip, *end])


@family("asked twice")
def asked_twice(writer: Writer) -> Draft:
    """`unscale_` and the clip stand apart; where there is a clip, there is an `unscale_`."""
    kind = writer.one("asked", "same", "or", "and", "not", "None", "kept")
    before: list[Node] = []
    if kind == "None":
        bound = writer.flag("max_norm", None, 0.0, 1.0)  # zero is what tells both tests apart
        wide, narrow = (f"{bound} is not None", f"{bound} is None"), (bound, f"not {bound}")
    else:
        one = writer.flag("skip" if kind == "not" else "clip")
        wide = narrow = (f"not {one}", one) if kind == "not" else (one, f"not {one}")
    if kind == "or":
        two = writer.flag(writer.extra)
        wide = (f"{one} or {two}", f"not ({one} or {two})")
    elif kind == "and":
        two = writer.flag(writer.extra)
        narrow = (f"{one} and {two}", f"not {one} or not {two}")
    elif kind == "kept":
        before = [line(f"clips = {one}")]
        narrow = ("clips", "not clips")

    def under(tests: tuple[str, str], node: Node) -> list[Node]:
        if writer.one("stands in", "then", "then", "else") == "then":
            return [block(f"if {tests[0]}:", node)]
        return [block(f"if {tests[1]}:", line("pass")), block("else:", node)]

    body = [writer.zero(), *writer.losses()]
    body += [*under(wide, writer.unscale()), *under(narrow, writer.clip()), writer.step(), writer.update()]
    return looped(writer, [*writer.made(), *before], body, "for x, y in loader:")


@family("step behind the loop")
def behind_the_loop(writer: Writer) -> Draft:
    """The gradients of several batches, and then one step."""
    leaves = writer.one("inner loop", "for", "break", "while true", "while true", "while true")
    micro = [writer.forward(), writer.backward("loss / 4")]
    if leaves == "while true":
        take = [line("x, y = loader[done]"), line("done += 1")]
        stop = [block("if done % 4 == 0:", line("break"))]
        loop = [line("done = 0"), block("while True:", *take, *micro, *stop)]
    else:
        stop = [block("if i == 2:", line("break"))] if leaves == "break" else []
        loop = [block("for i, (x, y) in enumerate(loader):", *micro, *stop)]
    body = [writer.zero(), *loop, *writer.clipped(0.8), writer.step(), writer.update()]
    return looped(writer, writer.made(), body, "for epoch in range(3):")


def optional(writer: Writer, start: list[Node]) -> Draft:
    """A scaler that is there or None, each time asked for."""
    flag, scaler = writer.flag(writer.amp), writer.scaler
    has = f"if {scaler} is not None:" if writer.one("asks", "is not None", "truth") == "truth" else f"if {scaler}:"
    body = [
        *start,
        block(has, writer.backward(), writer.unscale()),
        block("else:", line("loss.backward()", "backward")),
        writer.clip(),
        block(has, writer.step(), writer.update()),
        block("else:", line(f"{writer.optimizer}.step()", "step")),
    ]
    made = [*writer.made()[:-1], line(f'{scaler} = {writer.grad_scaler}("cpu") if {flag} else None')]
    return looped(writer, made, body, "for x, y in loader:")


@family("early")
def early(writer: Writer) -> Draft:
    kind = writer.one("leaves", "norm", "norm", "skip first", "flag", "break")
    if kind == "norm":
        writer.overflow = True
        first = writer.one("cleared", "first", "last") == "first"
        arm = [writer.update(), *([] if first else [writer.zero()]), line("continue")]
        body = [
            *([writer.zero()] if first else []),
            writer.forward(),
            writer.backward(),
            writer.unscale(),
            writer.clip(kinds=("kept norm",)),
            block("if not torch.isfinite(norm):", *arm),
            writer.step(),
            writer.update(),
            *([] if first else [writer.zero()]),
        ]
        return simple(writer, body)
    test = {"skip first": "if i == 0:", "flag": "", "break": "if i == 3:"}[kind]
    test = test or f"if {writer.flag('skip')}:"
    rest = accumulated(writer) if writer.maybe("accumulation") else writer.straight()
    body = [block(test, line("break" if kind == "break" else "continue")), *rest]
    return simple(writer, body, "for i, (x, y) in enumerate(loader):")


@family("finally")
def finally_(writer: Writer) -> Draft:
    inner = writer.straight(zero=writer.one("cleared", "first", "last"))
    kind = writer.one("finally", "update", "zero", "nothing")
    if kind == "nothing":
        made = writer.made()
        loop = block("for x, y in loader:", *inner)

        def whole() -> list[Node]:
            loop.body[:] = inner
            return train(writer, *made, block("try:", loop), block("finally:", line('print("", end="")')))

        return Draft(inner, whole)
    tag = {"update": "update", "zero": "zero"}[kind]
    last = next(node for node in reversed(inner) if node.tag == tag)
    inner = [node for node in inner if node is not last]
    body = [block("try:", *inner, tag="try"), block("finally:", last, tag="finally")]
    return simple(writer, body)


@family("regions")
def regions(writer: Writer) -> Draft:
    kinds = ("nullcontext", "nullcontext", "named", "items", "island", "backward island", "spread", "decorator")
    kind = writer.one("context", *kinds)
    model, criterion = writer.model, f"{writer.self}criterion"
    both = [line(f"out = {model}(x)"), line(f"loss = {criterion}(out, y)")]
    region = f"{writer.autocast}({REGION_ARGS})"
    before: list[Node] = []
    backward: Node = writer.backward()
    if kind in ("nullcontext", "named"):
        chosen = writer.chosen(writer.maybe("nullcontext first"))
        if kind == "named":
            before, chosen = [line(f"context = {chosen}")], "context"
        forward = [block(f"with {chosen}:", *both, tag="region")]
    elif kind == "items":
        forward = [block(f"with torch.enable_grad(), {region}:", *both, tag="region")]
    elif kind == "decorator":
        before = [block("def compute(x, y):", line(f"return {criterion}({model}(x), y)"))]
        before = [line(f"@{region}"), *before]
        forward = [line("loss = compute(x, y)")]
    else:
        off = f"with {writer.autocast}({REGION_ARGS.split(',', maxsplit=1)[0]}, enabled=False):"
        island = block(off, line(f"loss = {criterion}(out.float(), y)"))
        forward = [block(f"with {region}:", both[0], island, tag="region")]
        if kind == "backward island":
            forward[0].body.append(block(off, backward))
            backward = line("pass")
        elif kind == "spread":
            forward = [block(f"with {region}:", both[0], tag="region"), both[1]]
    body = [writer.zero(), *forward, backward, *writer.clipped(), writer.step(), writer.update()]
    body = [node for node in body if node.text != "pass"]
    made = writer.made()
    return looped(writer, [*made, *before], body, "for x, y in loader:")


@family("while")
def while_(writer: Writer) -> Draft:
    kind = writer.one("while", "count", "true", "iterator")
    body = writer.straight()
    made = writer.made()

    def whole() -> list[Node]:
        if kind == "iterator":
            loop = [line("batches = iter(loader)"), line("batch = next(batches, None)")]
            loop += [
                block("while batch is not None:", line("x, y = batch"), *body, line("batch = next(batches, None)"))
            ]
        else:
            take, count = line("x, y = loader[done]"), line("done += 1")
            stop = [block("if done >= len(loader):", line("break"))] if kind == "true" else []
            head = "while True:" if stop else "while done < len(loader):"
            loop = [line("done = 0"), block(head, take, *body, count, *stop)]
        return train(writer, *made, *loop)

    return Draft(body, whole)


@family("epochs")
def epochs(writer: Writer) -> Draft:
    accumulates = writer.maybe("accumulation")
    body = accumulated(writer) if accumulates else writer.straight()
    head = "for i, (x, y) in enumerate(loader):" if accumulates else "for x, y in loader:"
    made = writer.made()
    first = [writer.zero()] if accumulates and writer.maybe("cleared per epoch") else []
    return looped(writer, made, [*first, block(head, *body)], "for epoch in range(2):")


@family("script", "plain")
def script(writer: Writer) -> Draft:
    accumulates = writer.maybe("accumulation")
    body = accumulated(writer) if accumulates else writer.straight()
    head = "for i, (x, y) in enumerate(loader):" if accumulates else "for x, y in loader:"
    made = writer.made()

    def whole() -> list[Node]:
        writer.imports.add(f"from config import {', '.join(['loader', *sorted(writer.flags)])}")
        return [line(""), *made, block(head, *body)]

    return Draft(body, whole)
