"""What can't be followed is said with --verbose, and silent without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check
from amplint.base.target import nothing_declared
from amplint.engine.reading import read
from amplint.model.flow import analysis
from amplint.model.flow.analysis import MUCH_LOST, MUCH_WORK, Flow, flows
from amplint.model.flow.eval_expressions import MAX_WORK
from amplint.model.flow.idle_statements import is_idle
from amplint.model.syntax import ir
from amplint.registry import all_rules
from amplint.sources.parsing import with_room
from amplint.sources.source import Source
from tests.conftest import Ran
from tests.shapes import SHAPES

# Each flag unscales its own optimizer, so that no two paths are alike.
FLAGS = 12
BODY = "".join(f"        if flags.f{i}:\n            scaler.unscale_(optimizers.o{i})\n" for i in range(FLAGS))
TOO_MANY = f"""\
import torch


def train(loader, model, optimizers, flags):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x)).backward()
{BODY}        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizers.o0)
        scaler.update()
"""


def test_a_function_with_too_many_paths_is_named(
    project: Callable[[dict[str, str | bytes]], Path], amplint: Callable[..., Ran]
) -> None:
    project({"many.py": TOO_MANY, "setup.cfg": ""})
    said = "train has too many paths to follow: the order of the scaler's calls in it is not checked"
    assert amplint("--isolated", "many.py").err == f"amplint: many.py: line 4: {said}\n"
    assert amplint("--quiet", "--isolated", "many.py").err == ""


@pytest.mark.parametrize("count", [1, 3])
def test_one_with_fewer_is_followed(count: int) -> None:
    kept = BODY.splitlines()[: 2 * count]
    text = TOO_MANY.replace(BODY, "".join(f"{line}\n" for line in kept))
    assert any(each.code.startswith("AMP4") for each in check(text))


def level(number: int) -> str:
    calls = f"    level{number + 1}(loss, scaler)\n" * 4 if number < 8 else "    scaler.scale(loss).backward()\n"
    return f"def level{number}(loss, scaler):\n{calls}\n\n"


def test_calls_that_lead_to_too_much_are_not_followed_from_everywhere() -> None:
    helpers = "".join(map(level, range(9)))
    callers = "".join(
        f"def caller{i}(loss, scaler):\n    level0(loss, scaler)\n    scaler.update()\n\n\n" for i in range(20)
    )
    text = f"import torch\n\n\n{helpers}{callers}{TOO_MANY.replace(BODY, '').partition('import torch')[2]}"
    module = with_room(lambda: read(Source("file.py", text), nothing_declared()))
    found = with_room(lambda: flows(module))
    assert len(found) > 20
    assert 0 < sum(each.lost for each in found) < MUCH_LOST + MAX_WORK + 1_000
    assert not any(each.given_up for each in found)
    rule = all_rules()["AMP401"]
    assert rule.run is not None
    assert with_room(lambda: list(rule.run(module)))  # where it takes no such call


def test_what_is_much_work_is_not_run_once_more_by_its_callers() -> None:
    """Callers come after what they call, so that it is known what that took."""
    helpers = "".join(
        f"def level{i}(loss, scaler):\n" + f"    level{i + 1}(loss, scaler)\n" * 5 + "\n\n" for i in range(5)
    )
    last = "def level5(loss, scaler):\n    scaler.scale(loss).backward()\n\n\n"
    text = f"import torch\n\n\n{helpers}{last}level0(torch.ones(1), torch.amp.GradScaler())\n"
    module = with_room(lambda: read(Source("file.py", text), nothing_declared()))
    found = {getattr(each.container, "name", "the program"): each.work for each in with_room(lambda: flows(module))}
    assert found.keys() == {f"level{i}" for i in range(6)}
    assert found["level0"] > MUCH_WORK > found["level1"]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("times", [1, 10])
def test_what_is_planted_in_a_long_function_is_found(name: str, times: int) -> None:
    make, size = SHAPES[name]
    assert "AMP401" in {each.code for each in check(make(size * times))}


def many(number: int) -> str:
    """A function without a scaler, of many paths."""
    asked = "".join(f"    if flags.f{i}:\n        optimizers.o{i}.zero_grad()\n" for i in range(6))
    return f"def many{number}(flags, optimizers):\n{asked}\n\n"


def test_where_calls_lead_to_too_much_those_with_a_scaler_are_followed() -> None:
    """Such a function hides nothing of those that scale or clip."""
    calls = "".join(f"        many{i}(flags, optimizers)\n" for i in range(12))
    text = (
        "import torch\n\n\n" + "".join(map(many, range(12))) + "def clip(model):\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n\n\n"
        "def train(loader, model, optimizer, flags, optimizers):\n    scaler = torch.amp.GradScaler('cuda')\n"
        "    for x in loader:\n        optimizer.zero_grad()\n"
        f"{calls}        scaler.scale(model(x).mean()).backward()\n        clip(model)\n"
        "        scaler.step(optimizer)\n        scaler.update()\n"
    )
    assert "AMP401" in {each.code for each in check(text)}


KEPT = "".join(
    f"        kept{i} = log.kept{i} if step else None\n        if kept{i} is None:\n            missing{i} = True\n"
    for i in range(3)
)
ASKED = "".join(
    f"            if kept{i} is not None and not missing{i}:\n                log.keep(kept{i})\n" for i in range(3)
)
ROUGH = f"""\
import torch


