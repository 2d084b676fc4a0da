"""A scaler that is made anew counts where it scales for the same training as the one before it."""

from __future__ import annotations

import textwrap

import pytest

import amplint
from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret

USE = """
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
MADE = '    scaler = torch.amp.GradScaler("cuda")'


def ran(text: str) -> Ran:
    (found,) = interpret("import torch\n\n" + text)
    return found


def is_remade(text: str) -> bool:
    found = ran(text)
    assert found.judged.state == (WRONG if found.shown else RIGHT)
    assert found.shown <= {"scale"}
    return bool(found.shown)


FACTORY = """
def components(on):
    return torch.autocast("cuda", enabled=on), torch.amp.GradScaler("cuda", enabled=on)

@torch.no_grad()
def evaluate(model, loader, on):
    region, THROWN = components(on)
    for x, y in loader:
        with region:
            model(x)

def fit(model, optimizer, loader, on, epochs):
    BEFORE
    for epoch in range(epochs):
        for x, y in loader:
            INSIDE
            evaluate(model, loader, on)
            with region:
                loss = model(x).mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize("thrown", ["_", "unused"])
@pytest.mark.parametrize(("before", "inside", "remade"), [("HERE", "pass", False), ("pass", "HERE", True)])
def test_one_that_scales_nothing_is_no_new_one(thrown: str, before: str, inside: str, remade: bool) -> None:
    text = FACTORY.replace("THROWN", thrown).replace("BEFORE", before).replace("INSIDE", inside)
    assert is_remade(text.replace("HERE", "region, scaler = components(on)")) is remade


STEP = f"""
def step(model, optimizer, x):
{MADE}
{USE}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("calls", "remade"),
    [
        ("", True),  # who calls it is out of sight
        ("step(net(), sgd(), batch())", False),
        ("def main():\n    step(net(), sgd(), batch())\n\nmain()", False),
        ("def main():\n    step(net(), sgd(), batch())", False),
        ("class Module:\n    def training_step(self, x):\n        step(self.net, self.sgd, x)", True),
        ("for each in batches():\n    step(net(), sgd(), each)", True),
        ("def main(x):\n    step(net(), sgd(), x)\n\nfor each in batches():\n    main(each)", True),
        ("def main(model):\n    while model.trains():\n        step(model, sgd(), batch())\n\nmain(net())", True),
    ],
)
def test_a_step_that_the_program_calls_once_makes_one(calls: str, remade: bool) -> None:
    assert is_remade(f"{STEP}\n{calls}\n") is remade


@pytest.mark.parametrize(
    ("given", "remade"),
    [
        ("model = net()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", False),
        ("model = net()\n    optimizer = build_optimizer(model)", False),
        ("model, optimizer = state.model, state.optimizer", True),
        ("model, optimizer = state.model, state.optimizers()", True),
    ],
)
def test_one_of_a_training_of_its_own_is_no_new_one(given: str, remade: bool) -> None:
    assert is_remade(f"def run(x, state):\n    {given}\n{MADE}\n{USE}") is remade


@pytest.mark.parametrize(("name", "remade"), [("test_step", False), ("train_step", True)])
def test_a_test_is_called_once(name: str, remade: bool) -> None:
    assert is_remade(STEP.replace("def step", f"def {name}")) is remade
    of_class = f"class Thing:\n    def {name}(self, model, optimizer, x):\n        {MADE.strip()}"
    assert is_remade(of_class + USE.replace("\n    ", "\n        ")) is remade


def test_a_smoke_test_whose_scaler_is_used_for_nothing() -> None:
    text = """
def check(x):
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        model(x).mean()
"""
    assert not is_remade(text)


def test_an_epoch_that_makes_one_step_and_its_own_scaler() -> None:
    text = f"""
def epoch(model, optimizer, loader):
{MADE}
    total = 0
    optimizer.zero_grad()
    for x in loader:
        with torch.autocast("cuda"):
            total = total + model(x).mean()
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()

