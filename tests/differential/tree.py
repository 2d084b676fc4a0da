"""A program's statements while it is being made, and the ways to spoil them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random

# What a mutation drops, doubles and moves.
EVENTS = ("zero", "backward", "unscale", "clip", "step", "update", "call")


@dataclass
class Node:
    """A statement; with a body a compound one, and without a text several that belong together."""

    text: str
    tag: str = ""
    body: list[Node] = field(default_factory=list)

    def lines(self, depth: int = 0) -> Iterator[str]:
        if self.text:
            yield "    " * depth + self.text
        for node in self.body:
            yield from node.lines(depth + bool(self.text))

    def walk(self) -> Iterator[Node]:
        yield self
        for node in self.body:
            yield from node.walk()


def line(text: str, tag: str = "") -> Node:
    return Node(text, tag)


def block(text: str, *body: Node, tag: str = "") -> Node:
    return Node(text, tag, list(body))


def group(*body: Node, tag: str = "") -> Node:
    return Node("", tag, list(body))


def rendered(nodes: list[Node]) -> str:
    return "".join(f"{text}\n" for node in nodes for text in node.lines())


# --- mutations --------------------------------------------------------------------------------------------------------


def mutate(body: list[Node], choose: Random, flag: str) -> str:
    """Spoil a suite, if it can be done; the mutation's name. `flag`: what a new condition asks for."""
    name = choose.choice((*MUTATIONS, "drop", "move", "across", "across", "unwrap", "late"))
    before = copy.deepcopy(body)
    if MUTATIONS[name](body, choose, flag) and _makes_sense(body) and rendered(body) != rendered(before):
        _fill(body)
        return name
    body[:] = before
    return ""


def _places(body: list[Node], tags: tuple[str, ...] = EVENTS) -> list[tuple[list[Node], int]]:
    """Each event's suite and position."""
    found = []
    for position, node in enumerate(body):
        if node.tag in tags:
            found.append((body, position))
        elif node.tag != "whole":
            found += _places(node.body, tags)
    return found


def _suites(body: list[Node]) -> list[list[Node]]:
    found = [body]
    for node in body:
        if node.body and node.text and node.tag not in EVENTS:
            found += _suites(node.body)
    return found


def _pick(body: list[Node], choose: Random, *tags: str) -> tuple[list[Node], int] | None:
    places = _places(body, tags or EVENTS)
    # Without its backward a loop only ever raises "_scale is None".
    rarely = [place for place in places if not tags and place[0][place[1]].tag == "backward" and choose.random() < 0.7]
    places = [place for place in places if not any(place is each for each in rarely)]
    return choose.choice(places) if places else None


def _drop(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose)
    if place is None:
        return False
    del place[0][place[1]]
    return True


def _double(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose)
    if place is None:
        return False
    suite, position = place
    first = copy.deepcopy(suite[position])
    for node in first.walk():
        node.text = node.text.replace(".backward()", ".backward(retain_graph=True)")
    suite.insert(position, first)
    return True


def _swap(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose)
    if place is None or place[1] + 1 >= len(place[0]):
        return False
    suite, position = place
    suite[position : position + 2] = reversed(suite[position : position + 2])
    return True


def _move(body: list[Node], choose: Random, flag: str, *tags: str) -> bool:
    place = _pick(body, choose, *tags)
    if place is None:
        return False
    node = place[0].pop(place[1])
    suite = choose.choice(_suites(body))
    suite.insert(choose.randint(0, len(suite)), node)
    return True


def _copy(body: list[Node], choose: Random, flag: str) -> bool:
    """An event stands in another place too."""
    place = _pick(body, choose, "zero", "backward", "unscale", "clip", "step", "update", "update")
    if place is None:
        return False
    for node in place[0][place[1]].walk():
        node.text = node.text.replace(".backward()", ".backward(retain_graph=True)")
    suite = choose.choice(_suites(body))
    suite.insert(choose.randint(0, len(suite)), copy.deepcopy(place[0][place[1]]))
    return True


