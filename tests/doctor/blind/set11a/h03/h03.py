"""Class-incremental learning: logits of classes outside the current task are masked out."""
import logging
from typing import Dict, List

import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("cil")

TASKS: List[List[int]] = [[0, 1], [2, 3], [4, 5]]


class Stream:
    def __init__(self, n_cls, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(n_cls, 1, 12, 12, generator=self.g)

    def sample(self, classes, n):
        pick = torch.randint(0, len(classes), (n,), generator=self.g)
        y = torch.tensor(classes)[pick]
        return self.proto[y] + 0.5 * torch.randn(n, 1, 12, 12, generator=self.g), y


class ViTTiny(nn.Module):
    def __init__(self, n_cls, dim=32, heads=4):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, 10, dim) * 0.02)
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.fc = nn.Linear(dim, n_cls)

    def attend(self, x, drop):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        if drop is not None:
            score = score.masked_fill(drop[:, None, None, :], float("-inf"))
        return self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))

    def forward(self, img, patch_drop=None):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        x = x + self.attend(self.norm1(x), patch_drop)
        x = x + self.mlp(self.norm2(x))
        return self.fc(x[:, 0])


def random_patch_drop(n, p, tokens=10):
    drop = torch.rand(n, tokens) < p
    drop[:, 0] = False
    return drop


def mask_logits(logits, classes):
    blocked = torch.ones(logits.size(1), dtype=torch.bool)
    blocked[classes] = False
    return logits.masked_fill(blocked, -torch.inf)


def train_task(model, stream, classes, cfg: Dict):
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    scaler = torch.amp.GradScaler("cpu")
    for it in range(cfg["iters"]):
        x, y = stream.sample(classes, cfg["batch"])
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = mask_logits(model(x, random_patch_drop(len(x), cfg["drop"])), classes)
            loss = F.cross_entropy(logits, y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    prob = logits.detach().float().softmax(1)
    entropy = -(prob * prob.log()).nansum(1).mean()
    log.info("task %s loss %.4f lowest logit %s entropy %.3f scale %g", classes, loss.item(), logits.min().item(), entropy, scaler.get_scale())


@torch.no_grad()
def accuracy(model, stream, classes):
    x, y = stream.sample(classes, 128)
    return (mask_logits(model(x), classes).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    settings = {"lr": 2e-3, "iters": 40, "batch": 24, "drop": 0.6}
    net, data = ViTTiny(6), Stream(6, seed=3)
    for t, task in enumerate(TASKS):
        train_task(net, data, task, settings)
        log.info("  task-aware accuracy %s", [round(accuracy(net, data, k), 3) for k in TASKS[: t + 1]])
