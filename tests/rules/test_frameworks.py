"""AMP6: what accelerate, Lightning and transformers are told, in the forms that fixtures don't have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import check, fix, make_settings
from amplint.base.findings import Confidence, Finding, Severity
from amplint.config.settings import Settings


def found(text: str, code: str, **targets: str) -> list[Finding]:
    return check(text, settings=Settings(frozenset({code}), isolated=True, targets=tuple(targets.items())))


def fixed(text: str, code: str, *, unsafe: bool = False) -> str:
    return fix(text, settings=Settings(frozenset({code}), isolated=True), unsafe=unsafe)


# --- AMP601 ---------------------------------------------------------------------------------------------------------

STEP = """\
import os
from engines import Engine
from accelerate import Accelerator
from torch.nn.utils import clip_grad_norm_

def main(args, model, optimizer, loader, accelerator=None):
    accelerator = {made}
    for batch in loader:
        loss = model(batch)
        accelerator.backward(loss)
        {clip}
        optimizer.step()
        optimizer.zero_grad()
"""
CLIP = "clip_grad_norm_(model.parameters(), 1.0)"


def step(clip: str = CLIP, made: str = 'Accelerator(mixed_precision="fp16")') -> str:
    return STEP.format(clip=clip, made=made)


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ('Accelerator(mixed_precision="fp16")', Severity.ERROR),
        ('Accelerator(mixed_precision="fp16" if args.half else "no")', Severity.ERROR),
        ("Accelerator()", Severity.WARNING),
        ("Accelerator(mixed_precision=args.precision)", Severity.WARNING),
        ('Accelerator(mixed_precision=os.environ.get("PRECISION"))', Severity.WARNING),
        ("Accelerator(**args.accelerate)", Severity.WARNING),
        ('Accelerator(mixed_precision="bf16")', None),
        ('Accelerator(mixed_precision="bf16" if args.half else "no")', None),
        ("Accelerator(deepspeed_plugin=args.plugin)", None),
        ('Accelerator(mixed_precision="fp16", cpu=True)', None),
        ("Engine()", None),  # another library's
    ],
)
def test_how_sure_it_is_that_accelerate_scales(made: str, severity: Severity | None) -> None:
    assert [each.severity for each in found(step(made=made), "AMP601")] == ([severity] if severity else [])


@pytest.mark.parametrize(
    "clip",
    [
        "if accelerator.distributed_type != 'DEEPSPEED':\n            " + CLIP,
        "if not args.fp16:\n            " + CLIP,
        "clip_grad_norm_(model.parameters(), accelerator.scaler.get_scale())",
        "loss.backward()\n        " + CLIP,
        "optimizer.step()\n        " + CLIP,
        "unscale_them(optimizer)\n        " + CLIP,
        "norm = clip_grad_norm_(model.parameters(), float('inf'))",
    ],
)
def test_what_may_be_right(clip: str) -> None:
    assert not found(step(clip), "AMP601")


@pytest.mark.parametrize(
    ("clip", "withheld"),
    [
        ("clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)", "has no argument `error_if_nonfinite`"),
        ("clip_grad_norm_(*args.clip)", "whether the Accelerator's clip has these arguments"),
        (
            CLIP + "\n        if args.last:\n            break\n        loss.backward()",
            "can't tell whether each clip has one step",
        ),
    ],
)
def test_a_clip_that_accelerate_can_t_take(clip: str, withheld: str) -> None:
    (finding,) = found(step(clip), "AMP601")
    assert withheld in (finding.withheld or "")


@pytest.mark.parametrize(("between", "count"), [("pass", 1), ("self.step_generator()", 0), ("step_it(model)", 0)])
def test_a_second_clip_behind_what_may_step(between: str, count: int) -> None:
    own = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"
    assert len(found(step(f"{own}\n        {between}\n        {own}"), "AMP601")) == count


HANDED_IN = """\
import torch
{imports}

