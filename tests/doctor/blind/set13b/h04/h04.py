"""Fine-tune a text classifier: first the head alone, then everything (gradual unfreezing)."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(77)
VOCAB, LEN, CLASSES = 100, 10, 4


def docs(n):
    y = torch.randint(0, CLASSES, (n,))
    own = y[:, None] * 25 + torch.randint(0, 25, (n, LEN))
    noise = torch.randint(0, VOCAB, (n, LEN))
    return torch.where(torch.rand(n, LEN) < 0.4, own, noise), y


class Classifier(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d)
        self.body = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.head = nn.Linear(d, CLASSES)

    def forward(self, w):
        return self.head(self.body(self.embed(w).mean(1) * 3.0))


model = Classifier()
ema = copy.deepcopy(model).requires_grad_(False)
backbone = list(model.embed.parameters()) + list(model.body.parameters())
opt_head = torch.optim.Adam(model.head.parameters(), lr=5e-3)
opt_body = torch.optim.Adam(backbone, lr=5e-3)

for p in backbone:
    p.requires_grad_(False)

for step in range(400):
    if step == 150:
        for p in backbone:
            p.requires_grad_(True)
    w, y = docs(32)
    loss = F.cross_entropy(model(w), y)
    for o in (opt_head, opt_body):
        o.zero_grad()
    loss.backward()
    for o in (opt_head, opt_body):
        o.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.lerp_(p, 0.05)
    if step % 50 == 49:
        with torch.no_grad():
            w, y = docs(512)
            acc = (model(w).argmax(1) == y).float().mean().item()
            acc_ema = (ema(w).argmax(1) == y).float().mean().item()
        print(f"step {step + 1} loss {loss.item():.4f} acc {acc:.3f} averaged {acc_ema:.3f}")
