"""Semi-supervised classification (FixMatch flavour).  The encoder is frozen for the
first epochs and has an optimizer of its own."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, D = 4, 20


class Trainer:
    def __init__(self, warm=20, threshold=0.9):
        self.encoder = nn.Sequential(nn.Linear(D, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)
        self.spare_head = nn.Linear(32, 2)
        self.enc_opt = torch.optim.SGD(self.encoder.parameters(), lr=0.05, momentum=0.9)
        self.head_opt = torch.optim.SGD([*self.head.parameters(), *self.spare_head.parameters()],
                                        lr=0.05, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18)
        self.warm, self.threshold, self.iteration = warm, threshold, 0

    def logits(self, x):
        return self.head(self.encoder(x))

    def unsupervised(self, u):
        weak = u + 0.05 * torch.randn_like(u)
        strong = u + 0.4 * torch.randn_like(u)
        with torch.no_grad():
            prob = self.logits(weak).float().softmax(-1)
            best, label = prob.max(-1)
            sure = best > self.threshold
        loss = F.cross_entropy(self.logits(strong).float(), label, reduction="none")
        agree = (label[sure] == label[sure].mode().values).float().mean() if sure.any() else float("nan")
        return (loss * sure).sum() / sure.sum().clamp(min=1), int(sure.sum()), float(agree)

    def step(self, x, y, u):
        tuned = self.iteration >= self.warm
        self.encoder.requires_grad_(tuned)
        self.enc_opt.zero_grad(set_to_none=True)
        self.head_opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            sup = F.cross_entropy(self.logits(x).float(), y)
            unsup, n_sure, agree = self.unsupervised(u)
            loss = sup + unsup
        self.scaler.scale(loss).backward()
        self.scaler.step(self.head_opt)
        if tuned:
            self.scaler.step(self.enc_opt)
        self.scaler.update()
        self.iteration += 1
        return sup.item(), unsup.item(), n_sure, agree


def world(seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = 1.3 * torch.randn(CLASSES, D, generator=g)

    def draw(n):
        y = torch.randint(0, CLASSES, (n,), generator=g)
        return centers[y] + torch.randn(n, D, generator=g), y
    return draw


if __name__ == "__main__":
    torch.manual_seed(0)
    draw = world()
    xl, yl = draw(48)
    xu, _ = draw(1000)
    xt, yt = draw(400)
    trainer = Trainer()
    for it in range(140):
        i = torch.randint(0, 48, (16,))
        j = torch.randint(0, 1000, (64,))
        sup, unsup, n_sure, agree = trainer.step(xl[i], yl[i], xu[j])
        if it % 20 == 0:
            with torch.no_grad():
                acc = (trainer.logits(xt).argmax(-1) == yt).float().mean().item()
            print(f"it {it:3d} sup {sup:.3f} unsup {unsup:.3f} sure {n_sure:2d} agree {agree:.2f} "
                  f"acc {acc:.3f} scale {trainer.scaler.get_scale():g}")
    with torch.no_grad():
        print(f"test acc {(trainer.logits(xt).argmax(-1) == yt).float().mean().item():.3f}")
