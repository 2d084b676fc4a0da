"""What a value can be: leaves, with their conditions, and whether they are all."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.target import nothing_declared
from amplint.config.settings import Settings
from amplint.model.inference.formulas import possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.inference.values import Doubt, Values, values_of
from amplint.model.module import Module, build
from amplint.model.syntax import ir
from amplint.sources.source import Source


def module_of(text: str) -> tuple[Module, ir.Value]:
    """A module, and the argument of its call of `ask`."""
    module = build(Source("x.py", f"import os, torch\n{text}\n"), nothing_declared())
    (call,) = (each for each in module.calls if ir.last_name(each.func) == "ask")
    return module, call.args[0].value


def asked(text: str) -> tuple[Module, Values]:
    module, value = module_of(text)
    return module, values_of(module, value)


def said(text: str) -> list[str]:
    """The leaves as they are written; `?` for one that is open, `~` before one that is so by default or may not be."""
    module, found = asked(text)
    return ["?" if each.is_open else "~" * bool(each.doubt) + module.text(each.value) for each in found.leaves]


CONFIG = "from dataclasses import dataclass\n@dataclass\nclass C:\n    v: int = 1\n"


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("ask(1)", ["1"]),
        ("v = 1\nv = 2\nask(v)", ["2"]),
        ("v = 1\nexec(open('settings.py').read())\nask(v)", ["?", "~1"]),
        ("v = 1\nif x:\n    exec(x)\ndef f():\n    ask(v)", ["?", "~1"]),
        ("exec(x)\nv = 1\nask(v)", ["1"]),
        ("v = 1\nexec('import os')\nask(v)", ["1"]),
        ("v = 1\ndef f():\n    exec(x)\nask(v)", ["1"]),
        ("v = make()\nexec(x)\nask(v)", ["make()"]),
        ("v = 1\nfor v in x:\n    pass\nask(v)", ["?", "1"]),
        ("v = 1\nv += 1\nask(v)", ["?", "~1"]),
        ("ask(unknown)", ["unknown"]),
        ("ask(x.y)", ["x.y"]),
        ("ask(None or 1)", ["1"]),
        ("ask(2 or 1)", ["2"]),
        ("ask(0 and 1)", ["0"]),
        ("ask(x and 1)", ["x", "1"]),
        ("def f(v):\n    ask(v)", ["?"]),
        ("def f(v=1):\n    ask(v)", ["?", "~1"]),
        ("def f(*v):\n    ask(v)\nf(1)", ["?"]),
        ("def f(v=1):\n    ask(v)\nf(2)", ["2"]),
        ("def f(v=1):\n    ask(v)\nf(2)\nf()", ["2", "1"]),
        ("def f(v=1):\n    ask(v)\nf(*x)", ["?"]),
        ("def f(v=1):\n    if v is None:\n        v = 2\n    ask(v)", ["?", "2"]),
        ("def f(v=1):\n    if not isinstance(v, str):\n        v = str(v)\n    ask(v)", ["?", "str(v)"]),
        ("v = 1\nask(v if isinstance(v, int) else 2)", ["?", "2"]),
        ("def f(v):\n    return v\nask(f(1))\nf(2)", ["1"]),
        ("def f(v):\n    if v == 'a':\n        return 1\n    return 2\nask(f('b'))", ["2"]),
        ("def f(v):\n    if v == 'a':\n        return 1\n    return 2\nask(f(x))", ["1", "2"]),
        ("def f(v):\n    return {'a': 1, 'b': 2}[v]\nask(f('b'))", ["2"]),
        ("def f():\n    return f()\nask(f())", ["?"]),
        ("def f():\n    yield 1\nask(f())", ["f()"]),
        ("@cached\ndef f():\n    return 1\nask(f())", ["f()"]),
        ("def f():\n    if x:\n        return 1\n    return\nask(f())", ["f()"]),
        ("D = {'a': 1}\nask(D['a'])", ["1"]),
        ("D = {'a': 1}\nask(D['b'])", ["?"]),
        ("D = {'a': 1}\nask(D.get('b', 2))", ["2"]),
        ("D = {'a': 1, **x}\nask(D['a'])", ["1", "?"]),
        ("D = {'a': 1}\nD['a'] = 2\nask(D['a'])", ["~1", "?"]),
        ("T = (1, 2)\nask(T[1])", ["2"]),
        ("ask(cfg.get('v', 1))", ["?", "~1"]),
        ("ask(getattr(cfg, 'v', 1))", ["?", "~1"]),
        ("ask(os.environ.get('v', '1'))", ["?", "~'1'"]),
        ("class A:\n    v = 1\n    def f(self):\n        ask(self.v)", ["~1"]),
        ("class A:\n    v = 1\nask(A.v)", ["1"]),
        ("class A:\n    v = 1\n    def f(self):\n        self.v = 2\nask(A.v)", ["A.v"]),
        ("class A:\n    def f(self):\n        self.v = 1\na = A()\nask(a.v)", ["1"]),
        ("class A:\n    def f(self):\n        self.v = 1\n    def g(self):\n        self.v = 2\n        ask(self.v)",
         ["~1", "~2"]),
        ("class A:\n    def f(self):\n        self.v = 1\n        self.v = 2\n        ask(self.v)", ["2"]),
        ("class A:\n    @property\n    def v(self):\n        return 1\n    def f(self):\n        ask(self.v)", ["1"]),
        (f"{CONFIG}c = C(v=2)\nask(c.v)", ["2"]),
        (f"{CONFIG}c = C()\nask(c.v)", ["1"]),
        (f"{CONFIG}c = C(2)\nask(c.v)", ["2"]),
        (f"{CONFIG}c = C(*x)\nask(c.v)", ["?"]),
        (f"{CONFIG}c = C(**x)\nask(c.v)", ["?", "~1"]),
        (f"{CONFIG}    @classmethod\n    def read(cls, x):\n        return cls(x)\nc = C.read(2)\nask(c.v)",
         ["?", "~1"]),
        (f"{CONFIG}    @staticmethod\n    def read(x):\n        return x\nc = C.read(other)\nask(c.v)", ["?"]),
        (f"{CONFIG}class D(C):\n    w: int = 2\nc = D(2)\nask(c.w)", ["c.w"]),
        (f"{CONFIG}c = C()\nc.v = 2\nask(c.v)", ["?"]),
        (f"{CONFIG}def f(c: C):\n    ask(c.v)", ["?", "~1"]),
        ("v = w\nw = v\nask(v)", ["?"]),
        (f"D = {dict.fromkeys(map(str, range(30)), 1)}\nask(D[x])", ["?"]),
    ],
)  # fmt: skip
def test_leaves(text: str, leaves: list[str]) -> None:
    assert said(text) == leaves


def test_each_leaf_has_what_must_hold_for_it() -> None:
    module, found = asked("v = 1\nif a:\n    v = 2\nelif b:\n    v = 3\nask(v)")
    known = decided(module)
    formulas = [known.when(each) for each in found.leaves]
    assert not any(map(is_vague, formulas))
    assert all(possible(one) is not None for one in formulas)
    assert all(possible(one, other) is None for one in formulas for other in formulas if one is not other)


def test_what_one_call_gives_holds_together() -> None:
    text = "def f(v, w):\n    ask(v)\nf(1, 2)\nf(3, 4)"
    module, found = asked(text)
    formulas = [decided(module).when(each) for each in found.leaves]
    assert possible(*formulas) is None
    assert [each.doubt for each in found.leaves] == [Doubt.NONE] * 2
    assert found.is_closed


def codes(text: str, code: str) -> list[str]:
    return [
        each.message for each in check(f"import torch\n{text}", settings=Settings(frozenset((code,)), isolated=True))
    ]


TRAIN = (
    "def train(device, dtype, enabled):\n    with torch.autocast(device, dtype=dtype, enabled=enabled):\n        pass\n"
)


@pytest.mark.parametrize(
    ("calls", "findings"),
    [
        ("train('cpu', torch.float32, True)", 1),
        ("train('cpu', torch.bfloat16, True)\ntrain('cuda', torch.float32, True)", 0),
        ("train('cpu', torch.float32, False)\ntrain('cuda', torch.float16, True)", 0),
        ("train('cpu', torch.float32, True)\ntrain('cuda', torch.float16, True)", 0),  # float32 is wanted: a suspicion
        ("train('cpu', torch.float32, x)\ntrain('cuda', torch.float16, True)", 0),
    ],
)
def test_205_looks_at_what_each_call_gives(calls: str, findings: int) -> None:
    assert len(codes(TRAIN + calls, "AMP205")) == findings


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(v='gpu'):\n    if v == 'gpu':\n        v = 'cuda'\n    torch.autocast(v)", "AMP204"),
        ("v = 'cuda:0'\nv = torch.device(v) if isinstance(v, str) else v\ntorch.autocast(v.type)", "AMP204"),
        ("def f(v=None):\n    torch.autocast('cuda', enabled=v)", "AMP212"),
        ("class A:\n    def f(self):\n        self.v = 1\n    def g(self):\n        self.v = True\n"
         "    def h(self):\n        torch.autocast('cuda', enabled=self.v)", "AMP212"),
        ("def f(v=torch.float16):\n    torch.autocast('cuda', v)", "AMP211"),
        ("def f(v=None):\n    torch.amp.GradScaler('cuda', init_scale=v)", "AMP214"),
        ("def f(v='cuda'):\n    torch.amp.GradScaler(v)", "AMP214"),
        ("def f(v=2.0):\n    torch.amp.GradScaler('cuda', growth_factor=v)", "AMP214"),
        ("def f(v):\n    torch.autocast('cpu', dtype=v)\nf(torch.bfloat16)", "AMP205"),
    ],
)  # fmt: skip
def test_what_is_right_or_cannot_be_told_is_left_alone(text: str, code: str) -> None:
    assert codes(text, code) == []
