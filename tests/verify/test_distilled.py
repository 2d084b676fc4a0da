"""Steps that train one model and not another: frozen teachers, adapters, stages, weights of a schedule."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret

HEAD = """
import torch
from torch import nn, optim
from torch.nn import functional as F


def freeze(model):
    for p in model.parameters():
        p.requires_grad_(False)

"""
DISTILLER = """
class Distiller(nn.Module):
    def __init__(self, teacher, student, cfg):
        super().__init__()
        self.teacher, self.student, self.cfg = teacher, student, cfg
        self.adapters = nn.ModuleList([nn.Conv2d(s, t, 1) for s, t in cfg["channels"]])
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x, y):
        with torch.no_grad():
            t_dict, t_logit, _ = self.teacher(x)
        feat_dict, logit, _ = self.student(x)
        loss = self.criterion(logit, y)
        for key, adapter in zip(self.cfg["keys"], self.adapters):
            loss = loss + F.mse_loss(adapter(feat_dict[key]), t_dict[key])
        return loss, logit

    def train_distillation(self, train_loader, test_loader=None, epochs=10, device="cuda"):
        FREEZE
        optimizer = optim.AdamW(OWNED, lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for epoch in range(epochs):
            BEFORE
            for x, y in train_loader:
                with torch.autocast("cuda"):
                    loss, logit = self.forward(x, y)
                    MORE
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                UNSCALE
                nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
"""
UNSCALES, DOESNT = "scaler.unscale_(optimizer)", "pass"


def distilled(
    unscale: str, freeze: str = "pass", owned: str = "self.student.parameters()", before: str = "pass", more: str = ""
) -> Ran:
    text = DISTILLER.replace("FREEZE", freeze).replace("OWNED", owned).replace("BEFORE", before)
    (found,) = interpret(HEAD + text.replace("MORE", more or "pass").replace("UNSCALE", unscale))
    return found


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("unscale", "state"), [(UNSCALES, RIGHT), (DOESNT, WRONG)])
@pytest.mark.parametrize(
    "frozen",
    [
        "for p in self.teacher.parameters():\n            p.requires_grad_(False)",
        "for p in self.teacher.parameters():\n            p.requires_grad = False",
        "for name, p in self.student.named_parameters():\n            if 'head' not in name:\n"
        "                p.requires_grad_(False)",
        "freeze(self.teacher)",
        "self.teacher.requires_grad_(False).eval()",
        "for model in (self.teacher, self.student.stem):\n            freeze(model)",
    ],
)
@pytest.mark.parametrize(
    "owned",
    [
        "self.student.parameters()",
        "[*self.student.parameters(), *self.adapters.parameters()]",
        "filter(lambda p: p.requires_grad, self.student.parameters())",
    ],
)
def test_what_is_frozen_is_not_what_is_trained(frozen: str, owned: str, unscale: str, state: str) -> None:
    found = distilled(unscale, frozen, owned)
    assert (found.judged.state, found.shown) == (state, set() if state == RIGHT else {"gradient"})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("unscale", "state"), [(UNSCALES, RIGHT), (DOESNT, WRONG)])
@pytest.mark.parametrize(
    ("before", "more"),
    [
        ("beta = get_beta(self.cfg, epoch)", "loss = loss + (0.5 * beta) * logit.pow(2).mean()"),
        ("beta = get_beta(self.cfg, epoch)", "loss = loss + beta * penalty(logit)"),
        ("beta, tau = schedule(epoch)", "loss = beta * loss + F.kl_div(logit / tau, logit)"),
        ("prototypes = prototypes_of(train_loader)", "loss = loss + F.mse_loss(logit, prototypes)"),
    ],
)
def test_what_a_loop_is_given_has_no_gradients(before: str, more: str, unscale: str, state: str) -> None:
    found = distilled(unscale, before=before, more=more)
    assert (found.judged.state, found.judged.reason) == (state, "")
    assert "gradient" in found.shown or state == RIGHT


TWO_STAGES = """
class Trainer:
    def __init__(self, teacher, student, bridge, cfg):
        self.teacher, self.student, self.bridge, self.cfg = teacher, student, bridge, cfg

    def train(self, loader, stages):
        opt_a = optim.AdamW(list(self.bridge.parameters()), lr=0.1)
        opt_b = optim.SGD([p for p in self.student.parameters() if p.requires_grad], lr=0.1)
        for stage in range(stages):
            self._bridge_update(loader, opt_a, 2)
            self._student_update(loader, opt_b, 2)

    def _bridge_update(self, loader, optimizer, epochs):
        for m in (self.teacher, self.student):
            m.eval()
            for p in m.parameters():
                p.requires_grad_(False)
        scaler = torch.amp.GradScaler("cuda")
        for epoch in range(epochs):
            beta = get_beta(self.cfg, epoch)
            for x, y in loader:
                with torch.autocast("cuda"):
                    with torch.no_grad():
                        feat_dict, logit, _ = self.student(x)
                        kv = self.teacher.extract(x)
                    z, mu, logvar = self.bridge(feat_dict["feat"], kv)
                    kl = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
                    loss = F.cross_entropy(z, y) + beta * kl
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                UNSCALE
                nn.utils.clip_grad_norm_(filter(lambda p: p.requires_grad, self.bridge.parameters()), 2.0)
                scaler.step(optimizer)
                scaler.update()

    def _student_update(self, loader, optimizer, epochs):
        scaler = torch.amp.GradScaler("cuda")
        for p in self.student.parameters():
            p.requires_grad_(True)
        for epoch in range(epochs):
            tau = get_tau(self.cfg, epoch)
            for x, y in loader:
                with torch.autocast("cuda"):
                    with torch.no_grad():
                        kv = self.teacher.extract(x)
                    feat_dict, logit, _ = self.student(x)
                    loss = F.cross_entropy(logit, y) + 0.1 * F.kl_div(logit / tau, kv) * tau * tau
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
"""


@pytest.mark.parametrize(("unscale", "state"), [(UNSCALES, RIGHT), (DOESNT, WRONG)])
def test_a_stage_that_trains_one_model_before_the_next(unscale: str, state: str) -> None:
    found = {each.step.name: each for each in interpret(HEAD + TWO_STAGES.replace("UNSCALE", unscale))}
    states = {name: each.judged.state for name, each in found.items()}
    assert states == {"Trainer._bridge_update": state, "Trainer._student_update": RIGHT}


def test_a_graph_that_a_step_has_changed_is_still_no_proof() -> None:
    text = """
def train(g, d, opt_g, opt_d, loader):
    for z, x in loader:
        fake = g(z)
        loss_d = d(x).mean() - d(fake.detach()).mean()
        loss_d.backward()
        opt_d.step()
        with torch.autocast("cuda"):
            loss_g = critic(fake, x)
        loss_g.backward()
        opt_g.step()
        hidden = fake
"""
    assert interpret(HEAD + text)[0].judged.state in (RIGHT, UNKNOWN)


SIZED = """
import torch
import torch.nn.functional as F

def total(student, teacher, labels, alpha, temperature):
    task = criterion(student, labels)
    soft = F.softmax(teacher / temperature, dim=1)
    logs = F.log_softmax(student / temperature, dim=1)
    loss = F.kl_div(logs, soft, reduction="sum") / SIZE
    return task + alpha * loss * temperature ** 2, loss.item()

def train(student, teacher, loader, optimizer, scaler, alpha, temperature):
    for batch in loader:
        x, y = batch["image"], batch["label"]
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            made = student(x)
            with torch.no_grad():
                taught = teacher(x)
            loss, told = total(made, taught.detach(), y, alpha, temperature)
        if not torch.isfinite(loss):
            continue
        scaler.scale(loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "size", ["student.shape[0]", "(student.shape[0] * student.shape[2])", "student.size(0)", "student.ndim", "32"]
)
def test_a_loss_that_is_divided_by_a_size_of_an_output(size: str) -> None:
    text = SIZED.replace("SIZE", size)
    (right,) = interpret(text.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    assert right.judged.state == RIGHT
    (wrong,) = interpret(text.replace("UNSCALE", "pass"))
    assert "gradient" in wrong.shown
