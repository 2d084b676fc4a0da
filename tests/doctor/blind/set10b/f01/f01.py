"""Metric learning on a product catalogue."""
import argparse
import logging

import torch

from catalog import Catalog, family_batches
from model import ProductEncoder, npairs_margin, recall_at_1

log = logging.getLogger("metric")


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args = get_args()
    torch.manual_seed(args.seed)
    (xt, yt), (xv, yv) = Catalog().split()
    net = ProductEncoder(xt.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    gen = torch.Generator().manual_seed(args.seed)

    for epoch in range(args.epochs):
        net.train()
        total, count = 0.0, 0
        for xb, yb in family_batches(xt, yt, args.batch, gen):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                z = net(xb)
                loss = npairs_margin(z, yb)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
            count += 1
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            zv = net(xv)
        log.info("epoch %d loss %.4f recall@1 %.3f scale %g",
                 epoch, total / count, recall_at_1(zv, yv), scaler.get_scale())


if __name__ == "__main__":
    main()
