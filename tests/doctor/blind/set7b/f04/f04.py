import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "model": {"vocab": 40, "dim": 48, "layers": 2, "classes": 6},
    "optim": {"lr": 2e-3, "weight_decay": 0.01, "steps": 70, "batch": 32},
    "amp": {
        "dtype": "float16",
        "scaler": {"init_scale": 2.0 ** 24, "growth_factor": 2.0, "backoff_factor": 0.95, "growth_interval": 5},
    },
}


class ConvBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2, groups=4)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.proj(F.gelu(h))


class SpeakerIntent(nn.Module):
    """Phone sequence -> intent class."""

    def __init__(self, vocab, dim, layers, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[ConvBlock(dim) for _ in range(layers)])
        self.cls = nn.Linear(dim, classes)

    def forward(self, tokens):
        h = self.blocks(self.emb(tokens))
        return self.cls(h.mean(1))


def sample_batch(n, cfg, gen):
    y = torch.randint(0, cfg["classes"], (n,), generator=gen)
    tok = torch.randint(0, cfg["vocab"], (n, 24), generator=gen)
    hint = (y * 5)[:, None] + torch.randint(0, 5, (n, 6), generator=gen)
    tok[:, 4:10] = hint
    return tok, y


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(0)
        self.model = SpeakerIntent(**cfg["model"])
        o = cfg["optim"]
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
        self.dtype = getattr(torch, cfg["amp"]["dtype"])
        self.scaler = torch.amp.GradScaler("cpu", **cfg["amp"]["scaler"])
        self.history = []

    def step(self):
        tok, y = sample_batch(self.cfg["optim"]["batch"], self.cfg["model"], self.gen)
        with torch.autocast("cpu", dtype=self.dtype):
            logits = self.model(tok)
        loss = F.cross_entropy(logits.float(), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.history.append(loss.item())

    def run(self):
        for i in range(self.cfg["optim"]["steps"]):
            self.step()
            if i % 10 == 9:
                mean = sum(self.history[-10:]) / 10
                print(f"iter {i + 1:3d}  loss {mean:.3f}  scale {self.scaler.get_scale():.3g}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(CONFIG).run()
