"""autocast's `device_type`: devices of tensors, and names that are the old class only where the new one is missing."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings

CODES = frozenset({"AMP202", "AMP204"})


def found(text: str) -> list[Finding]:
    return check(text, "program.py", Settings(CODES, isolated=True, suspicions=True))


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
