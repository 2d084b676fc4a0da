"""Which regions are open round a call, by the text and through the file's calls."""

from __future__ import annotations

import pytest

from amplint.base.target import nothing_declared
from amplint.model.module import build
from amplint.model.regions.regions_at import enabled_at
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.sources.source import Source

HEAD = "import contextlib, torch\nfrom torch import nn\n"


def ways(text: str) -> list[list[tuple[int, int | None]]]:
    """For each `ask(...)` the ways: the line where the region is entered, and that of the last call."""
    module = build(Source("x.py", HEAD + text), nothing_declared())
    first = HEAD.count("\n")
    return [
        [
            (module.row(each.entered) - first, module.row(each.site) - first if each.site is not None else None)
            for each in enabled_at(module, call)
        ]
        for call in module.calls
        if ir.last_name(call.func) == "ask"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask()", [[]]),
        ("with torch.autocast('cuda'):\n    ask()", [[(1, None)]]),
        ("with torch.autocast('cuda'):\n    pass\nask()", [[]]),
        ("with torch.autocast('cuda'), make(ask()):\n    ask()", [[(1, None)], [(1, None)]]),
        ("with make(ask()), torch.autocast('cuda'):\n    ask()", [[], [(1, None)]]),
        ("with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n        ask()", [[]]),
        ("with torch.autocast('cuda'):\n    with no_amp():\n        ask()", [[]]),
        ("with torch.autocast('cuda'):\n    with torch.no_grad():\n        ask()", [[(1, None)]]),
        ("with torch.autocast('cuda') if x else contextlib.nullcontext():\n    ask()", [[(1, None)]]),
        (
            "with torch.autocast('cuda', enabled=x):\n    if x:\n        ask()\n    else:\n        ask()",
            [[(1, None)], []],
        ),
        ("with torch.autocast('cuda', enabled=x):\n    y = ask() if x else ask()", [[(1, None)], []]),
        (
            "def f():\n  with torch.autocast('cuda', enabled=x):\n    if not x:\n      return\n    ask()",
            [[(2, None)]],
        ),
        (
            "def f():\n    with torch.autocast('cuda', enabled=x):\n        if x:\n            return\n        ask()",
            [[]],
        ),
        ("@torch.autocast('cuda')\ndef f():\n    ask()", [[(1, None)]]),
        ("@torch.autocast('cuda')\ndef f():\n    yield ask()", [[]]),
        ("@torch.autocast('cuda')\ndef f():\n    def g():\n        ask()", [[]]),
        ("@torch.autocast('cuda')\ndef f():\n    def g():\n        ask()\n    g()", [[(1, 5)]]),
        ("def f():\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[(3, 4)]]),
        ("f = lambda: ask()\nwith torch.autocast('cuda'):\n    f()", [[(2, 3)]]),
        ("@other\ndef f():\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[]]),
        ("@other\ndef f():\n    with torch.autocast('cuda'):\n        ask()", [[(3, None)]]),
        ("@torch.no_grad()\ndef f():\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[(4, 5)]]),
        ("async def f():\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[]]),
        ("def f():\n    g()\ndef g():\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[(5, 2)]]),
        ("def f():\n    f()\n    ask()\nwith torch.autocast('cuda'):\n    f()", [[(4, 5)]]),
        (
            "def f():\n    ask()\nwith torch.autocast('cuda'):\n    f()\nwith torch.autocast('cpu'):\n    f()",
            [[(3, 4), (5, 6)]],
        ),
        (
            "class M(nn.Module):\n    def forward(self):\n        ask()\nm = M().to('cuda')\n"
            "with torch.autocast('cuda'):\n    m()",
            [[(5, 6)]],
        ),
        (
            "class M(nn.Module):\n    def __init__(self):\n        self.n = N()\n"
            "    def forward(self):\n        self.n()\n"
            "class N(nn.Module):\n    def forward(self):\n        ask()\n"
            "m = M()\nwith torch.autocast('cuda'):\n    m()",
            [[(10, 5)]],
        ),
        (
            "class T:\n    def __init__(self, amp):\n        self.amp = amp\n    def f(self):\n"
            "        with torch.autocast('cuda', enabled=self.amp):\n            self.g()\n"
            "    def g(self):\n        if self.amp:\n            ask()\n        else:\n            ask()",
            [[(5, 6)], []],
        ),
    ],
)
def test_ways(text: str, expected: list[list[tuple[int, int | None]]]) -> None:
    assert ways(text) == expected


def test_many_ways_are_cut_short() -> None:
    """Each function calls the next twice: 2 ** 12 ways if all were followed."""
    functions = "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(12))
    (found,) = ways(f"{functions}def f12():\n    ask()\nwith torch.autocast('cuda'):\n    f12()\n    f11()\n    f0()\n")
    assert found == [(39, 35)]  # one for each region; f0 would be too far away


TRAININGS = """
class Net(nn.Module):
    def features(self, x):
        return self.body(x)

    def for_training(self, x):
        return self.features(x)


def inner(a, b):
    return nn.functional.mse_loss(a, b)


def loss_of(a, b):
    return inner(a, b)


def train_on_cpu(net, optimizer, data):
    for x, y in data:
        loss = loss_of(Net().for_training(x), y)
        loss.backward()


def train_on_gpu(net, optimizer, data):
    for x, y in data:
        with torch.autocast("cuda"):
            loss = loss_of(Net().for_training(x), y)
        loss.backward()
"""


def test_a_loss_has_only_the_regions_of_its_own_calls() -> None:
    module = build(Source("x.py", HEAD + TRAININGS), nothing_declared())
    found = [(ir.function_of(each.event.call), len(each.entered)) for each in trained(module)]
    assert [(function and function.name, count) for function, count in found] == [
        ("train_on_cpu", 0),
        ("train_on_gpu", 1),
    ]