class Loop:
    def __init__(self, model, optimizer, accelerator):
        self.accelerator = {made}
        self.model, self.optimizer = {prepared}

    def step(self, batch):
        loss = self.model(batch)
        self.accelerator.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
"""
PREPARED = "accelerator.prepare(model, optimizer)"


@pytest.mark.parametrize(
    ("imports", "made", "prepared", "wanted"),
    [
        ("", "accelerator", PREPARED, [Confidence.LIKELY]),
        ("", "accelerator", "accelerator.unwrap_model(model), optimizer", [Confidence.LIKELY]),
        ("from transformers import AutoModel", "accelerator", "model, optimizer", [Confidence.LIKELY]),
        ("import diffusers.utils", "accelerator", "model, optimizer", [Confidence.LIKELY]),
        ("from accelerate.utils import set_seed", "accelerator", "model, optimizer", [Confidence.CERTAIN]),
        # What only has the name and a backward may be anything.
        ("", "accelerator", "model, optimizer", []),
        ("from engines import Engine", "Engine(accelerator)", "self.accelerator.prepare(model, optimizer)", []),
        ("", "accelerator", "prepare(model, optimizer)", []),
    ],
)
def test_an_accelerator_that_another_file_makes(
    imports: str, made: str, prepared: str, wanted: list[Confidence]
) -> None:
    text = HANDED_IN.format(imports=imports, made=made, prepared=prepared)
    assert [each.confidence for each in found(text, "AMP601")] == wanted


def test_an_accelerator_from_elsewhere_may_accumulate() -> None:
    text = step().replace('    accelerator = Accelerator(mixed_precision="fp16")\n', "")
    assert fixed(text, "AMP601") == text
    assert (
        "        if accelerator.sync_gradients:\n            accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
        in fixed(text, "AMP601", unsafe=True)
    )


def test_an_accelerator_by_another_name_in_a_helper() -> None:
    text = step(clip="clip(model)") + "\ndef clip(model):\n    clip_grad_norm_(model.parameters(), 1.0)\n"
    (finding,) = found(text, "AMP601")
    assert finding.withheld == "amplint can't tell which name the Accelerator has at the clip; make the change by hand"


def test_no_fix_relies_on_a_norm_that_older_releases_of_accelerate_keep() -> None:
    text = step(clip=f"norm = {CLIP}")
    (finding,) = found(text, "AMP601", accelerate=">=0.14")
    assert finding.fix is not None
    (finding,) = found(text, "AMP601", accelerate=">=0.13.2")
    assert finding.fix is None
    assert "returns the norm only since accelerate 0.14" in (finding.withheld or "")
    (finding,) = found(step(), "AMP601", accelerate=">=0.10")  # of which nothing else is used
    assert finding.fix is not None


def test_no_fix_relies_on_micro_steps_that_older_releases_of_accelerate_do_not_tell() -> None:
    text = step().replace('    accelerator = Accelerator(mixed_precision="fp16")\n', "")
    (finding,) = found(text, "AMP601", accelerate=">=0.11")
    assert finding.fix is not None
    (finding,) = found(text, "AMP601", accelerate="0.10")
    assert "exists only since accelerate 0.11" in (finding.withheld or "")


EARLY = """\
from accelerate import Accelerator
from torch.nn.utils import clip_grad_norm_

def main(args, model, optimizer, second_optimizer, loader):
    accelerator = {made}
    model, optimizer = accelerator.prepare(model, optimizer)
    for i, batch in enumerate(loader):
        {first}
        loss = model(batch)
        {clip}
        accelerator.backward(loss)
        {last}
