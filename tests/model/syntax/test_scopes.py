"""Names to sets of qualified names, in every scope and by every way to bind one."""

from __future__ import annotations

import importlib

import pytest

from amplint import check
from amplint.base.target import nothing_declared
from amplint.model import Module, build
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import DEFINED_IN, LOCAL, NOTHING, UNBOUND, UNKNOWN, canonical
from amplint.sources.source import Source


def lower(text: str) -> Module:
    return build(Source("test.py", text), nothing_declared())


def meaning(text: str) -> set[str]:
    """What the argument of the one call of `probe` can stand for."""
    module = lower(text)
    (call,) = [
        each for each in module.calls if isinstance(each.func, ir.Name) and each.func.name == "probe" and each.args
    ]
    return set(module.names.of(call.args[0].value))


AUTOCAST = {"torch.amp.autocast"}
IMPORT = "from torch.amp import autocast\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # imports
        ("import torch\nprobe(torch.autocast)\n", AUTOCAST),
        ("import torch.amp\nprobe(torch.amp.autocast)\n", AUTOCAST),
        ("import torch.amp as amp\nprobe(amp.autocast)\n", AUTOCAST),
        ("from torch import amp as a\nprobe(a.autocast_mode.autocast)\n", AUTOCAST),
        ("from torch import autocast as a\nprobe(a)\n", AUTOCAST),
        ("from torch.amp.autocast_mode import *\nprobe(autocast)\n", AUTOCAST),
        ("from torch.cuda.amp.grad_scaler import *\nprobe(GradScaler)\n", {"torch.cuda.amp.GradScaler"}),
        ("from torch.cuda.amp import grad_scaler as g\nprobe(g.GradScaler)\n", {"torch.cuda.amp.GradScaler"}),
        ("from timm.utils.agc import adaptive_clip_grad as a\nprobe(a)\n", {"timm.utils.adaptive_clip_grad"}),
        ("from torch.amp import *\nprobe(autocast)\n", AUTOCAST),
        ("from elsewhere import *\nprobe(autocast)\n", {UNKNOWN}),
        ("from torch.amp import *\nfrom elsewhere import *\nprobe(autocast)\n", AUTOCAST | {UNKNOWN}),
        ("from elsewhere import *\nfrom torch import autocast\nprobe(autocast)\n", AUTOCAST),
        ("probe(autocast)\n", {UNBOUND + "autocast"}),
        ("probe(print)\n", {"builtins.print"}),
        # both arms count, the order within a scope doesn't
        (
            "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
            "    from torch.cuda.amp import GradScaler\nprobe(GradScaler)\n",
            {"torch.amp.GradScaler", "torch.cuda.amp.GradScaler"},
        ),
        ("probe(autocast)\n" + IMPORT, AUTOCAST),
        ("autocast = None\n" + IMPORT + "probe(autocast)\n", AUTOCAST | {NOTHING}),
        # aliases
        (IMPORT + "a = b = autocast\nprobe(b)\n", AUTOCAST),
        (IMPORT + "a, b = 1, autocast\nprobe(b)\n", AUTOCAST),
        (IMPORT + "(a := autocast)\nprobe(a)\n", AUTOCAST),
        (IMPORT + "a = autocast if x else print\nprobe(a)\n", AUTOCAST | {"builtins.print"}),
        (IMPORT + "a = x or autocast\nprobe(a)\n", AUTOCAST | {UNBOUND + "x"}),
        (IMPORT + "[a] = other()\nprobe(a)\n", {UNKNOWN}),
        (IMPORT + "a: object = autocast\nprobe(a)\n", AUTOCAST),
        # bound to themselves
        ("a = a\nprobe(a)\n", {UNKNOWN}),
        ("a = a.step\nprobe(a.step)\n", {UNKNOWN}),
        (IMPORT + "a: object\nprobe(a)\n", {UNBOUND + "a"}),
        # cycles end
        ("a = b\nb = a\nprobe(a)\n", {UNKNOWN}),
        (IMPORT + "a = a or autocast\nprobe(a)\n", AUTOCAST),
        ("a.b = a.b\nprobe(a.b)\n", {UNKNOWN}),
        # scopes
        ("def f():\n    probe(autocast)\n" + IMPORT, AUTOCAST),
        (IMPORT + "def f(autocast):\n    probe(autocast)\n", {UNKNOWN}),
        (IMPORT + "def f():\n    autocast = 1\nprobe(autocast)\n", AUTOCAST),
        (IMPORT + "def f():\n    def autocast(): pass\n    def g(): probe(autocast)\n", {LOCAL + "autocast"}),
        ("class K:\n    " + IMPORT + "    probe(autocast)\n", AUTOCAST),
        ("class K:\n    " + IMPORT + "    def f(self): probe(autocast)\n", {UNBOUND + "autocast"}),
        (IMPORT + "class autocast: pass\nprobe(autocast)\n", AUTOCAST | {LOCAL + "autocast"}),
        (IMPORT + "[probe(autocast) for autocast in x]\n", {UNKNOWN}),
        (IMPORT + "[autocast for autocast in x]\nprobe(autocast)\n", AUTOCAST),
        (IMPORT + "{k: probe(autocast) for k in x}\n", AUTOCAST),
        (IMPORT + "lambda autocast: probe(autocast)\n", {UNKNOWN}),
        (IMPORT + "lambda x: probe(autocast)\n", AUTOCAST),
        # every other way to bind
        (IMPORT + "for autocast in x: probe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "with x as autocast: probe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "try: pass\nexcept E as autocast: probe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "del autocast\nprobe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "autocast += 1\nprobe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "match x:\n    case [autocast]: probe(autocast)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "type autocast = int\nprobe(autocast)\n", AUTOCAST | {UNKNOWN}),
        # global and nonlocal
        ("def f():\n    global autocast\n    " + IMPORT + "probe(autocast)\n", AUTOCAST),
        (
            "def f():\n    a = 1\n    def g():\n        nonlocal a\n        " + IMPORT + "        a = autocast\n"
            "    probe(a)\n",
            AUTOCAST | {UNKNOWN},
        ),
        # attributes of self
        (IMPORT + "class K:\n    def f(self): self.a = autocast\n    def g(me): probe(me.a)\n", AUTOCAST | {UNKNOWN}),
        (IMPORT + "class K:\n    def f(self): self.a = autocast\ndef g(self): probe(self.a)\n", {UNKNOWN}),
    ],
)
def test_meaning(text: str, expected: set[str]) -> None:
    assert meaning(text) == expected


