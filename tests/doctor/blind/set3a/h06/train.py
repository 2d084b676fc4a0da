import random

import torch
import torch.nn as nn

from metric import EmbedNet, batch_hard

MAX_NORM, ACCUM = 2.0, 3


def glyphs(n_ids=20, per=8, size=16):
    g = torch.Generator().manual_seed(3)
    proto = torch.rand(n_ids, 1, size, size, generator=g).round()
    x = proto.repeat_interleave(per, 0) + 0.35 * torch.randn(n_ids * per, 1, size, size, generator=g)
    return x, torch.arange(n_ids).repeat_interleave(per)


def pk_batches(y, p, k, steps):
    ids = y.unique().tolist()
    for _ in range(steps):
        rows = []
        for i in random.sample(ids, p):
            rows += random.sample((y == i).nonzero().flatten().tolist(), k)
        yield torch.tensor(rows)


def recall_at_1(net, x, y):
    net.eval()
    with torch.inference_mode():
        e = net(x)
        d = torch.cdist(e, e).fill_diagonal_(float("inf"))
        r = (y[d.argmin(1)] == y).float().mean().item()
    net.train()
    return r


def main():
    random.seed(1)
    torch.manual_seed(1)
    x, y = glyphs()
    train, test = y < 14, y >= 14
    net = EmbedNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", growth_interval=12)
    xt, yt = x[train], y[train]
    updates = 0
    opt.zero_grad()
    for i, rows in enumerate(pk_batches(yt, 6, 4, 180), 1):
        with torch.autocast("cpu", dtype=torch.float16):
            e = net(xt[rows])
            loss = batch_hard(e, yt[rows]) / ACCUM
        scaler.scale(loss).backward()
        if i % ACCUM:
            continue
        # same threshold in scaled units, saves the unscale pass
        norm = nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM * scaler.get_scale())
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        updates += 1
        if updates % 10 == 0:
            print(f"update {updates} loss {loss.item() * ACCUM:.4f} norm {norm.item() / scaler.get_scale():.4f} "
                  f"R@1 {recall_at_1(net, x[test], y[test]):.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
