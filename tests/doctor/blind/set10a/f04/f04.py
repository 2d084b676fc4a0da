"""Image retrieval with a batch-hard triplet loss on synthetic textures."""
import torch
from torch import nn

from losses import batch_hard_triplet, recall_at_1


class Textures:
    """Oriented gratings; the orientation and frequency give the identity."""

    def __init__(self, identities=10, size=24, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.k, self.size = identities, size
        self.theta = torch.linspace(0, 3.14159 * (1 - 1 / identities), identities)
        self.freq = 0.4 + 0.5 * torch.rand(identities, generator=self.gen)

    def sample(self, p, k):
        ids = torch.randperm(self.k, generator=self.gen)[:p].repeat_interleave(k)
        axis = torch.arange(self.size).float()
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        th, fr = self.theta[ids, None, None], self.freq[ids, None, None]
        phase = 6.28 * torch.rand(len(ids), 1, 1, generator=self.gen)
        img = torch.sin(fr * (xx * th.cos() + yy * th.sin()) + phase)
        img = img + 0.7 * torch.randn(img.shape, generator=self.gen)
        return img[:, None], ids


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        def stage(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(stage(1, 16), stage(16, 32), stage(32, 48))
        self.proj = nn.Linear(48, dim)

    def forward(self, x):
        z = self.features(x).mean(dim=(2, 3))
        return self.proj(z)


def validate(net, data):
    net.eval()
    with torch.no_grad():
        x, y = data.sample(10, 8)
        r1 = recall_at_1(net(x), y)
    net.train()
    return r1


def main(steps=120, lr=1e-3):
    torch.manual_seed(5)
    train, held = Textures(seed=1), Textures(seed=1)
    held.gen.manual_seed(99)
    net = Embedder()
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    ema_loss = None
    for step in range(steps):
        x, y = train.sample(6, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            emb = net(x)
        loss = batch_hard_triplet(emb.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema_loss = loss.item() if ema_loss is None else 0.9 * ema_loss + 0.1 * loss.item()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:4d}  triplet {ema_loss:.4f}  R@1 {validate(net, held):.3f}")


if __name__ == "__main__":
    main()