def train(loader, model, optimizer, log, fp16, every):
    scaler = torch.amp.GradScaler("cuda", enabled=fp16)
    for step, x in enumerate(loader):
{KEPT}        loss = model(x).mean()
        if fp16:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if (step + 1) % every == 0:
            for p in model.parameters():
                if p.grad is not None:
                    try:
                        log.norm = float(p.grad.norm())
                    except ValueError:
                        continue
{ASKED}            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if fp16:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
"""


def test_of_a_function_with_too_many_paths_of_its_own_only_what_decides_how_it_trains_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flow() -> Flow:
        module = with_room(lambda: read(Source("file.py", ROUGH), nothing_declared()))
        return next(each for each in with_room(lambda: flows(module)) if isinstance(each.container, ir.Function))

    whole = flow()
    monkeypatch.setattr(analysis, "MAX_WORK", whole.work - 1)
    rough = flow()
    assert not whole.given_up
    assert not rough.given_up
    assert rough.work < whole.work
    assert [each.code for each in check(ROUGH) if each.code.startswith("AMP4")] == ["AMP409", "AMP401"]


LOGGED = "".join(f"            if log.wants{i}:\n                seen{i} = True\n" for i in range(12))
SHOWN = "".join(f"            if seen{i}:\n                log.write({i})\n" for i in range(12))
LOGGING = f"""\
import torch


def train(loader, model, optimizer, log):
    scaler = torch.amp.GradScaler("cuda")
    {" = ".join(f"seen{i}" for i in range(12))} = False
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        scaler.scale(model(x).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 100 == 0:
{LOGGED}{SHOWN}"""


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("log.write(step)", ""),
        ("with torch.no_grad():\n                loss = model(x).mean()", ""),
        ("for y in log.batches:\n                if y is None:\n                    break", ""),
    ],
)
def test_what_only_logs_or_validates_keeps_no_paths_apart(inside: str, outside: str) -> None:
    text = f"{LOGGING}            {inside}\n{outside}"
    module = with_room(lambda: read(Source("file.py", text), nothing_declared()))
    (flow,) = (each for each in with_room(lambda: flows(module)) if isinstance(each.container, ir.Function))
    assert not flow.lost
    assert [each.code for each in check(text) if each.code.startswith("AMP4")] == ["AMP401"]


STEP = """\
import torch


def train(loader, model, optimizer, log, fp16=True):
    scaler = torch.amp.GradScaler("cuda", enabled=fp16)
    for step, x in enumerate(loader):
        loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if fp16:
            scaler.update()
        {}
        batch = x
"""


@pytest.mark.parametrize(
    ("statement", "idle"),
    [
        ("if step:\n            log.write(step)", True),
        ("if step:\n            loss = model(x).mean()\n            log.write(loss)", True),
        ("for each in log:\n            if each:\n                break", True),
        ("if step:\n            return", False),
        ("if step:\n            break", False),
        ("if step:\n            scaler.update()", False),
        ("if step:\n            fp16 = False", False),
        ("if step:\n            optimizer = log.optimizer", False),
        ("if step:\n            log.write(optimizer.step())", False),
        ("if step:\n            x = torch.autocast('cuda').__enter__()", False),
        ("if step:\n            assert scaler is not None", False),
    ],
)
def test_which_statements_are_idle(statement: str, idle: bool) -> None:
    module = with_room(lambda: read(Source("file.py", STEP.format(statement)), nothing_declared()))
    last = next(each for each in module.statements if module.line(each) == "line 12")
    assert is_idle(module, last) is idle


def test_a_nested_function_is_none() -> None:
    """It runs when it is called; what it binds is its own."""
    text = STEP.format("def note():\n            log.seen = 0")
    module = with_room(lambda: read(Source("file.py", text), nothing_declared()))
    assert not any(is_idle(module, each) for each in module.functions)


def test_what_a_loss_is_made_of_is_kept() -> None:
    """The sum of an earlier batch goes into the next loss."""
    text = STEP.format("if step:\n            kept = model(x)").replace("model(x).mean()", "(model(x) - kept).mean()")
    module = with_room(lambda: read(Source("file.py", text), nothing_declared()))
    last = next(each for each in module.statements if isinstance(each, ir.If) and module.line(each) == "line 12")
    assert not is_idle(module, last)
