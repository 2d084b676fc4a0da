"""AMP408: functions that make a scaler, and how often they are called with the same model."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Severity

STEP = """\
import torch

def {name}(model, x, opt{params}):
    {made}
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()

"""
EPOCH = """\
import torch

def {name}(model, loader, opt{params}):
    {made}
    for x in loader:
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()

"""
FLUSHED = (
    EPOCH.replace("        scaler.step", "        if full(x):\n            scaler.step", 1).rstrip()
    + """
    if len(loader) % 2:
        scaler.step(opt)
        scaler.update()

"""
)
MADE = 'scaler = torch.amp.GradScaler("cuda")'
MAIN = "def main(model, loader):\n    opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
LOOP = MAIN + "    for each in loader:\n        once(model, each, opt)\n"


def found(text: str, filename: str = "train.py") -> list[Severity]:
    return [each.severity for each in check(text, filename) if each.code == "AMP408"]


def step(calls: str, name: str = "once", made: str = MADE, params: str = "") -> str:
    return STEP.format(name=name, made=made, params=params) + calls


def epoch(calls: str, name: str = "once", made: str = MADE, params: str = "") -> str:
    return EPOCH.format(name=name, made=made, params=params) + calls


CALLED = [
    LOOP,
    MAIN + "    losses = [once(model, each, opt) for each in loader]\n",
    MAIN + "    while loader:\n        once(model, loader.pop(), opt)\n",
    "def also(model, x, opt):\n    once(model, x, opt)\n\n" + LOOP.replace("        once(", "        also("),
    MAIN + "    for stage in range(3):\n        if stage:\n            once(model, loader, opt)\n",
]
NOT_AGAIN = [
    "",
    MAIN + "    once(model, loader, opt)\n",
    "def main(models, loader):\n    for model in models:\n"
    "        opt = torch.optim.SGD(model.parameters(), lr=0.1)\n        once(model, loader, opt)\n",
    "def main(pairs, loader):\n    for model, opt in pairs:\n        once(model, loader, opt)\n",
    "def main(members, loader):\n    for each in members:\n        once(each.model, loader, each.opt)\n",
    MAIN + "    for lr in (0.1, 0.2):\n        model.reset_parameters()\n        once(model, loader, opt)\n",
    "def run(model, loader):\n    opt = torch.optim.SGD(model.parameters(), lr=0.1)\n    once(model, loader, opt)\n\n"
    "def main(models, loader):\n    for model in models:\n        run(model, loader)\n",
]


@pytest.mark.parametrize("calls", CALLED)
def test_a_function_that_is_called_again_and_again(calls: str) -> None:
    assert found(step(calls)) == [Severity.ERROR]
    assert found(epoch(calls)) == [Severity.WARNING]
    # The epoch ends with a step for the last, incomplete group.
    assert found(FLUSHED.format(name="once", made=MADE, params="") + calls) == [Severity.WARNING]


def test_a_path_is_no_optimizer() -> None:
    text = epoch(CALLED[0]).replace(
        "        scaler.update()\n", '        scaler.update()\n    opt_save_path = str("a")\n'
    )
    assert found(text) == [Severity.WARNING]


def test_a_loop_over_epochs_that_steps_once_more_after_the_batches() -> None:
    outer = "def main(model, loader, opt):\n    for epoch in range(9):\n"
    body = FLUSHED.format(name="once", made=MADE, params="").partition(":\n")[2]
    assert found("import torch\n\n" + outer + "".join(f"    {line}\n" for line in body.splitlines())) == [
        Severity.WARNING
    ]


@pytest.mark.parametrize("calls", NOT_AGAIN)
def test_a_function_that_is_called_once_for_a_model(calls: str) -> None:
    assert not found(step(calls))
    assert not found(epoch(calls))


@pytest.mark.parametrize(
    ("made", "params", "count"),
    [
        (f"{MADE} if amp else None", ", amp=True", 1),
        (f"if amp:\n        {MADE}", ", amp=True", 1),
        ('scaler = torch.amp.GradScaler("cuda", enabled=amp)', ", amp=True", 1),
        (f"if scaler is None:\n        {MADE}", ", scaler=None", 1),  # who calls it gives none
        ('scaler = scaler or torch.amp.GradScaler("cuda")', ", scaler=None", 1),
        (f"{MADE} if scaler is None else scaler", ", scaler=None", 0),
        (f"{MADE}\n    scaler.load_state_dict(opt.scaler)", "", 0),
        ('scaler = torch.amp.GradScaler("cuda", enabled=False)', "", 0),
    ],
)
def test_how_it_is_made(made: str, params: str, count: int) -> None:
    assert len(found(step(LOOP, made=made, params=params))) == count
    assert len(found(epoch(LOOP, made=made, params=params))) == count


@pytest.mark.parametrize(
    ("name", "params", "count"),
    [
        ("train_one_epoch", "", 1),
        ("train", ", epoch", 1),
        ("train", ", cur_epoch=0", 1),
        ("train", ", epochs", 0),  # a run of its own
        ("train", "", 0),
    ],
)
def test_a_function_of_an_epoch_that_other_files_call(name: str, params: str, count: int) -> None:
    assert found(epoch("", name, params=params)) == [Severity.WARNING] * count


@pytest.mark.parametrize(("name", "count"), [("train_step", 1), ("train_batch", 1), ("test_train_step", 0), ("go", 0)])
def test_a_function_of_a_step_that_other_files_call(name: str, count: int) -> None:
    assert found(step("", name)) == [Severity.ERROR] * count


def test_a_step_of_lightning() -> None:
    text = """\
