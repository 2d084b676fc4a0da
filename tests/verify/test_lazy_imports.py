"""torch from a function that imports it; and contexts named of autocast that can't be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import amplint

IMPORTS = {
    "a function": ("def _torch():\n    import torch\n    return torch", "torch = _torch()"),
    "one that catches": (
        "def _torch():\n    try:\n        import torch\n    except ImportError as error:\n"
        '        raise RuntimeError("install torch") from error\n    return torch',
        "torch = _torch()",
    ),
    "under another name": ("def lazy():\n    import torch as th\n    return th", "torch = lazy()"),
    "importlib": ("import importlib", 'torch = importlib.import_module("torch")'),
    "a function with importlib": (
        'import importlib\ndef lazy():\n    return importlib.import_module("torch")',
        "torch = lazy()",
    ),
}
STEP = """
IMPORT

def train(model, optimizer, loader, scaler):
    HERE
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
OTHERS = {
    "it returns something else as well": (
        "def _torch(mock=None):\n    import torch\n    return torch if mock is None else mock"
    ),
    "it returns another one": "def _torch():\n    import torch\n    return mocked(torch)",
}


def program(imports: str, here: str, clip: str = "pass") -> str:
    return STEP.replace("IMPORT", imports).replace("HERE", here).replace("CLIP", clip)


@pytest.mark.parametrize("name", IMPORTS)
def test_the_region_is_torchs(name: str) -> None:
    (found,) = amplint.verify(program(*IMPORTS[name]))
    assert (found.verdict, found.reason) == ("clean", "")
    assert found.before.numbers != "update off by 0%"  # as it is without a region


@pytest.mark.parametrize("name", IMPORTS)
def test_rules_know_the_names(name: str) -> None:
    found = amplint.check(program(*IMPORTS[name], clip=CLIP))
    assert [each.code for each in found] == ["AMP401"]


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_a_function_may_return_is_not_known(name: str) -> None:
    text = program(OTHERS[name], "torch = _torch()")
    assert [*amplint.check(text)] == []


def test_a_step_with_such_a_region_is_not_clean() -> None:
    (found,) = amplint.verify(program(OTHERS["it returns another one"], "torch = _torch()"))
    assert (found.verdict, found.reason) == (
        "not checkable",
        """line 10: amplint can't see what torch.autocast("cuda") does""",
    )


def test_a_function_of_another_file(tmp_path: Path) -> None:
    helpers = IMPORTS["a function"][0] + "\n\ndef region():\n    return _torch().autocast('cuda')\n"
    (tmp_path / "helpers.py").write_text(helpers)
    path = tmp_path / "train.py"
    path.write_text(program("from helpers import _torch", "torch = _torch()"))
    (found,) = amplint.verify(path.read_text(), path)
    assert found.verdict == "clean"
    assert found.before.numbers != "update off by 0%"


UNSEEN = {
    "a parameter's method": "engine.autocast()",
    "a parameter": "amp_autocast",
    "what a parameter gives": "engine.get_autocast_ctx(True)",
}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_context_that_is_named_of_autocast_and_not_seen_is_not_clean(name: str) -> None:
    text = program("import torch", "engine, amp_autocast = setup").replace('torch.autocast("cuda")', UNSEEN[name])
    (found,) = amplint.verify(text)
    assert (found.verdict, found.reason) == ("not checkable", f"line 8: amplint can't see what {UNSEEN[name]} does")


def test_another_context_out_of_sight_is_no_region() -> None:
    text = program("import torch", "engine = setup()").replace('torch.autocast("cuda")', "engine.timed()")
    (found,) = amplint.verify(text)
    assert found.verdict == "clean"


def test_what_a_fix_mends_is_mended_in_it_too() -> None:
    text = program("import torch", "engine = setup()", CLIP).replace('torch.autocast("cuda")', "engine.autocast()")
    (found,) = amplint.verify(text, unsafe=True)
    assert (found.verdict, found.reason) == ("confirmed", "line 8: amplint can't see what engine.autocast() does")
