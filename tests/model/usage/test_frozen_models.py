"""Which models a file freezes."""

from __future__ import annotations

import pytest

from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.usage.frozen_models import frozen, frozen_at
from amplint.sources.source import Source
from amplint.verify.program.files import lowered

LOOP = "model = make()\nfor p in model.parameters():\n    "


@pytest.mark.parametrize(
    ("text", "is_frozen"),
    [
        ("model = make().requires_grad_(False)", True),
        ("model = make()\nmodel.requires_grad_(False)", True),
        ("model = make()\nmodel.requires_grad_(True)", False),
        ("model = make()\nfreeze(model)", True),
        ("model = make()\nset_requires_grad(model, False)", True),
        (LOOP + "p.requires_grad = False", True),
        (LOOP + "p.requires_grad = train", True),
        (LOOP + "p.requires_grad_(False)", True),
        (LOOP + "setattr(p, 'requires_grad', False)", True),
        (LOOP + "p.requires_grad = True", False),
        (LOOP + "count += p.numel() if p.requires_grad else 0", False),
    ],
)
def test_a_model_is_frozen_where_its_weights_get_no_gradients(text: str, is_frozen: bool) -> None:
    assert bool(frozen(lowered(Source("train.py", text + "\n")))) is is_frozen


def test_models_are_named_alike_whichever_call_is_followed_first() -> None:
    text = "def step(model, loss):\n    model.requires_grad_(False)\n    loss.backward()\n"
    apart, followed = (lowered(Source("train.py", text)) for _ in range(2))
    (model,) = frozen(apart)
    with objects(followed).within(CallContext(aliases={model: "0:critic"})):
        found = frozen_at(followed, followed.whole.called("backward")[0]), frozen(followed)
    assert found == ({model}, {model})