import torch

class Module(torch.nn.Module):
    def training_step(self, batch, batch_idx):
        scaler = torch.amp.GradScaler("cuda")
        first, second = self.optimizers()
        first.zero_grad()
        second.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.net(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(first)
        scaler.step(second)
        scaler.update()
"""
    assert found(text) == [Severity.ERROR]


@pytest.mark.parametrize(
    ("between", "count"),
    [
        ("", 1),
        ("        optimizer_state = opt.state_dict()\n        optim_cfg = start.copy()\n", 1),
        ("        opt = torch.optim.SGD(model.parameters(), lr=0.1)\n", 0),
        ("        model.load_state_dict(start)\n", 0),
    ],
)
def test_a_loop_round_that_of_the_steps(between: str, count: int) -> None:
    text = (
        "import torch\n\ndef main(model, loader, opt, start):\n    for each in range(3):\n"
        f"        {MADE}\n{between}        for x in loader:\n            opt.zero_grad()\n"
        '            with torch.autocast("cuda", dtype=torch.float16):\n                loss = model(x).mean()\n'
        "            scaler.scale(loss).backward()\n            scaler.step(opt)\n            scaler.update()\n"
    )
    assert found(text) == [Severity.WARNING] * count


EVALUATED = MAIN + "    for each in range(9):\n        once(model, loader, opt)\n"
AGAIN = MAIN + "    for lr in (0.1, 0.2):\n"


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ("        fresh = Net()\n        fresh.load_state_dict(torch.load('last'))\n        print(score(fresh))\n", 1),
        ("        fresh = copy.deepcopy(model)\n        fresh.load_state_dict(best)\n        score(fresh)\n", 1),
        ("        fresh = Net()\n        fresh.load_state_dict(best)\n        score(fresh)\n        del fresh\n", 1),
        ("        fresh = Net()\n        init_weights(fresh)\n        score(fresh)\n", 1),
        ("        torch.cuda.reset_peak_memory_stats()\n", 1),
        ("        meter.reset()\n", 1),
        ("        self.metrics.reset()\n", 1),
        ("        teacher.load_state_dict(model.state_dict())\n", 1),
        ("        reset_seed(0)\n", 1),
        # What is set back may be what is trained.
        ("        model.load_state_dict(best)\n", 0),
        ("        opt.load_state_dict(start)\n", 0),
        ("        inner = unwrap(model)\n        inner.load_state_dict(best)\n", 0),
        ("        inner = model.module\n        inner.load_state_dict(best)\n", 0),
        ("        raw.load_state_dict(best)\n", 0),
        ("        init_weights(model)\n", 0),
        ("        reset_weights()\n", 0),
        ("        reset_parameters(model)\n", 0),
        ("        model.apply(reset_parameters)\n", 0),
        ("        fresh = Net()\n        fresh.load_state_dict(best)\n        model.swap(fresh)\n", 0),
    ],
)
def test_what_a_loop_sets_back(more: str, count: int) -> None:
    assert len(found(epoch(EVALUATED + more))) == count
    assert len(found(epoch(AGAIN + more + "        once(model, loader, opt)\n"))) == count


def test_what_a_loop_makes_for_its_training() -> None:
    made = "        net = Net()\n        net.load_state_dict(start)\n"
    assert not found(epoch(AGAIN + made + "        once(net, loader, opt)\n"))
    assert not found(epoch(AGAIN + made + "        both = wrap(net)\n        once(both, loader, opt)\n"))


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (f"if amp and torch.cuda.is_available():\n        {MADE}", 1),
        (f"if torch.cuda.is_available():\n        {MADE}", 1),
        (f"if device.startswith('cuda'):\n        {MADE}", 1),
        (f"{MADE} if amp and torch.cuda.is_available() else None", 1),
        (f"if collapsed(model):\n        {MADE}", 0),
        (f"if torch.cuda.is_available() and collapsed(model):\n        {MADE}", 0),
    ],
)
def test_a_test_that_asks_for_the_device(made: str, count: int) -> None:
    params = ", amp=True, device='cuda'"
    assert len(found(step(LOOP, made=made, params=params))) == count
    assert len(found(epoch(EVALUATED, made=made, params=params))) == count
    lines = epoch("", "main", made=made, params=params).partition(":\n")
    outer = "".join(f"    {line}\n" for line in lines[2].splitlines())
    assert len(found(f"{lines[0]}:\n    for epoch in range(9):\n{outer}")) == count


def test_a_function_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "steps.py").write_text(step("", "go"))
    text = "import torch\nfrom steps import go as once\nfrom torch.amp import GradScaler\n\n" + LOOP
    (tmp_path / "main.py").write_text(text)
    assert found(text, str(tmp_path / "main.py")) == [Severity.ERROR]


MAKERS = """\
import functools

import torch

KEPT = None


def make():
    return torch.amp.GradScaler("cuda")


def make_both():
    scaler = torch.amp.GradScaler("cuda")
    return torch.autocast("cuda"), scaler


def shared():
    global KEPT
    if KEPT is None:
        KEPT = torch.amp.GradScaler("cuda")
    return KEPT


@functools.lru_cache
def cached():
    return torch.amp.GradScaler("cuda")


def train(model, optimizer, loader):
    for x in loader:
        {made}
        with torch.autocast("cuda"):
            loss = model(x).sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
FILLED_IN = """\
import torch


def step(model, optimizer, x, scaler=None):
    {made}
    with torch.autocast("cuda"):
        loss = model(x).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(model, optimizer, loader):
    kept = torch.amp.GradScaler("cuda")
    for x in loader:
        {call}
"""
IF_NONE = "if scaler is None:\n        scaler = torch.amp.GradScaler('cuda')"
IF_NOT = IF_NONE.replace("scaler is None", "not scaler")
OR = "scaler = scaler or torch.amp.GradScaler('cuda')"


@pytest.mark.parametrize(
    ("made", "count"),
    [("scaler = make()", 1), ("region, scaler = make_both()", 1), ("scaler = shared()", 0), ("scaler = cached()", 0)],
)
def test_a_function_that_makes_one_in_each_call(made: str, count: int) -> None:
    assert [each.code for each in check(MAKERS.format(made=made), "a.py") if each.code == "AMP408"] == [
        "AMP408"
    ] * count


@pytest.mark.parametrize("made", [IF_NONE, IF_NOT, OR])
@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("step(model, optimizer, x)", 1),
        ("step(model, optimizer, x, None)", 1),
        ("step(model, optimizer, x, kept)", 0),
        ("step(model, optimizer, x, scaler=kept)", 0),
    ],
)
def test_a_parameter_that_no_call_gives(made: str, call: str, count: int) -> None:
    findings = check(FILLED_IN.format(made=made, call=call), "a.py")
    assert sum(each.code == "AMP408" for each in findings) == count


