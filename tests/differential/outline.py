"""Takes statements out of a suite into a function of their own: a helper, a method, a closure."""

from __future__ import annotations

import ast
import builtins
import re
from random import Random

from tests.differential.tree import Node, block, line, rendered


def outline(body: list[Node], choose: Random, kind: str, name: str, variables: set[str]) -> Node | None:
    """The new function, whose call has replaced a stretch of statements; None where there is none to take.

    `variables`: the names that the function is given where it reads them; all others it sees by itself.
    """
    suites = [suite for suite in _suites(body) if suite]
    for attempt in range(8):
        suite = choose.choice(suites)
        first = choose.randrange(len(suite))
        stop = min(len(suite), first + choose.choice((1, 1, 2, 3, 4, 5)))
        taken = suite[first:stop]
        if not any(node.tag for top in taken for node in top.walk()) or any(map(_leaves, taken)):
            continue
        if len(taken) == 1 and taken[0].text.startswith("else"):
            continue
        behind = _words_without(body, taken)
        made = [each for each in dict.fromkeys(_assigned(taken)) if each in behind or f"{each}*" in _read_first(body)]
        if not made and attempt < 4 and choose.random() < 0.5:
            continue  # better one that returns something
        if len(made) > 1 or (stop < len(suite) and suite[stop].text.startswith("else")):
            continue
        used = _words(taken)
        needs = [each for each in sorted(variables) if each in used and not _is_set_first(each, taken)]
        suite[first:stop] = [_call(kind, name, needs, made)]
        result = [line(f"return {made[0]}")] if made else []
        given = (["self"] if kind == "method" else []) + needs
        return block(f"def {name}({', '.join(given)}):", *taken, *result)
    return None


def apart(body: list[Node], name: str, tag: str, known: set[str]) -> Node | None:
    """The new function, whose calls have replaced an event and all that are the same but for names; None without any.

    `known`: the names that it is not given.
    """
    function, pattern = None, ""
    for suite in _suites(body):
        for position, node in enumerate(suite):
            if node.tag != tag or node.text.startswith("norm = "):  # which is read behind it
                continue
            needs = _reads(node, known)
            text = rendered([node])
            for number, each in enumerate(needs):
                text = re.sub(rf"(?<![\w.]){each}\b(?!=)", f"<{number}>", text)
            if function is None:
                function, pattern = block(f"def {name}({', '.join(needs)}):", node), text
            if text == pattern:
                suite[position] = _call("helper", name, needs, [])
    return function


def _reads(node: Node, known: set[str]) -> list[str]:
    """The variables that an event reads and does not set, in their order."""
    names = [each for each in ast.walk(ast.parse(rendered([node]))) if isinstance(each, ast.Name)]
    names.sort(key=lambda each: (each.lineno, each.col_offset))
    made = {each.id for each in names if isinstance(each.ctx, ast.Store)} | known | set(dir(builtins))
    return list(dict.fromkeys(each.id for each in names if each.id not in made))


def rename(function: Node, name: str, new: str) -> None:
    """Give a function's parameter another name than the caller's variable has."""
    for node in function.walk():
        node.text = re.sub(rf"(?<![\w.]){name}\b(?!=)", new, node.text)


def _call(kind: str, name: str, needs: list[str], made: list[str]) -> Node:
    call = f"{'self.' if kind == 'method' else ''}{name}({', '.join(needs)})"
    return line(f"{made[0]} = {call}" if made else call, "call")


def _suites(body: list[Node]) -> list[list[Node]]:
    found = [body]
    for node in body:
        if node.body and node.text:
            found += _suites(node.body)
    return found


def _leaves(node: Node) -> bool:
    return any(each.text.split(" ")[0] in ("continue", "break", "return") for each in node.walk())


def _words(nodes: list[Node]) -> set[str]:
    return {word for top in nodes for node in top.walk() for word in re.findall(r"(?<![\w.])[a-z_]\w*", node.text)}


def _words_without(body: list[Node], taken: list[Node]) -> set[str]:
    """The names that a suite and what is below it mention, some statements left out."""
    found: set[str] = set()
    for node in body:
        if not any(node is each for each in taken):
            found |= _words([Node(node.text)]) | _words_without(node.body, taken)
    return found


def _assigned(nodes: list[Node]) -> list[str]:
    texts = [node.text for top in nodes for node in top.walk()]
    return [match[1] for text in texts if (match := re.match(r"(\w+) [-+*/]?= ", text))]


def _read_first(body: list[Node]) -> set[str]:
    """Variables that carry over from one iteration to the next: those changed in place."""
    return {f"{match[1]}*" for top in body for node in top.walk() if (match := re.match(r"(\w+) [-+*/]= ", node.text))}


def _is_set_first(name: str, nodes: list[Node]) -> bool:
    """Whether a variable is set before it is read."""
    for node in (each for top in nodes for each in top.walk()):
        if re.match(rf"{name} = ", node.text):
            return not re.search(rf"(?<![\w.]){name}\b", node.text.split(" = ", 1)[1])
        if name in _words([Node(node.text)]):
            return False
    return False