"""


@pytest.mark.parametrize(
    ("first", "clip", "last", "says"),
    [
        ("optimizer.zero_grad()", CLIP, "optimizer.step()", "does not clip the gradients of this step"),
        ("pass", CLIP, "optimizer.step(); optimizer.zero_grad()", "does not clip the gradients of this step"),
        ("pass", CLIP, "optimizer.step(); model.zero_grad()", "does not clip the gradients of this step"),
        ("pass", CLIP + "; optimizer.zero_grad()", "optimizer.step()", "does not clip the gradients of this step"),
        (
            "pass",
            f"if args.clip: {CLIP}",
            "optimizer.step(); optimizer.zero_grad()",
            "does not clip the gradients of this step",
        ),
        ("optimizer.zero_grad()", f"accelerator.{CLIP}", "optimizer.step()", "AssertionError"),
        # What it clips is stepped with, or never cleared, or only every k-th time.
        ("pass", CLIP + "; optimizer.step(); optimizer.zero_grad()", "pass", None),
        ("pass", CLIP, "optimizer.step()", None),
        ("pass", CLIP, "if i % 4 == 3: optimizer.step(); optimizer.zero_grad()", None),
        # Another loss's share, or somebody may have made gradients.
        ("accelerator.backward(model.penalty())", f"accelerator.unscale_gradients(); {CLIP}", "optimizer.step()", None),
        ("optimizer.zero_grad()", f"args.engine.run(optimizer); {CLIP}", "optimizer.step()", None),
        ("pass", CLIP, "second_optimizer.step(); optimizer.step(); model.zero_grad()", None),
        # It clips in time, too; or how it trains decides.
        ("optimizer.zero_grad()", CLIP, f"accelerator.{CLIP}; optimizer.step()", None),
        ("optimizer.zero_grad()", f"if args.deepspeed: {CLIP}", "optimizer.step()", None),
    ],
)
def test_clips_before_the_backward_that_makes_the_gradients(first: str, clip: str, last: str, says: str | None) -> None:
    """Going round the loop, between the step before and this backward, all gradients are cleared."""
    block = first, clip.replace(": ", ":\n            "), last
    made = 'Accelerator(mixed_precision="fp16")'
    text = EARLY.format(made=made, **dict(zip(("first", "clip", "last"), block, strict=True)))
    findings = [each for each in found(text, "AMP601") if "before" in each.message]
    assert [each.severity for each in findings] == ([Severity.ERROR] if says else [])
    assert says is None or says in findings[0].message


def test_a_clip_before_the_backward_is_wrong_in_any_precision_that_may_be_half() -> None:
    """It clips nothing in float32 either; what says that it is bfloat16 alone leaves it to others."""
    step = {"first": "optimizer.zero_grad()", "clip": CLIP, "last": "optimizer.step()"}
    (finding,) = found(EARLY.format(made="Accelerator()", **step), "AMP601")
    assert finding.severity is Severity.ERROR
    assert "float16" not in finding.message
    assert not found(EARLY.format(made='Accelerator(mixed_precision="bf16")', **step), "AMP601")


def test_a_clip_before_the_backward_waits_for_the_last_micro_step_where_there_may_be_more() -> None:
    """The fix moves it behind the backward, as the Accelerator's own."""
    step = {"first": "optimizer.zero_grad()", "clip": CLIP, "last": "optimizer.step()"}
    text = EARLY.format(made='Accelerator(mixed_precision="fp16")', **step)
    assert f"        accelerator.backward(loss)\n        accelerator.{CLIP}\n" in fixed(text, "AMP601", unsafe=True)
    text = text.replace("loss = model(batch)", "loss = accelerator.accumulate(model) and model(batch)")
    (finding,) = found(text, "AMP601")
    assert "does not clip the last gradients of the step" in finding.message
    after = f"        if accelerator.sync_gradients:\n            accelerator.{CLIP}\n"
    assert f"        accelerator.backward(loss)\n{after}" in fixed(text, "AMP601", unsafe=True)