@pytest.mark.parametrize(("dtype", "count"), [("float16", 1), ("bfloat16", 0)])
def test_steps_overflow_only_in_float16(dtype: str, count: int) -> None:
    text = STEP.format(name="step", params="", made='scaler = torch.amp.GradScaler("cuda")')
    text += "def main(model, opt, loader):\n    for x in loader:\n        step(model, x, opt)\n"
    findings = check(text.replace("float16", dtype), "a.py")
    assert sum(each.code == "AMP408" for each in findings) == count


@pytest.mark.parametrize(
    ("before", "inside", "codes"),
    [
        ("scaler.load_state_dict(state)", "print(x)", [Severity.ERROR]),
        ("print(state)", "scaler.load_state_dict(state)", []),
        ("print(state)", "restore(scaler, state)", []),
    ],
)
def test_a_state_that_is_loaded_into_another_scaler(before: str, inside: str, codes: list[Severity]) -> None:
    """What was loaded before the loop is lost with the scaler that it was loaded into."""
    text = (
        f"import torch\n\ndef restore(scaler, state):\n    scaler.load_state_dict(state)\n\n"
        f"def main(model, loader, opt, state):\n    {MADE}\n    {before}\n    for x in loader:\n"
        f"        {MADE}\n        {inside}\n        opt.zero_grad()\n"
        '        with torch.autocast("cuda", dtype=torch.float16):\n            loss = model(x).mean()\n'
        "        scaler.scale(loss).backward()\n        scaler.step(opt)\n        scaler.update()\n"
    )
    assert found(text) == codes
