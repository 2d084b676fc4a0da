"""Set-to-label model: max pooling over padded point sets plus masked attention, bfloat16."""
import torch
from torch import nn
import torch.nn.functional as F

NEG_INF = float("-inf")


class PointSetNet(nn.Module):
    def __init__(self, d=48, heads=4, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Sequential(nn.Linear(3, d), nn.GELU(), nn.Linear(d, d))
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(2 * d, classes)

    def attend(self, h, pad):
        b, n, d = h.shape
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        score = score.masked_fill(pad[:, None, None, :], NEG_INF)
        return self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))

    def forward(self, x, pad):
        h = self.embed(x)
        h = self.norm(h + self.attend(h, pad))
        top = h.masked_fill(pad.unsqueeze(-1), NEG_INF).amax(1)
        mean = h.masked_fill(pad.unsqueeze(-1), 0.0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.head(torch.cat([top, mean.to(top.dtype)], -1))


def cloud(kind, n, gen):
    u = torch.randn(n, 3, generator=gen)
    if kind == 0:
        return u / u.norm(dim=1, keepdim=True)
    if kind == 1:
        return u.clamp(-1, 1)
    u[:, 2] = 0.1 * u[:, 2]
    return u


def collate(batch):
    longest = max(len(p) for p, _ in batch) + 4
    x = torch.full((len(batch), longest, 3), 0.0)
    pad = torch.ones(len(batch), longest, dtype=torch.bool)
    for i, (p, _) in enumerate(batch):
        x[i, :len(p)] = p
        pad[i, :len(p)] = False
    return x, pad, torch.tensor([k for _, k in batch])


def main():
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    net = PointSetNet()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for it in range(70):
        batch = []
        for _ in range(24):
            kind = int(torch.randint(0, 3, (1,), generator=gen))
            n = int(torch.randint(1 if it % 7 == 0 else 8, 20, (1,), generator=gen))
            batch.append((cloud(kind, n, gen), kind))
        x, pad, y = collate(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x, pad)
        loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 9:
            print(it + 1, round(loss.item(), 3), (logits.argmax(1) == y).float().mean().item())


if __name__ == "__main__":
    main()
