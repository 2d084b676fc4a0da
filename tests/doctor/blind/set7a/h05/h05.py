"""Text classification with gradient accumulation, clipping, EMA weights and a ragged last window, float16."""
import copy

import torch
import torch.nn as nn


class BagOfWords(nn.Module):
    def __init__(self, vocab=200, d=32, classes=4):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, d, mode="mean", padding_idx=0)
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, classes))

    def forward(self, ids):
        return self.net(self.emb(ids))


class Ema:
    def __init__(self, model, decay=0.9):
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def docs(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    topic = 1 + y[:, None] * 45 + torch.randint(0, 45, (n, 12), generator=g)
    common = torch.randint(1, 200, (n, 12), generator=g)
    ids = torch.where(torch.rand(n, 12, generator=g) < 0.5, topic, common)
    length = torch.randint(4, 13, (n,), generator=g)
    ids[torch.arange(12)[None] >= length[:, None]] = 0
    return ids, y


def train(accum=4, epochs=5):
    torch.manual_seed(0)
    x, y = docs(880, 0)
    vx, vy = docs(200, 1)
    model = BagOfWords()
    ema = Ema(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    for epoch in range(epochs):
        chunks = torch.randperm(len(x)).split(20)
        total = 0.0
        model.train()
        for i, idx in enumerate(chunks):
            window = min(accum, len(chunks) - i // accum * accum)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x[idx]).float(), y[idx])
            scaler.scale(loss / window).backward()
            total += loss.item()
            if (i + 1) % accum == 0 or i + 1 == len(chunks):
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
                ema.update(model)
        with torch.no_grad():
            acc = (ema.shadow(vx).argmax(1) == vy).float().mean().item()
        print(f"epoch {epoch} loss {total / len(chunks):.4f} ema acc {acc:.3f}")


train()
