"""autocast's `device_type`: devices of tensors, and names that are the old class only where the new one is missing."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.base.findings import Finding
from amplint.config.settings import Settings

CODES = frozenset({"AMP202", "AMP204"})
SETTINGS = Settings(CODES, isolated=True, suspicions=True)


def found(text: str) -> list[Finding]:
    return check(text, "program.py", SETTINGS)


USED = """\
import torch

def embed(model, x, settings):
    {before}
    with torch.autocast({device}):
        return model(x)
"""
FORWARD = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, mask=None):
        with torch.autocast({device}, enabled=False):
            return self.net(x)
"""


@pytest.mark.parametrize("device", ["x.device", "device_type=x.device"])
@pytest.mark.parametrize("before", ["rows = x.shape[0]", "x = x.unsqueeze(0)", "loss = x.mean()", "n = x.size(0)"])
def test_the_device_of_what_is_used_as_a_tensor_is_likely_an_object(before: str, device: str) -> None:
    (finding,) = found(USED.format(before=before, device=device))
    assert (finding.code, finding.confidence, finding.severity) == ("AMP204", "likely", "warning")
    assert finding.fix is not None
    assert finding.fix.applicability == "unsafe"


@pytest.mark.parametrize("device", ["x.device", "mask.device"])
def test_so_is_that_of_what_a_forward_is_given(device: str) -> None:
    assert [each.confidence for each in found(FORWARD.format(device=device))] == ["likely"]


def test_a_variable_for_it_is_followed() -> None:
    assert [each.code for each in found(USED.format(before="d = x.device; n = x.shape", device="d"))] == ["AMP204"]


@pytest.mark.parametrize(
    ("before", "device"),
    [
        ("rows = x.shape[0]", "x.device.type"),
        ("rows = x.shape[0]", "settings.device"),
        ("pass", "x.device"),  # it may be anything that has a device
        ("pass", "model.device"),
        ("rows = x.shape[0]", "'cuda' if x.device.type == 'cuda' else 'cpu'"),
    ],
)
def test_what_need_not_be_an_object_is_silent(before: str, device: str) -> None:
    assert not found(USED.format(before=before, device=device))


def test_the_device_of_the_model_itself_is_silent() -> None:
    assert not found(FORWARD.format(device="self.device"))


IMPORTS = """\
import torch

try:
    from {first} import {names}
except {error}:
    from {second} import {names}

def train(model, x, use_amp):
    with autocast({given}):
        return model(x)
"""
NEW, OLD = "torch.amp", "torch.cuda.amp"


def imported(
    given: str, first: str = NEW, second: str = OLD, names: str = "autocast", error: str = "ImportError"
) -> str:
    return IMPORTS.format(given=given, first=first, second=second, names=names, error=error)


@pytest.mark.parametrize("given", ["", "enabled=use_amp", "dtype=torch.float16", "True", "torch.float16"])
def test_the_new_class_of_a_fallback_needs_its_device(given: str) -> None:
    (finding,) = found(imported(given))
    assert (finding.code, finding.severity, finding.fix) == ("AMP202", "error", None)


@pytest.mark.parametrize("error", ["(ImportError, AttributeError)", "Exception", "ModuleNotFoundError"])
def test_whatever_is_caught_and_imported_beside_it(error: str) -> None:
    assert [each.code for each in found(imported("", names="GradScaler, autocast", error=error))] == ["AMP202"]


@pytest.mark.parametrize(
    "text",
    [
        imported('"cuda"'),
        imported('device_type="cuda", enabled=use_amp'),
        imported("**use_amp"),
        imported("", first=OLD, second=NEW),  # the old one is always there
        imported("", first=OLD, second="library.amp"),
        imported("", second="library.amp"),
    ],
)
def test_what_has_a_device_or_is_another_class_is_silent(text: str) -> None:
    assert not found(text)


ONE_DEVICE = """\
import torch

def train(model, loader, rank, args):
    kind = {given}
    {other}
    for x in loader:
        with torch.autocast(kind, dtype=torch.bfloat16):
            loss = model(x).mean()
        loss.backward()
    with torch.no_grad(), torch.autocast(device_type=kind, dtype=torch.bfloat16):
        model(loader[0])
"""
WITH_INDEX = ['"cuda:0"', 'f"cuda:{rank}"', '"cuda:0" if args.cuda else "cpu"', '"cuda:" + str(rank)']


@pytest.mark.parametrize("given", WITH_INDEX)
def test_one_variable_with_an_index_is_one_finding_mended_where_it_is_assigned(given: str) -> None:
    text = ONE_DEVICE.format(given=given, other="pass")
    (finding,) = found(text)
    assert finding.location.row == 7
    assert "AMP204 on line 10" in finding.message
    assert "torch before 2.4 raises RuntimeError" in finding.message
    mended = fix(text, "program.py", SETTINGS)
    assert mended.count("kind") == 3
    assert 'kind = "cuda"' in mended
    assert found(mended) == []


@pytest.mark.parametrize("given", WITH_INDEX)
@pytest.mark.parametrize("other", ["model.to(kind)", "args.kinds = [kind]", "print(kind)"])
def test_a_variable_that_is_used_otherwise_keeps_its_index(given: str, other: str) -> None:
    text = ONE_DEVICE.format(given=given, other=other)
    (finding,) = found(text)
    assert finding.fix is not None
    assert [each.content for each in finding.fix.edits] == ["torch.device(kind).type"] * 2
    assert found(fix(text, "program.py", SETTINGS)) == []


def test_two_variables_are_two_findings() -> None:
    text = ONE_DEVICE.format(given='"cuda:0"', other='second = "cuda:1"').replace("device_type=kind", "second")
    assert [each.location.row for each in found(text)] == [7, 10]


def test_an_f_string_is_shown_as_it_is_written() -> None:
    (finding,) = found(ONE_DEVICE.format(given='f"cuda:{rank}"', other="pass"))
    assert 'can be `f"cuda:{rank}"` from line 4' in finding.message


@pytest.mark.parametrize(
    ("target", "dtype", "confidence", "said"),
    [
        ("2.3", "torch.bfloat16", "certain", "torch before 2.4 raises RuntimeError"),
        (
            "2.6",
            "torch.float32",
            "certain",
            "in a dtype other than float16 and bfloat16, the region warns and is disabled",
        ),
        ("2.6", "torch.float16", "suspicion", "on a machine without CUDA, the region is not disabled"),
        (None, "torch.float16", "likely", "torch before 2.4 raises RuntimeError"),
    ],
)
def test_what_an_index_does_depends_on_the_release_and_the_dtype(
    target: str | None, dtype: str, confidence: str, said: str
) -> None:
    text = ONE_DEVICE.format(given='"cuda:0"', other="pass").replace("torch.bfloat16", dtype)
    (finding,) = check(text, "program.py", SETTINGS._replace(target_torch=target))
    assert finding.confidence == confidence
    assert said in finding.message
