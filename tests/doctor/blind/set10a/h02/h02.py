"""Set classification of image patches with padding masks (bfloat16)."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class PatchBags(Dataset):
    """Between 1 and 9 patches per image; the label is the most frequent orientation."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        base = torch.stack([torch.sin(xx), torch.sin(yy), torch.sin((xx + yy) * 0.7)])
        self.items = []
        for _ in range(n):
            k = int(torch.randint(1, 10, (1,), generator=g))
            label = int(torch.randint(3, (1,), generator=g))
            kinds = torch.where(torch.rand(k, generator=g) < 0.75, label,
                                torch.randint(3, (k,), generator=g))
            kinds[0] = label
            patches = base[kinds] + 0.4 * torch.randn(k, 8, 8, generator=g)
            self.items.append((patches.flatten(1), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    lengths = torch.tensor([len(p) for p, _ in items])
    x = pad_sequence([p for p, _ in items], batch_first=True)
    pad = torch.arange(x.shape[1])[None] >= lengths[:, None]
    return x, pad, torch.tensor([y for _, y in items])


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def split(self, t):
        b, n, d = t.shape
        return t.view(b, n, self.h, d // self.h).transpose(1, 2)

    def forward(self, x, bias):
        y = self.n1(x)
        k, v = self.kv(y).chunk(2, -1)
        att = self.split(self.q(y)) @ self.split(k).transpose(-1, -2) / (x.shape[-1] // self.h) ** 0.5
        att = (att.float() + bias).softmax(-1)
        x = x + self.o((att.to(v.dtype) @ self.split(v)).transpose(1, 2).flatten(2))
        return x + self.ff(self.n2(x))


class BagTransformer(nn.Module):
    def __init__(self, d=48, h=4, depth=2, classes=3):
        super().__init__()
        self.embed = nn.Linear(64, d)
        self.layers = nn.ModuleList(Layer(d, h) for _ in range(depth))
        self.score = nn.Linear(d, 1)
        self.head = nn.Linear(d, classes)

    def forward(self, x, pad):
        bias = torch.zeros(pad.shape).masked_fill(pad, float("-inf"))
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, bias[:, None, None, :])
        weight = self.score(h).squeeze(-1).float().masked_fill(pad, float("-inf")).softmax(-1)
        return self.head((weight.unsqueeze(-1) * h).sum(1))


def main():
    torch.manual_seed(55)
    train = DataLoader(PatchBags(480, 1), 24, shuffle=True, collate_fn=collate)
    valid = DataLoader(PatchBags(120, 2), 24, collate_fn=collate)
    net = BagTransformer()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for epoch in range(4):
        net.train()
        total = 0.0
        for x, pad, y in train:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(net(x, pad).float(), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            total += loss.item()
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            good = sum((net(x, p).argmax(1) == y).sum().item() for x, p, y in valid)
        print(f"epoch {epoch} loss {total / len(train):.4f} acc {good / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
