"""Which bindings of a variable a read can see."""

from __future__ import annotations

import pytest

from amplint.base.target import nothing_declared
from amplint.model import build
from amplint.model.names.reaching_definitions import reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import node_of
from amplint.sources.source import Source


def seen(text: str) -> list[int]:
    """The lines of the bindings that the read in `probe(x)` can see."""
    source = "def f(a, b, c):\n" + "".join(f"    {line}\n" for line in text.splitlines())
    module = build(Source("test.py", source), nothing_declared())
    (call,) = [each for each in module.calls if ir.last_name(each.func) == "probe"]
    read = call.positional[0]
    assert isinstance(read, ir.Name)
    nodes = [node_of(each) for each in reaching(module.names, read)]
    return [int(module.line(each).removeprefix("line ")) - 1 for each in nodes if each is not None]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("for x in a:\n    probe(x)\nfor x in b:\n    pass", [1]),
        ("for x in a:\n    pass\nfor x in b:\n    probe(x)", [3]),
        (
            "while a:\n    for x in a:\n        pass\n    for x in b:\n        probe(x)\n    for x in c:\n        pass",
            [4],
        ),
        ("for k, (x, y) in a:\n    probe(x)\nfor x in b:\n    pass", [1]),
        ("for x in a:\n    probe(x)\n    x = b", [1]),
        ("for x in a:\n    x = b\n    probe(x)", [2]),
        ("for x in a:\n    if b:\n        x = c\n    probe(x)", [1, 3]),
        ("for x in a:\n    for y in b:\n        probe(x)\n        x = c", [1, 4]),
        ("for x in a:\n    for x in b:\n        pass\n    probe(x)", [1, 2]),
        # after a loop, in its `else`, and in a function that runs later, what any of them has left
        ("for x in a:\n    pass\nfor x in b:\n    pass\nprobe(x)", [1, 3]),
        ("x = c\nfor x in a:\n    pass\nelse:\n    probe(x)", [1, 2]),
        ("for x in a:\n    def g():\n        return probe(x)\nfor x in b:\n    pass", [1, 4]),
    ],
)
def test_what_loops_bind(text: str, lines: list[int]) -> None:
    assert sorted(seen(text)) == lines
