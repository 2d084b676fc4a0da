"""AMP413: objects of libraries that save and load all that they are given, as fvcore's Checkpointer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding

Found = Callable[[str], list[Finding]]

HEAD = """\
import torch
from {library} import {name}
{imports}

def main(config, loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    {made}
    checkpointer = {name}(model, config.out, {given})
    {more}
    start = checkpointer.{load}["epoch"] if config.resume else 0
    for epoch in range(start, 10):
        for x, y in loader:
            optimizer.zero_grad()
{step}
        scheduler.step()
        checkpointer.save(str(epoch), epoch=epoch)
"""
BY_TORCH = """\
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()"""
BY_APEX = """\
            loss = torch.nn.functional.mse_loss(model(x), y)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()"""
FVCORE, DETECTRON = ("fvcore.common.checkpoint", "Checkpointer"), ("detectron2.checkpoint", "DetectionCheckpointer")
BOTH = "optimizer=optimizer, scheduler=scheduler"
INITIALIZED = "model, optimizer = amp.initialize(model, optimizer, opt_level={level})"


def text_of(
    given: str = BOTH,
    *,
    apex: bool,
    library: tuple[str, str] = FVCORE,
    more: str = "pass",
    load: str = 'resume_or_load("")',
    level: str = "config.level",
) -> str:
    made = INITIALIZED.format(level=level) if apex else 'scaler = torch.amp.GradScaler("cuda")'
    return HEAD.format(
        library=library[0], name=library[1], imports="from apex import amp\n" if apex else "", made=made, given=given,
        more=more, load=load, step=BY_APEX if apex else BY_TORCH,
    )  # fmt: skip


@pytest.fixture
def found(tmp_path: Path) -> Callable[[str], list[Finding]]:
    """Lints a program that is a file of a project."""
    (tmp_path / ".git").mkdir()

    def lint(text: str) -> list[Finding]:
        file = tmp_path / "train.py"
        file.write_text(text, "utf-8")
        return [each for each in check(text, str(file)) if each.code == "AMP413"]

    return lint


@pytest.mark.parametrize("library", [FVCORE, DETECTRON])
@pytest.mark.parametrize("apex", [False, True])
def test_the_optimizer_alone(found: Found, library: tuple[str, str], apex: bool) -> None:
    (finding,) = found(text_of(apex=apex, library=library))
    assert finding.confidence is Confidence.LIKELY
    assert finding.message.startswith(f"`{library[1]}` gets the optimizer but not ")


@pytest.mark.parametrize("apex", [False, True])
def test_what_is_added_later(found: Found, apex: bool) -> None:
    optimizer = 'checkpointer.add_checkpointable("optimizer", optimizer)'
    scaler = "amp" if apex else "scaler"
    assert found(text_of("save_to_disk=True", apex=apex, more=optimizer))
    assert not found(text_of(apex=apex, more=f'checkpointer.add_checkpointable("scaler", {scaler})'))
    assert not found(text_of("save_to_disk=True", apex=apex))


@pytest.mark.parametrize(("apex", "given"), [(False, f"{BOTH}, scaler=scaler"), (True, f"{BOTH}, amp=amp")])
def test_the_scaler_too(found: Found, apex: bool, given: str) -> None:
    assert not found(text_of(given, apex=apex))


@pytest.mark.parametrize("load", ['resume_or_load("m.pth", resume=False)', 'load("m.pth", checkpointables=[])'])
def test_only_the_model_is_loaded(found: Found, load: str) -> None:
    assert not found(text_of(apex=True, load=load))
    assert all(each.confidence is Confidence.SUSPICION for each in found(text_of(apex=False, load=load)))


@pytest.mark.parametrize("level", ['"O0"', '"O3"'])
def test_levels_of_apex_without_a_scale_that_changes(found: Found, level: str) -> None:
    assert not found(text_of(apex=True, level=level))


def test_apex_whose_state_is_saved_by_itself(found: Found) -> None:
    saved = 'checkpointer.save("amp", amp=amp.state_dict())'
    assert not found(text_of(apex=True, more=saved))


def test_apex_whose_state_another_file_saves(found: Found, tmp_path: Path) -> None:
    other = "import torch\nfrom apex import amp\n\n\ndef keep(path):\n    torch.save({state}, path)\n"
    text = text_of(apex=True).replace("import torch\n", "import torch\nimport other\n", 1)
    (tmp_path / "other.py").write_text(other.format(state="None"), "utf-8")
    assert found(text)
    (tmp_path / "other.py").write_text(other.format(state="amp.state_dict()"), "utf-8")
    assert not found(text)
