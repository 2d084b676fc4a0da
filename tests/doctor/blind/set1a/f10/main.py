import argparse

import torch
import torch.nn as nn

from lib.data import make_loaders
from lib.engine import Engine
from lib.resnet import tiny_resnet


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args(argv)
    torch.manual_seed(a.seed)
    train, val = make_loaders()
    model = tiny_resnet()
    opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, nesterov=True)
    total = a.epochs * len(train) // a.accum
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, total)
    eng = Engine(model, nn.CrossEntropyLoss(), opt, sched, accum=a.accum, max_norm=a.clip)
    for ep in range(a.epochs):
        tl = eng.train(train)
        print(f"epoch {ep + 1}/{a.epochs} loss {tl:.4f} val acc {eng.evaluate(val):.3f}")


if __name__ == "__main__":
    main()
