"""Window attention segmenter; images of unequal height share a batch, padded at the bottom."""
import torch
import torch.nn as nn
import torch.nn.functional as F

WIN = 4


def to_windows(t):
    b, h, w, c = t.shape
    t = t.view(b, h // WIN, WIN, w // WIN, WIN, c).permute(0, 1, 3, 2, 4, 5)
    return t.reshape(-1, WIN * WIN, c)


def from_windows(t, b, h, w):
    t = t.view(b, h // WIN, w // WIN, WIN, WIN, -1).permute(0, 1, 3, 2, 4, 5)
    return t.reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.h = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros(heads, WIN * WIN, WIN * WIN))

    def forward(self, x, valid):
        b, h, w, c = x.shape
        t = to_windows(self.norm(x))
        keep = to_windows(valid.unsqueeze(-1)).squeeze(-1)
        q, k, v = self.qkv(t).view(len(t), WIN * WIN, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.bias
        att = att.masked_fill(~keep[:, None, None, :], float("-inf"))
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(len(t), WIN * WIN, c)
        return x + from_windows(self.out(y), b, h, w)


class Segmenter(nn.Module):
    def __init__(self, dim=16, shift=WIN // 2):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, 3, padding=1)
        self.a1, self.a2 = WindowAttention(dim), WindowAttention(dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))
        self.head = nn.Linear(dim, 2)
        self.shift = shift

    def forward(self, img, valid):
        x = self.embed(img).permute(0, 2, 3, 1)
        x = self.a1(x, valid)
        s = (-self.shift, -self.shift)
        x = torch.roll(self.a2(torch.roll(x, s, (1, 2)), torch.roll(valid, s, (1, 2))), (self.shift, self.shift), (1, 2))
        x = x + self.mlp(x)
        return self.head(x).permute(0, 3, 1, 2)


def batch(n, gen, w=16):
    heights = torch.randint(9, 17, (n,), generator=gen)
    top = -(-int(heights.max()) // WIN) * WIN
    img = torch.zeros(n, 1, top, w)
    lab = torch.full((n, top, w), -100)
    valid = torch.zeros(n, top, w, dtype=torch.bool)
    for i, h in enumerate(heights.tolist()):
        f = F.avg_pool2d(torch.randn(1, 1, h, w, generator=gen), 3, 1, 1)[0, 0] * 3
        img[i, 0, :h] = f + 0.1 * torch.randn(h, w, generator=gen)
        lab[i, :h] = (f > 0.3).long()
        valid[i, :h] = True
    return img, lab, valid


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(6)
    model = Segmenter()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    for step in range(60):
        img, lab, valid = batch(6, gen)
        logits = model(img, valid)
        loss = F.cross_entropy(logits, lab, ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 or step == 59:
            acc = (logits.argmax(1) == lab)[valid].float().mean().item()
            print(f"step {step} loss {loss.item():.4f} pixel acc {acc:.3f} rows {img.shape[2]}")


main()
