"""x-vector style speaker identification with statistics pooling."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TDNN(nn.Module):
    def __init__(self, cin, cout, kernel, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, dilation=dilation)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class StatsPool(nn.Module):
    def forward(self, h, frames):
        pos = torch.arange(h.size(2), device=h.device)
        m = (pos[None] < frames[:, None]).to(h.dtype).unsqueeze(1)
        n = m.sum(2)
        mean = (h * m).sum(2) / n
        var = ((h - mean.unsqueeze(2)).pow(2) * m).sum(2) / n
        std = var.sqrt()
        return torch.cat([mean, std], dim=1)


class XVector(nn.Module):
    def __init__(self, mels, speakers, width=48):
        super().__init__()
        self.t1 = TDNN(mels, width, 5)
        self.t2 = TDNN(width, width, 3, dilation=2)
        self.pool = StatsPool()
        self.fc = nn.Linear(width * 2, 32)
        self.out = nn.Linear(32, speakers)

    def forward(self, x, lengths):
        h = self.t2(self.t1(x))
        frames = (lengths - (x.size(2) - h.size(2))).clamp(min=1)
        return self.out(F.relu(self.fc(self.pool(h.float(), frames))))


class FakeSpeakers(torch.utils.data.Dataset):
    def __init__(self, n, mels=24, speakers=8, frames=60):
        g = torch.Generator().manual_seed(4)
        voices = torch.randn(speakers, mels, generator=g)
        self.items = []
        for i in range(n):
            s = i % speakers
            t = int(torch.randint(24, frames + 1, (1,), generator=g))
            if i % 97 == 96:
                t = 11
            feats = voices[s][:, None] + torch.randn(mels, t, generator=g)
            self.items.append((feats, t, s))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(rows):
    t = max(r[1] for r in rows)
    x = torch.stack([F.pad(f, (0, t - n)) for f, n, _ in rows])
    return x, torch.tensor([n for _, n, _ in rows]), torch.tensor([s for *_, s in rows])


def main(amp=True):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(FakeSpeakers(400), batch_size=25, shuffle=False, collate_fn=collate)
    net = XVector(24, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(4):
        total, hits, seen = 0.0, 0, 0
        for x, n, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
                logits = net(x, n)
                loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"epoch {epoch} loss {total / seen:.4f} acc {hits / seen:.3f}")


if __name__ == "__main__":
    main()
