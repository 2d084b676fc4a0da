"""Organ volume regression + voxel labels from CT blocks. Sums over voxels are kept in float32."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(12)
VOXEL_MM3 = 2.5 ** 3


def ct_block(n, s=12):
    """Hounsfield units, air -1024, metal up to 30000, and some blocks that are air only"""
    ax = torch.arange(s)
    zz, yy, xx = torch.meshgrid(ax, ax, ax, indexing="ij")
    hu = torch.full((n, s, s, s), -1024.0)
    lab = torch.zeros(n, s, s, s)
    for i in range(n):
        if torch.rand(1).item() < 0.15:
            continue
        r = 2 + 2.5 * torch.rand(1).item()
        c = torch.rand(3) * 5 + 3.5
        inside = (zz - c[0]) ** 2 + (yy - c[1]) ** 2 + (xx - c[2]) ** 2 < r * r
        hu[i] = 40.0 + 20 * torch.randn(s, s, s)
        hu[i][inside] += 220.0
        lab[i][inside] = 1.0
        if torch.rand(1).item() < 0.2:
            hu[i, 0, 0, :3] = 30000.0
    return hu, lab


def normalise(hu):
    hu = hu.clamp(-1000, 1000)
    m = hu.mean((1, 2, 3), keepdim=True)
    s = hu.std((1, 2, 3), keepdim=True).clamp(min=1e-3)  # constant blocks
    return (hu - m) / s


class Net(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.c1 = nn.Conv3d(1, ch, 3, padding=1)
        self.c2 = nn.Conv3d(ch, ch, 3, padding=1)
        self.c3 = nn.Conv3d(ch, 1, 1)
        nn.init.constant_(self.c3.bias, -2.0)

    def forward(self, x):
        x = F.relu(self.c1(x[:, None]))
        return self.c3(F.relu(self.c2(x)))[:, 0]


def losses(logits, lab):
    # voxel sums in mm^3 reach several 10^4, their squares 10^9: float32 only
    with torch.autocast("cpu", enabled=False):
        logits = logits.float()
        prob = logits.sigmoid()
        vol_p = prob.sum((1, 2, 3)) * VOXEL_MM3
        vol_t = lab.sum((1, 2, 3)) * VOXEL_MM3
        sq = (vol_p - vol_t) ** 2
        vol = sq.mean() * 1e-8
        inter = (prob * lab).sum((1, 2, 3))
        dice = 1 - ((2 * inter + 1) / (prob.sum((1, 2, 3)) + lab.sum((1, 2, 3)) + 1)).mean()
        # entropy of the lesion map; empty blocks would give log(0)
        q = lab / lab.sum((1, 2, 3), keepdim=True).clamp(min=1)
        p = prob / prob.sum((1, 2, 3), keepdim=True)
        ce = -(q * p.clamp(min=1e-12).log()).sum((1, 2, 3)).mean()
        return dice + vol + 0.05 * ce, sq.max().item()


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
micro, accum = 0, 6
opt.zero_grad()
for step in range(120):
    hu, lab = ct_block(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(normalise(hu))
    loss, biggest = losses(logits, lab)
    (loss / accum).backward()
    micro += 1
    if micro == accum:
        norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        opt.zero_grad()
        micro = 0
    if step % 12 == 11:
        print(f"step {step + 1:3d} loss {loss.item():.4f} largest squared volume error {biggest:.3g} norm {norm:.3f}")
