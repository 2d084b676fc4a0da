"""Set transformer with temperature-free kernel attention on a counting task."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def softmax_kernel(q, k, v, mask):
    """Attention with explicit exponentials, so that set members can be summed incrementally."""
    weight = torch.exp(q @ k.transpose(-2, -1))
    weight = weight * mask[:, None, :].to(weight.dtype)
    out = weight @ v
    out = out / weight.sum(-1, keepdim=True)
    return torch.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0)


class SetBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        for lin in (self.q, self.k):
            nn.init.normal_(lin.weight, std=0.25)
        self.norm = nn.LayerNorm(dim)

    def forward(self, query, members, mask):
        h = softmax_kernel(self.q(query), self.k(members), self.v(members), mask)
        return self.norm(query + h)


class Matcher(nn.Module):
    """Answers which colour the object of the asked shape has."""

    def __init__(self, shapes=8, colours=6, dim=32):
        super().__init__()
        self.shape = nn.Embedding(shapes, dim)
        self.colour = nn.Embedding(colours, dim)
        self.ask = nn.Embedding(shapes, dim)
        self.block = SetBlock(dim)
        self.head = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, colours))

    def forward(self, shapes, colours, asked, mask):
        members = self.shape(shapes) + self.colour(colours)
        query = self.ask(asked)[:, None]
        return self.head(self.block(query, members, mask)[:, 0])


def scenes(n, gen):
    shapes = torch.stack([torch.randperm(8, generator=gen)[:6] for _ in range(n)])
    colours = torch.randint(6, (n, 6), generator=gen)
    size = torch.randint(2, 7, (n,), generator=gen)
    mask = torch.arange(6)[None] < size[:, None]
    pick = (torch.rand(n, generator=gen) * size).long()
    rows = torch.arange(n)
    return shapes, colours, shapes[rows, pick], mask, colours[rows, pick]


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = Matcher()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(240):
        shapes, colours, asked, mask, answer = scenes(64, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(shapes, colours, asked, mask)
            loss = F.cross_entropy(logits, answer)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        for p in model.parameters():
            if p.grad is not None:
                torch.nan_to_num_(p.grad, nan=0.0, posinf=0.0, neginf=0.0)
        scaler.step(opt)
        scaler.update()
        if step % 30 == 0 or step == 239:
            acc = (logits.argmax(1) == answer).float().mean().item()
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc:.2f}")


if __name__ == "__main__":
    main()