def test_references_are_found_under_each_name_once() -> None:
    module = lower(
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n    from torch.cuda.amp import GradScaler\n"
        "a = GradScaler\nb = a\n"
    )
    found = list(module.references("torch.amp.GradScaler", "torch.cuda.amp.GradScaler"))
    assert sorted(module.text(each) for each in found) == ["GradScaler", "a", "a", "b"]
    assert len({each.id for each in found}) == len(found)


def test_an_answer_within_a_cycle_is_not_kept() -> None:
    module = lower(
        IMPORT + "class K:\n    def f(self):\n        self.a = self.b\n        self.b = self.a or autocast\n"
    )
    names = [each for each in module.values if isinstance(each, ir.Attribute)]
    assert all(module.names.of(each) >= AUTOCAST for each in names)


def test_an_answer_to_a_name_within_a_cycle_is_not_kept() -> None:
    module = lower("from torch import autocast\na = b\nb = a\na = autocast\nprobe(a)\nprobe(b)\n")
    assert [set(module.names.of(each.args[0].value)) for each in module.calls] == [AUTOCAST, AUTOCAST]


def test_what_is_bound_to_itself_is_no_region() -> None:
    text = "import torch\nwith torch.autocast('cpu'):\n    y = model(x)\ntrainer = trainer.step\ntrainer.step(y)\n"
    assert check(text) == []


def test_the_last_answer_of_an_interactive_python_is_no_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins._", 1, raising=False)
    assert meaning("probe(_)\n") == {UNBOUND + "_"}


@pytest.mark.parametrize(("home", "names"), [each for each in DEFINED_IN.items() if each[0].startswith("torch.")])
def test_what_a_module_defines_is_what_its_package_has(home: str, names: tuple[str, ...]) -> None:
    package, module = importlib.import_module(home.rpartition(".")[0]), importlib.import_module(home)
    for name in names:
        assert getattr(package, name, None) is getattr(module, name, getattr(module, f"_{name}", None))
        assert canonical(f"{home}.{name}") == f"{package.__name__}.{name}"
    if home.startswith(("torch.cuda", "torch.cpu")):
        assert set(module.__all__) == set(names)
