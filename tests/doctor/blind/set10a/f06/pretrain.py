"""Source task: shape recognition; writes the folded backbone."""
import torch
from torch import nn

from backbone import ConvBN, build, fold


def shapes(n, g, classes=4):
    """Discs, squares, crosses and rings on noise."""
    yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    y = torch.randint(classes, (n,), generator=g)
    img = 0.2 * torch.randn(n, 3, 32, 32, generator=g)
    for i in range(n):
        cy, cx = (torch.rand(2, generator=g) * 16 + 8).tolist()
        dy, dx = (yy - cy).abs(), (xx - cx).abs()
        r = (dy ** 2 + dx ** 2).sqrt()
        pick = [r < 6, (dy < 5) & (dx < 5), ((dy < 2) | (dx < 2)) & (r < 8), (r > 4) & (r < 7)][int(y[i])]
        img[i, :, pick] += 1.0
    return img, y


def run(path, steps=60):
    g = torch.Generator().manual_seed(0)
    backbone = build(ConvBN)
    # pruned filters of an earlier experiment
    with torch.no_grad():
        backbone[1].conv.weight[[4, 19]] = 0.0
    backbone[1].conv.weight.register_hook(
        lambda grad: grad.index_fill(0, torch.tensor([4, 19]), 0.0))
    head = nn.Linear(48, 4)
    opt = torch.optim.Adam([*backbone.parameters(), *head.parameters()], 2e-3)
    bns = [m.bn for m in backbone]
    for bn in bns:
        bn.momentum = 0.9
    for step in range(steps):
        x, y = shapes(32, g)
        loss = nn.functional.cross_entropy(head(backbone(x).mean((2, 3))), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretrain loss {loss.item():.4f}")
    torch.save(fold(backbone), path)