# --- AMP602 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "trainer"),
    [
        ("import lightning as L", "L.Trainer"),
        ("import lightning", "lightning.pytorch.Trainer"),
        ("import lightning.pytorch as pl", "pl.Trainer"),
        ("from lightning.pytorch import Trainer", "Trainer"),
        ("import pytorch_lightning as pl", "pl.Trainer"),
        ("from pytorch_lightning import Trainer as T", "T"),
        ("from pytorch_lightning.trainer.trainer import Trainer", "Trainer"),
        ("try:\n    import lightning as pl\nexcept ImportError:\n    import pytorch_lightning as pl", "pl.Trainer"),
        ("from lightning_fabric import Fabric", "Fabric"),
        ("from lightning.fabric import Fabric", "Fabric"),
    ],
)
def test_lightning_is_known_by_whichever_name(imports: str, trainer: str) -> None:
    # The byte search asks for the name and its bracket.
    text = f"{imports}\nTrainer() if 0 else None\ntrainer = {trainer}(precision=16)\n"
    assert fixed(text, "AMP602") == text.replace("16", '"16-mixed"')


@pytest.mark.parametrize(
    ("lightning", "count", "withheld"),
    [
        (">=2.0", 1, None),
        (">=1.9", 1, "'16-mixed' needs lightning 2.0, and the project allows older releases (targets.lightning >=1.9)"),
        ("<2", 0, None),
    ],
)
def test_the_project_s_lightning_decides(lightning: str, count: int, withheld: str | None) -> None:
    findings = found("import lightning as L\nL.Trainer(precision=16)\n", "AMP602", lightning=lightning)
    assert [each.withheld for each in findings] == [withheld] * count


def test_a_removed_argument_in_a_project_for_both() -> None:
    text = "import lightning as L\nL.Trainer(gpus=1, amp_backend='native')\n"
    assert not found(text, "AMP602")
    assert [each.severity for each in found(text, "AMP602", lightning="1.9")] == [Severity.WARNING]
    assert [each.severity for each in found(text, "AMP602", lightning="2.1")] == [Severity.ERROR]


def test_an_argument_with_a_comment_is_not_taken_out() -> None:
    text = "import lightning as L\nL.Trainer(\n    devices=1,  # one\n    amp_backend='native',\n)\n"
    assert found(text, "AMP602")
    assert fixed(text, "AMP602") == text


