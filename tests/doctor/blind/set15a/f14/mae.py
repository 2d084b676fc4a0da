"""Masked autoencoder on small textures."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, dim * 2), nn.Linear(dim * 2, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.n2(x))))


class MAE(nn.Module):
    def __init__(self, img=24, patch=4, dim=64, ddim=48, depth=2, ratio=0.5):
        super().__init__()
        self.patch, self.ratio = patch, ratio
        n = (img // patch) ** 2
        self.embed = nn.Linear(patch * patch, dim)
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.02)
        self.dpos = nn.Parameter(torch.randn(1, n, ddim) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, ddim))
        self.enc = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.to_dec = nn.Linear(dim, ddim)
        self.dec = nn.Sequential(Block(ddim))
        self.pred = nn.Linear(ddim, patch * patch)

    def patchify(self, x):
        b, h, w = x.shape
        p = self.patch
        return x.view(b, h // p, p, w // p, p).transpose(2, 3).reshape(b, -1, p * p)

    def forward(self, imgs):
        t = self.patchify(imgs)
        b, n, _ = t.shape
        keep = int(n * (1 - self.ratio))
        ids = torch.rand(b, n).argsort(1)
        restore = ids.argsort(1)
        x = self.embed(t) + self.pos
        x = torch.gather(x, 1, ids[:, :keep, None].expand(-1, -1, x.shape[-1]))
        x = self.to_dec(self.enc(x))
        x = torch.cat([x, self.mask_token.to(x.dtype).expand(b, n - keep, -1)], 1)
        x = torch.gather(x, 1, restore[..., None].expand(-1, -1, x.shape[-1])) + self.dpos
        y = self.pred(self.dec(x)).float()
        mask = (restore >= keep).float()
        per_patch = ((y - t) ** 2).mean(-1)
        return (per_patch * mask).sum() / mask.sum()


def textures(n, size=24):
    yy, xx = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    ang = torch.randint(0, 4, (n, 1, 1)) * 0.785
    sign = torch.randint(0, 2, (n, 1, 1)) * 2 - 1
    light = torch.randn(n, 1, 1)
    return light + 0.5 * sign * torch.sin((xx * ang.cos() + yy * ang.sin()) * 0.6)


def train(model, steps=60, batch=32):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.05)
    before = [p.detach().clone() for p in model.parameters()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for step in range(steps):
            loss = model(textures(batch))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 6 == 0:
                moved = sum((p.detach() - q).norm() ** 2 for p, q in zip(model.parameters(), before)) ** 0.5
                print(f"step {step:3d} loss {loss.item():.4f} moved {moved.item():.3f}")


if __name__ == "__main__":
    train(MAE())