def _update_behind(body: list[Node], choose: Random, flag: str) -> bool:
    """An update follows one more step; inside its loop, where it is in a loop over optimizers."""
    step, update = _pick(body, choose, "step"), _pick(body, choose, "update")
    if step is None or update is None:
        return False
    suite, position = step
    node = suite[position]
    if node.body and choose.random() < 0.5:
        suite, position = node.body, len(node.body) - 1
    suite.insert(position + 1, copy.deepcopy(update[0][update[1]]))
    return True


def _repeat(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose, "zero", "unscale", "clip", "step", "update")
    if place is None:
        return False
    suite, position = place
    suite[position] = block("for _ in range(2):", suite[position])
    return True


def _plain_too(body: list[Node], choose: Random, flag: str) -> bool:
    """A second loss goes backward, without the scale."""
    place = _pick(body, choose, "backward")
    if place is None or ".scale(" not in place[0][place[1]].text:
        return False
    node = place[0][place[1]]
    plain = line(_without_scale(node.text), "backward")
    node.text = node.text.replace(".backward()", ".backward(retain_graph=True)")
    place[0].insert(place[1] + 1, plain)
    return True


def _move_clip(body: list[Node], choose: Random, flag: str) -> bool:
    return _move(body, choose, flag, "clip")


def _wrap(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose)
    if place is None:
        return False
    suite, position = place
    stop = position + choose.randint(1, 2)
    if any(node.tag not in EVENTS for node in suite[position:stop]):
        stop = position + 1
    suite[position:stop] = [block(f"if {flag}:", *suite[position:stop])]
    return True


def _early(body: list[Node], choose: Random, flag: str) -> bool:
    """An event stands right behind a backward: before another one, before what divides, before what steps."""
    place, after = _pick(body, choose, "unscale", "step", "update", "zero"), _pick(body, choose, "backward")
    if place is None or after is None:
        return False
    backward = after[0][after[1]]
    node = place[0].pop(place[1])
    position = next(index for index, each in enumerate(after[0]) if each is backward)
    after[0].insert(position + 1, node)
    return True


def _late(body: list[Node], choose: Random, flag: str) -> bool:
    """A second loss goes backward behind other events."""
    place = _pick(body, choose, "backward")
    if place is None:
        return False
    suite, position = place
    for node in suite[position].walk():
        node.text = node.text.replace(".backward()", ".backward(retain_graph=True)")
    suite.insert(choose.randint(position + 1, len(suite)), copy.deepcopy(suite[position]))
    return True


def _unwrap(body: list[Node], choose: Random, flag: str) -> bool:
    """What stands under a condition loses it."""
    suites = [(suite, node) for suite in _suites(body) for node in suite if node.text.startswith("if ")]
    suites = [(suite, node) for suite, node in suites if not any(_jumps(each) for each in node.walk())]
    if not suites:
        return False
    suite, node = choose.choice(suites)
    position = next(index for index, each in enumerate(suite) if each is node)
    if position + 1 < len(suite) and suite[position + 1].text.startswith("else"):
        return False
    suite[position : position + 1] = node.body
    return True


def _across(body: list[Node], choose: Random, flag: str) -> bool:
    """Events change places with the condition before or behind them, or leave its arm."""
    found = [(suite, index) for suite in _suites(body) for index, node in enumerate(suite) if _is_if(node)]
    if not found:
        return False
    suite, index = choose.choice(found)
    arm, behind, many = suite[index].body, suite[index + 1 :], choose.choice((1, 1, 2, 3))
    ways = [(_first_events(arm)[:many], arm, index), (_first_events(behind)[:many], suite, index)]
    if not behind or not behind[0].text.startswith("else"):
        ways.append((_first_events(arm[::-1])[:many][::-1], arm, index + 1))
    ways = [way for way in ways if way[0]]
    if not ways:
        return False
    moved, source, place = choose.choice(ways)
    source[:] = [each for each in source if not any(each is one for one in moved)]
    suite[place:place] = moved
    return True


def _first_events(suite: list[Node]) -> list[Node]:
    return list(takewhile(lambda node: node.tag in EVENTS, suite))


def _is_if(node: Node) -> bool:
    return node.text.startswith("if ") and bool(node.body)