KNOWN = (16, 32, 64, "16", "32", "64", "bf16", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true")
RENAMED = (16, "16", "bf16")


@given(st.one_of(st.integers(), st.text(max_size=6), st.sampled_from(KNOWN), st.none(), st.booleans(), st.floats()))
def test_each_literal_is_one_of_lightning_s_or_told(precision: object) -> None:
    text = f"import lightning as L\nL.Trainer(precision={precision!r})\n"
    findings = found(text, "AMP602")
    judged = type(precision) in (int, str) and not str(precision).startswith("transformer-engine")
    if not judged or (precision in KNOWN and precision not in RENAMED):
        assert not findings
    else:
        expected = Severity.WARNING if precision in RENAMED else Severity.ERROR
        assert [each.severity for each in findings] == [expected]


# --- AMP603 ---------------------------------------------------------------------------------------------------------

ARGUMENTS = "from transformers import TrainingArguments\nTrainingArguments('out', fp16={fp16}, {more})\n"


@pytest.mark.parametrize(
    ("transformers", "severities"),
    [
        (">=5.1", [Severity.ERROR, Severity.ERROR]),
        (">=4.40", [Severity.WARNING, Severity.WARNING]),
        (">=4.40,<5", [Severity.WARNING]),  # fp16_backend
        (">=4.10,<5", []),
        ("4.1", [Severity.WARNING, Severity.WARNING]),
    ],
)
def test_the_project_s_transformers_decides(transformers: str, severities: list[Severity]) -> None:
    text = ARGUMENTS.format(fp16="True", more="fp16_opt_level='O1', fp16_backend='amp'")
    assert [each.severity for each in found(text, "AMP603", transformers=transformers)] == severities


@pytest.mark.parametrize(
    ("fp16", "more", "count"),
    [
        ("True", "bf16=True", 1),
        ("half", "bf16=half", 1),
        ("not half", "bf16=half", 0),
        ("True", "bf16=half", 0),
        ("False", "bf16=False", 0),
        ("True", "fp16_full_eval=True, bf16_full_eval=True", 1),
        ("True", "**more", 0),
        ("True", "overwrite_output_dir=True, fp16_opt_level='O1'", 0),
    ],
)
def test_flags_that_exclude_each_other(fp16: str, more: str, count: int) -> None:
    assert len(found(ARGUMENTS.format(fp16=fp16, more=more), "AMP603")) == count


def test_a_flag_that_is_off_by_a_constant() -> None:
    assert not found("half = False\n" + ARGUMENTS.format(fp16="half", more="bf16=half"), "AMP603")


# --- regions of frameworks ------------------------------------------------------------------------------------------

REGION = """\
from accelerate import Accelerator
from lightning.fabric import Fabric

def main(args, model, optimizer, loader, handed):
    {made}
    for batch in loader:
        with it.autocast():
            loss = model(batch).sum()
            it.backward(loss)
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "confidence"),
    [
        ('it = Accelerator(mixed_precision="fp16")', Confidence.CERTAIN),
        ('it = Accelerator(mixed_precision="bf16" if args.half else "no")', Confidence.CERTAIN),
        ("it = Accelerator(mixed_precision=args.precision)", Confidence.CERTAIN),
        ("it = Accelerator()", Confidence.LIKELY),  # `accelerate launch` may choose
        ('it = Accelerator(mixed_precision="no")', None),
        ('it = Fabric(precision="16-mixed")', Confidence.CERTAIN),
        ("it = Fabric(precision=args.precision)", Confidence.CERTAIN),
        ("it = Fabric(**args.fabric)", Confidence.LIKELY),
        ("it = Fabric()", None),
        ("it = Fabric(precision=32)", None),
        ('it = Fabric(precision="bf16-true")', None),
        ("it = handed", None),  # whatever that is
        ('it = Accelerator(mixed_precision="fp16") if args.half else handed', None),
    ],
)
def test_regions_of_accelerate_and_fabric_are_open_unless_no_precision_is_half(
    made: str, confidence: Confidence | None
) -> None:
    """Their backward passes and the steps of optimizers in them are found, if that is sure or likely."""
    text = REGION.format(made=made)
    for code in ("AMP301", "AMP302"):
        assert [each.confidence for each in found(text, code)] == ([confidence] if confidence else [])


def test_an_accelerator_that_another_file_makes_may_open_a_region() -> None:
    """It is one by its name, and by what is done with it."""
    text = REGION.format(made="accelerator = handed.accelerator; accelerator.wait_for_everyone()")
    text = text.replace("it.", "accelerator.").partition("\n\n")[2]
    assert [each.confidence for each in found(text, "AMP301")] == [Confidence.LIKELY]


def test_nothing_else_is_said_of_a_region_whose_dtype_is_not_in_sight() -> None:
    """It is on for some device in some dtype, or off."""
    text = REGION.format(made="it = Accelerator(mixed_precision=args.precision)")
    text = text.replace("            it.", "        it.")
    text = text.replace("            optimizer", "        optimizer")
    text = text.replace("model(batch).sum()", "(model(batch) * 1e9).sum() + 1e-9")
    text += "        print(torch.nn.functional.mse_loss(model(batch), batch))\n"
    assert not check("import torch\n" + text, settings=make_settings(select=["ALL"]))


PLUGIN = """\
import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin


def train(model, loader, optimizer):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_plugin=GradientAccumulationPlugin(STEPS))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("steps", "found"), [("num_steps=4", ["AMP601"]), ("4", ["AMP601"]), ("num_steps=1", [])])
def test_micro_steps_of_a_plugin(steps: str, found: list[str]) -> None:
    assert [each.code for each in check(PLUGIN.replace("STEPS", steps))] == found
