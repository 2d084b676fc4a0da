import argparse

import torch
import torch.nn.functional as F

from model import Classifier, shapes


class Phase:
    """One stage of the schedule: how a batch is made of the images and for how many steps."""

    def __init__(self, name, steps, prepare):
        self.name, self.steps, self.prepare = name, steps, prepare


def rotations(x, y):
    k = torch.randint(0, 4, (len(x),))
    return torch.stack([torch.rot90(img, int(r), (1, 2)) for img, r in zip(x, k)]), k


def plain(x, y):
    return x, y


class Session:
    def __init__(self, lr):
        self.model = Classifier()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        body, head = self.model.groups()
        self.optimizers = {
            "body": torch.optim.SGD(body, lr=lr, momentum=0.9),
            "head": torch.optim.Adam(head, lr=lr),
        }

    def train_step(self, x, y):
        for opt in self.optimizers.values():
            opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        for opt in self.optimizers.values():
            self.scaler.step(opt)
        self.scaler.update()
        return loss.item()

    def run(self, phase, data, batch):
        x, y = data
        total = 0.0
        for i in range(phase.steps):
            pick = torch.randint(0, len(x), (batch,))
            total += self.train_step(*phase.prepare(x[pick], y[pick]))
            if i % 10 == 9:
                print(f"{phase.name} {i + 1:3d} loss {total / 10:.3f}")
                total = 0.0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pretext-steps", type=int, default=20)
    ap.add_argument("--task-steps", type=int, default=40)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=1e-2)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = shapes(240, seed=1)
    session = Session(args.lr)
    session.run(Phase("pretext", args.pretext_steps, rotations), data, args.batch)
    session.model.new_head(classes=3)
    session.run(Phase("task", args.task_steps, plain), data, args.batch)


if __name__ == "__main__":
    main()