def _into_region(body: list[Node], choose: Random, flag: str) -> bool:
    """What follows a region moves to its end."""
    for suite in _suites(body):
        for position, node in enumerate(suite[:-1]):
            if node.tag == "region" and suite[position + 1].tag in EVENTS:
                stop = position + 1
                while stop < len(suite) and suite[stop].tag in EVENTS and stop - position <= 4:
                    stop += 1
                stop = choose.randint(position + 2, stop)
                node.body += suite[position + 1 : stop]
                del suite[position + 1 : stop]
                return True
    return False


def _out_of_region(body: list[Node], choose: Random, flag: str) -> bool:
    """The end of a region moves behind it."""
    for suite in _suites(body):
        for position, node in enumerate(suite):
            if node.tag == "region" and len(node.body) > 1:
                if node.body[-1].tag in EVENTS or node.body[-2].text.startswith("out = "):
                    suite.insert(position + 1, node.body.pop())
                    return True
    return False


def _unscaled(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose, "backward")
    if place is None:
        return False
    node = place[0][place[1]]
    node.text = _without_scale(node.text)
    return True


def _without_scale(text: str) -> str:
    found = re.fullmatch(r"[\w.]+\.scale\((.*)\)\.backward(.*)", text)
    if found is None:
        return text
    return f"({found[1]}).backward{found[2]}" if " " in found[1] else f"{found[1]}.backward{found[2]}"


def _bypassed(body: list[Node], choose: Random, flag: str) -> bool:
    place = _pick(body, choose, "step")
    if place is None:
        return False
    node = place[0][place[1]]
    node.text = re.sub(r"[\w.]+\.step\((.+)\)", r"\1.step()", node.text)
    return True


MUTATIONS = {
    "drop": _drop,
    "double": _double,
    "swap": _swap,
    "move": _move,
    "move clip": _move_clip,
    "copy": _copy,
    "update behind": _update_behind,
    "repeat": _repeat,
    "plain too": _plain_too,
    "wrap": _wrap,
    "unwrap": _unwrap,
    "across": _across,
    "early": _early,
    "late": _late,
    "into region": _into_region,
    "out of region": _out_of_region,
    "unscaled backward": _unscaled,
    "direct step": _bypassed,
}


def _jumps(node: Node) -> bool:
    return node.text in ("continue", "break") or node.text.startswith("return")


def _makes_sense(body: list[Node]) -> bool:
    """Whether what is read was set before, with nothing behind a jump, and arms together."""
    nodes = [node for top in body for node in top.walk()]
    made = {name for node in nodes for name in _sets(node)}
    known: set[str] = set()
    for node in nodes:
        value = re.sub(r"^for .* in |^\w+ = ", "", node.text)
        if any(name in made - known for name in re.findall(r"(?<![\w.])[a-z_]\w*(?! ?=[^=])", value)):
            return False
        known.update(_sets(node))
    if not all(_asked(node, ()) for node in body):
        return False
    suites = [body, *(node.body for top in body for node in top.walk())]
    if any(_jumps(node) for suite in suites for node in suite[:-1]):
        return False
    second = {"else:": "if ", "finally:": "try:"}
    return all(
        node.text not in second or before.text.startswith(second[node.text])
        for suite in suites
        for before, node in zip([Node(""), *suite], suite, strict=False)
    )


def _asked(node: Node, tests: tuple[str, ...]) -> bool:
    """Whether a bound that may be None is read below an if that asks for it."""
    bounds = re.findall(r"\b(?:clip_grad|max_norm)\b(?!=)", node.text)
    if node.text.startswith("if "):
        tests = (*tests, node.text)
    elif node.tag != "call" and any(not any(bound in test for test in tests) for bound in bounds):
        return False
    return all(_asked(child, tests) for child in node.body)


def _sets(node: Node) -> list[str]:
    """The variables that a statement sets."""
    loop = re.match(r"for (.*) in ", node.text)
    names = re.findall(r"\w+", loop[1]) if loop is not None else re.findall(r"^(\w+) = ", node.text)
    return [name for name in names if name != "_"]


def _fill(body: list[Node]) -> None:
    """An empty suite gets a `pass`."""
    for top in body:
        for node in top.walk():
            if node.text.endswith(":") and not node.body:
                node.body.append(line("pass"))
