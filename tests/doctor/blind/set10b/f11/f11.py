"""Distil a small transformer into a bag-of-words student."""
import logging
import time

import torch
import torch.nn.functional as F

from nets import Distiller, Student, Teacher

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
log = logging.getLogger("distil")

VOCAB, CLASSES, LENGTH = 120, 4, 16


def sentences(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    common = torch.randint(0, 80, (n, LENGTH), generator=g)
    topical = 80 + y[:, None] * 10 + torch.randint(0, 10, (n, LENGTH), generator=g)
    use = torch.rand(n, LENGTH, generator=g) < 0.3
    return torch.where(use, topical, common), y


def train_teacher(x, y, epochs=3):
    net = Teacher(VOCAB, CLASSES)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for idx in torch.randperm(len(x)).split(64):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        log.info("teacher epoch %d loss %.4f", epoch, loss.item())
    return net


def agreement(distiller, x, y):
    distiller.student.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        s = distiller.student(x).argmax(1)
        t = distiller.teacher(x).argmax(1)
    distiller.student.train()
    return (s == t).float().mean().item(), (s == y).float().mean().item()


def main():
    torch.manual_seed(4)
    start = time.time()
    x, y = sentences(1600, 1)
    xv, yv = sentences(400, 2)
    teacher = train_teacher(x, y)
    distiller = Distiller(Student(VOCAB, CLASSES), teacher)
    trainable = [p for p in distiller.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=5e-3, weight_decay=0.0)
    for epoch in range(6):
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss, _ = distiller(x[idx])
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            opt.step()
            total += loss.item()
        agree, acc = agreement(distiller, xv, yv)
        log.info("epoch %d kl %.4f agree %.3f acc %.3f T %.2f", epoch, total / 25, agree, acc,
                 distiller.log_t.exp().item())
    log.info("done in %.1fs", time.time() - start)


if __name__ == "__main__":
    main()
