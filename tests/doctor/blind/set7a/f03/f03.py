# Multiple-instance learning on bags of patch features (histology style), attention pooling, bfloat16
import random

import torch
import torch.nn as nn

torch.manual_seed(5)
random.seed(5)

N_BAGS, MAX_INST, FEAT = 240, 6, 24
g = torch.Generator().manual_seed(1)

bags, labels, lengths = [], [], []
for i in range(N_BAGS):
    n = int(torch.randint(2, MAX_INST + 1, (1,), generator=g))
    y = i % 2
    x = torch.randn(n, FEAT, generator=g)
    if y:
        x[torch.randint(0, n, (1,), generator=g)] += 1.5
    bags.append(x)
    labels.append(y)
    lengths.append(n)


def collate(idx):
    x = torch.zeros(len(idx), MAX_INST, FEAT)
    keep = torch.zeros(len(idx), MAX_INST, dtype=torch.bool)
    for row, i in enumerate(idx):
        x[row, : lengths[i]] = bags[i]
        keep[row, : lengths[i]] = True
    y = torch.tensor([labels[i] for i in idx], dtype=torch.float32)
    return x, keep, y


def instance_dropout(keep, p):
    drop = torch.rand(keep.shape) < p
    return keep & ~drop


class GatedAttentionPool(nn.Module):
    def __init__(self, d, hidden=32):
        super().__init__()
        self.v = nn.Linear(d, hidden)
        self.u = nn.Linear(d, hidden)
        self.w = nn.Linear(hidden, 1)

    def forward(self, h, keep):
        score = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))).squeeze(-1)
        score = score.masked_fill(~keep, float("-inf"))
        attn = torch.softmax(score.float(), dim=1)
        return (attn.unsqueeze(-1) * h).sum(1)


class MIL(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(FEAT, 64), nn.ReLU())
        self.pool = GatedAttentionPool(64)
        self.cls = nn.Linear(64, 1)

    def forward(self, x, keep):
        return self.cls(self.pool(self.embed(x), keep)).squeeze(-1)


model = MIL()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(8):
    order = list(range(N_BAGS))
    random.shuffle(order)
    p_drop = 0.0 if epoch < 2 else 0.25
    running = 0.0
    for s in range(0, N_BAGS, 24):
        x, keep, y = collate(order[s : s + 24])
        if p_drop:
            keep = instance_dropout(keep, p_drop)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logit = model(x, keep)
            loss = criterion(logit.float(), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        running += loss.item()
    print(f"epoch {epoch} drop {p_drop} loss {running / (N_BAGS // 24):.4f}")
