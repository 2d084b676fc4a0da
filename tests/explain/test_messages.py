"""The table of messages is held against torch: its sources, and what it prints when programs do wrong."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.utils import parametrize

from amplint.explain.log_reader import place_of
from amplint.explain.messages import Text, known, leading_to, plain
from amplint.explain.patterns import literals
from amplint.explain.search import find
from amplint.guide.rule_pages import proofs
from amplint.registry import all_rules
from tests import ROOT
from tests.explaining import ids, registry
from tests.explaining.programs import PROGRAMS, programs_of_dtypes, programs_of_regions
from tests.explaining.sources import LIBRARIES, in_binary, prints, torch_file

# What a program on a CPU can't show: other libraries, several processes, and other devices.
NOT_SHOWN = {
    "quantized-compute-dtype",
    "xla-mixed-types",
    "float32-demanded",
    "scale-at-minimum",
    "amp-checks",
    "scale-collapses",
    "float32-on-the-cpu",
    "spconv-without-kernel",
    "scheduler-not-stepped",
    "overflow-skipped",
    "transformers-fp16-and-bf16",
    "transformers-removed-arguments",
    "fp16-needs-an-accelerator",
    "lightning-precision",
    "lightning-refuses-scaler",
    "rnn-in-autocast",
    "clipping-with-fused-optimizer",
    "prepared-model-pickled",
    "apex-misused",
    "deepspeed-fp16-and-bf16",
    "flash-attention-dtype",
    "silently-cast",
    "fsdp-mixed-dtypes",
    "cuda-without-bfloat16",
    "mps-without-bfloat16",
    "unscale-without-kernel",
    "device-without-float64",
    "mps-dtype-mismatch",
    "deepspeed-precision-mismatch",
    "deepspeed-bf16-options",
    "accelerate-unknown-precision",
    "upcast-by-fsdp",
    "graph-with-autocast-cache",
    "fused-optimizer-with-scaler",
    "model-cast-by-hand",
    "collective-without-bfloat16",
    "grid-sample-dtype",
    "cpu-autocast-in-bfloat16-only",
    "apex-scale-zero",
    "collective-dtypes",
    "composer-precision",
}


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What the programs print, by their names."""
    command = [sys.executable, "-m", "tests.explaining.programs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


class TestTheTable:
    def test_ids_are_unique_and_rules_exist(self) -> None:
        names = [each.id for each in known()]
        assert len(names) == len(set(names)) > 60
        for message in known():
            assert message.causes, message.id
            assert message.says or message.questions, message.id
            assert set(message.codes) <= all_rules().keys(), message.id

    def test_no_wording_stands_twice(self) -> None:
        texts = [text.text for message in known() for text in message.says]
        assert len(texts) == len(set(texts))

    @pytest.mark.parametrize("message", known(), ids=lambda each: each.id)
    def test_questions_lead_to_their_symptom(self, message: Any) -> None:
        assert bool(message.questions) == bool(message.when), message.id
        for question in message.questions:
            assert ids(question, asked=True) == [message.id], question

    @pytest.mark.parametrize("message", known(), ids=lambda each: each.id)
    def test_changes_are_programs_before_and_after(self, message: Any) -> None:
        for cause in message.causes:
            assert all(line[:1] in (" ", "-", "+") for line in cause.change.split("\n") if line)
            for code in (cause.before, cause.after):
                ast.parse(textwrap.dedent(_whole(code)))
            assert not cause.change or cause.before != cause.after

    def test_every_origin_is_known(self) -> None:
        origins = {text.origin for message in known() for text in message.says if not text.origin.startswith("torch/")}
        assert origins <= {"libtorch", "cuda", "python", "earlier", "apex", "scripts", *LIBRARIES}

    def test_what_torch_prints_is_in_torch(self, printed: dict[str, str]) -> None:
        """Each wording of this release's is in its sources, or a program has made it print it."""
        shown = {each for text in printed.values() for hit in find(text).hits if (each := hit.text)}
        for text in (each for message in known() for each in message.says):
            if text.origin.startswith("torch/"):
                assert text in shown or prints(text.text, torch_file(text.origin)), text
            elif text.origin == "libtorch":
                assert text in shown or all(map(in_binary, literals(text.text))), text

    def test_what_only_earlier_releases_print_is_not_in_torch(self) -> None:
        files = ["torch/amp/grad_scaler.py", "torch/amp/autocast_mode.py", "torch/cuda/amp/autocast_mode.py"]
        texts = [each for file in files for each in torch_file(file)]
        for text in (each for message in known() for each in message.says if each.origin == "earlier"):
            assert not prints(text.text, texts), text
            assert any(number.isdigit() for number in text.releases.split("torch ")[1]), text

    def test_every_message_that_a_cpu_can_show_has_a_program(self) -> None:
        assert {each.id for each in known() if each.says} - {message for message, _ in PROGRAMS} == NOT_SHOWN


def _whole(code: str) -> str:
    """Code as a program: a statement that ends in a colon gets a body."""
    return f"{code}\n{' ' * 99}..." if code.rstrip().endswith(":") else code


# A message that is only printed has no traceback, and in that of a simulated device there are amplint's own frames.
_WITH_A_PLACE = [
    each for _, each in PROGRAMS if each not in (programs_of_dtypes.loss_nan, programs_of_regions.bce_on_cuda)
]


class TestWhatTorchPrints:
    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    def test_leads_to_its_message_and_to_no_other(
        self, printed: dict[str, str], message: str, program: Callable[[], object]
    ) -> None:
        assert ids(printed[program.__name__]) == [message]

    @pytest.mark.parametrize("program", _WITH_A_PLACE)
    def test_comes_from_the_programs_own_line(self, printed: dict[str, str], program: Callable[[], object]) -> None:
        first = program.__code__.co_firstlineno
        step = registry.Step.backward.__code__.co_filename
        (hit,) = find(printed[program.__name__]).hits
        place = place_of(list(hit.stack))
        assert place is not None
        assert place.path in (program.__code__.co_filename, step)
        # `Step.backward` raises for some of them.
        assert first < place.row < first + 25 or place.source == "self.scaler.scale(loss).backward()"

    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    @pytest.mark.parametrize("width", [40, 79])
    def test_wrapped_anywhere(
        self, printed: dict[str, str], message: str, program: Callable[[], object], width: int
    ) -> None:
        lines = printed[program.__name__].splitlines()
        cut = [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]
        assert ids("\n".join(cut)) == [message]

    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    def test_alone(self, printed: dict[str, str], message: str, program: Callable[[], object]) -> None:
        """The last line, as one pastes it; for a warning, the line that has the message."""
        lines = printed[program.__name__].splitlines()
        said = [line for line in lines if re.match(r"(\S+:\d+: )?[\w.]+(Error|Warning): |Loss", line)]
        assert message in ids(said[-1])

    # What fixtures say themselves, and what is said of many other things too.
    NOT_OURS = (
        "diverge",
        "gradient is not finite",
        "gradients are not finite",
        "gradients explode",
        "exploding gradients",
        "gradients exploded",
        "bad gradient",
        "different weights",
        "it does not learn",
        "name 'clip_grad' is not defined",
        "local variable 'scaler'",
        "state_dict to be dict-like",
        "Can't call numpy() on Tensor that requires grad",
        "'forward'",
        "has no attribute 'scale'",
        "has no attribute 'scaler'",
        "cannot convert float NaN to integer",
        "evaluation gives NaN",
        "of the weights have changed",
    )

    @pytest.mark.parametrize("code", proofs())
    def test_what_the_fixtures_raise_leads_to_their_rule(self, code: str) -> None:
        for proof in proofs()[code]:
            kind, _, said = proof["before"].partition(": ")
            if said and kind.endswith(("Error", "Warning")) and not any(each in said for each in self.NOT_OURS):
                # Of several warnings a proof quotes the first sentences only, as a question would.
                parts = re.split(r"; (?=\w+Warning: )", proof["before"])
                hits = [hit for part in parts for hit in find(part, asked=len(parts) > 1).hits]
                assert any(code in hit.message.codes for hit in hits), proof["before"]


class TestWhatTheTableClaims:
    def test_a_skipped_step_leaves_the_statistics_of_its_overflow(self) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        batch = torch.randn(2, 3, 8, 8)

        def step(x: torch.Tensor) -> None:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(x).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        step(batch)
        assert scaler.get_scale() == 1024
        step(torch.tensor([2e5, -2e5, 2e5]).reshape(1, 3, 1, 1).expand(2, 3, 8, 8))
        assert scaler.get_scale() == 512
        step(batch)
        assert scaler.get_scale() == 512
        assert all(each.isfinite().all() for each in model.parameters())
        assert model(batch).isfinite().all()
        assert not model.eval()(batch).isfinite().all()

    @pytest.mark.parametrize(
        ("dtype", "moves"), [(torch.bfloat16, False), (torch.float16, False), (torch.float32, True)]
    )
    def test_an_average_in_half_stays_where_it_is(self, dtype: torch.dtype, moves: bool) -> None:
        average, weight = torch.full((4,), 0.9, dtype=dtype), torch.ones(4, dtype=dtype)
        for _ in range(1000):
            average.lerp_(weight, 0.001)
        assert (average > 0.92).all() == moves

    def test_parameters_that_were_frozen_in_the_first_forward_of_fsdp2(self) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
            layer = fully_shard(nn.Linear(4, 2).requires_grad_(False), mp_policy=half)
            layer(torch.ones(3, 4))
            layer.requires_grad_(True)
            with pytest.raises(RuntimeError) as error:
                layer(torch.ones(3, 4)).float().sum().backward()
        finally:
            dist.destroy_process_group()
        (hit,) = find(f"frozen parameters: RuntimeError: {error.value}", asked=True).hits
        assert "while parameters were frozen" in hit.message.causes[0].why

    def test_a_parametrization_may_return_the_weights_dtype(self) -> None:
        class Cast(programs_of_dtypes.LowRank):
            def forward(self, weight: torch.Tensor) -> torch.Tensor:
                return super().forward(weight).to(weight.dtype)

        with torch.autocast("cpu"):
            layer = parametrize.register_parametrization(nn.Linear(4, 4), "weight", Cast())
        assert layer.weight.dtype is torch.float32


def test_the_backward_of_a_compiled_function_has_the_region_of_its_call() -> None:
    layer = nn.Linear(64, 64)
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    weights = torch.randn(4, 64)

    def inner(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return x.float() @ layer.weight.T

    def gradient(of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = of(x)
        return torch.autograd.grad((y * weights).sum(), layer.weight)[0]

    assert not torch.equal(gradient(torch.compile(inner, backend="aot_eager")), gradient(inner))
    torch._dynamo.reset()
    with torch._functorch.config.patch(backward_pass_autocast="off"):
        assert torch.equal(gradient(torch.compile(inner, backend="aot_eager")), gradient(inner))


def test_a_loss_of_two_dtypes_raises_in_the_backward() -> None:
    prediction = torch.randn(3, requires_grad=True)
    loss = nn.functional.huber_loss(prediction.bfloat16(), torch.randn(3))
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    (hit,) = find(f"RuntimeError: {error.value}", asked=True).hits
    assert "a loss got a prediction and a target of two dtypes" in hit.message.causes[0].why


def test_rules_know_their_messages() -> None:
    assert [each.id for each in leading_to("AMP405") if each.says] == ["unscale-twice"]
    assert [each.id for each in leading_to("AMP301") if each.says] == []
    assert "accumulation-with-scaler" in [each.id for each in leading_to("AMP301")]


def test_plain_wordings() -> None:
    assert plain("{start}a {} b '{n}'{end}") == "a ... b '...'"
    assert Text("a", "python", "all").text == "a"