CALL
"""
    assert is_remade(text.replace("CALL", "for _ in range(9):\n    epoch(net(), sgd(), batches())"))
    assert not is_remade(text.replace("CALL", "epoch(net(), sgd(), batches())"))


EPOCH = f"""
def train_one_epoch(loader, model, optimizer):
{MADE}
    for x in loader:
        {USE.strip().replace(chr(10), chr(10) + "    ")}

CALLS
"""
REPEATS = "def main(loader):\n    model, optimizer = net(), sgd()\n    for epoch in range(9):\n        "
FRESH = "def main(loader):\n    for fold in range(9):\n        model = net()\n        optimizer = sgd(model)\n        "
CALL = "train_one_epoch(loader, model, optimizer)"


def test_one_that_each_epoch_makes_by_a_call() -> None:
    assert is_remade(EPOCH.replace("CALLS", REPEATS + CALL))
    assert not is_remade(EPOCH.replace("CALLS", FRESH + CALL))
    assert not is_remade(EPOCH.replace("CALLS", "def main(loader):\n    model, optimizer = net(), sgd()\n    " + CALL))
    given = EPOCH.replace(MADE, "    pass").replace("optimizer):", "optimizer, scaler):")
    calls = REPEATS.replace("\n    for", f"\n{MADE}\n    for") + CALL.replace("optimizer)", "optimizer, scaler)")
    assert not is_remade(given.replace("CALLS", calls))


@pytest.mark.parametrize(("before", "inside", "remade"), [("HERE", "pass", False), ("pass", "HERE", True)])
def test_one_that_a_loop_over_epochs_makes(before: str, inside: str, remade: bool) -> None:
    text = f"""
def fit(model, optimizer, loader, epochs):
    BEFORE
    for epoch in range(epochs):
        INSIDE
        for x in loader:
            {USE.strip().replace(chr(10), chr(10) + "        ")}
"""
    assert is_remade(text.replace("BEFORE", before).replace("INSIDE", inside).replace("HERE", MADE.strip())) is remade


def test_one_that_is_switched_off_has_no_scale() -> None:
    assert not is_remade(STEP.replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=False)'))


FOLDS = f"""
def train_model(model, count):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{MADE}
    for epoch in range(count):
        for phase in ("train", "val"):
            for x in loaders[phase]:
                optimizer.zero_grad()
                with torch.autocast("cuda"):
                    loss = model(x).mean()
                if phase == "train":
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
    return model

"""
TRAINS = [
    "model = train_model(model, 10)",
    "best = train_model(model, 10)\nmodel = best",
    "model = torch.compile(train_model(model, 10))",
    "model = train_model(model=model, count=10)",
    "best = train_model(model, 10)",
]


@pytest.mark.parametrize("trains", TRAINS)
def test_a_model_that_is_the_result_of_its_training_is_trained_once(trains: str) -> None:
    calls = f"model = torch.nn.Linear(4, 4)\n{trains}"
    assert not is_remade(FOLDS + calls)
    assert not is_remade(f"{FOLDS}def main():\n{textwrap.indent(calls, '    ')}\n\nmain()")


@pytest.mark.parametrize(("start", "remade"), [("for x in batches():\n    ", True), ("x = batch()\n", False)])
def test_a_model_that_a_step_returns(start: str, remade: bool) -> None:
    calls = f"model, optimizer = net(), sgd()\n{start}model = step(model, optimizer, x)"
    assert is_remade(f"{STEP}    return model\n\n{calls}") is remade


def test_a_device_in_the_place_of_the_scale_raises() -> None:
    """`torch.cuda.amp.GradScaler` has no device: what is given first is the initial scale."""
    program = """\
import torch


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler("cuda", enabled=True)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    (found,) = amplint.verify(program)
    assert found.verdict == "confirmed"  # the fix of AMP214 removes the device
    (left,) = amplint.verify(program.replace('"cuda", enabled', '"big", enabled'))
    assert left.verdict == "misbehaves"
    (right,) = amplint.verify(program.replace('"cuda", enabled', "1024.0, enabled"))
    assert right.verdict == "confirmed"
