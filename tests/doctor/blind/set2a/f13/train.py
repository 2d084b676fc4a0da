import argparse

import torch
import torch.nn.functional as F

from multitask import AUXILIARY, Trunk, shapes


class Session:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.trunk = Trunk()
        self.extra = {n: AUXILIARY[n](48) for n in args.auxiliary}
        groups = [{"params": list(m.parameters())} for m in [self.trunk, *self.extra.values()]]
        self.opt = torch.optim.SGD([g for g in groups if g["params"]], lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)

    def minibatches(self, data, size):
        x, kind, corner = data
        for idx in torch.randperm(len(x)).split(size):
            yield {"x": x[idx], "kind": kind[idx], "corner": corner[idx]}

    def step(self, batch):
        with torch.autocast("cpu", dtype=torch.float16):
            logits, feat = self.trunk(batch["x"])
        main = F.cross_entropy(logits.float(), batch["kind"])
        self.scaler.scale(main).backward(retain_graph=True)
        parts = {"kind": main.detach()}
        for i, (name, aux) in enumerate(self.extra.items()):
            parts[name] = aux.accumulate(feat, batch, keep=i + 1 < len(self.extra))
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
        return parts, (logits.argmax(1) == batch["kind"]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--auxiliary", nargs="*", default=["where", "compact"], choices=list(AUXILIARY))
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--lr", type=float, default=0.03)
    ap.add_argument("--seed", type=int, default=12)
    args = ap.parse_args()
    data = shapes(512, args.seed)
    session = Session(args)
    for epoch in range(args.epochs):
        acc = where = n = 0
        for batch in session.minibatches(data, 32):
            parts, right = session.step(batch)
            acc, n = acc + right, n + 1
            where += getattr(session.extra.get("where"), "right", 0.0)
        shown = " ".join(f"{k} {v.item():.4f}" for k, v in parts.items())
        print(f"epoch {epoch} kind accuracy {acc / n:.3f} corner accuracy {where / n:.3f} | {shown}")


if __name__ == "__main__":
    main()
