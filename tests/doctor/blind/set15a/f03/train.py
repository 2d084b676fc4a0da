import random

import torch
import torch.nn.functional as F

from model import RaggedSwin

torch.manual_seed(11)
random.seed(11)


def sample():
    h, w = random.choice([32, 48, 64, 80]), random.choice([32, 48, 64, 80])
    label = random.randrange(5)
    yy, xx = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
    angle = torch.tensor(label * 0.6)
    wave = torch.sin((xx * torch.cos(angle) + yy * torch.sin(angle)) * 0.8)
    return wave[None].repeat(3, 1, 1) + 0.4 * torch.randn(3, h, w), label


def collate(items, multiple=16):
    H = max(i[0].shape[1] for i in items)
    W = max(i[0].shape[2] for i in items)
    H, W = -(-H // multiple) * multiple, -(-W // multiple) * multiple
    batch = torch.zeros(len(items), 3, H, W)
    for b, (im, _) in zip(batch, items):
        b[:, : im.shape[1], : im.shape[2]] = im
    return batch, [tuple(i[0].shape[1:]) for i in items], torch.tensor([i[1] for i in items])


model = RaggedSwin()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

running = 0.0
for step in range(40):
    images, sizes, labels = collate([sample() for _ in range(12)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(images, sizes)
    loss = F.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    running += loss.item()
    if step % 5 == 4:
        acc = (logits.argmax(-1) == labels).float().mean().item()
        print(f"[{step + 1}] loss {running / 5:.3f} acc {acc:.2f} grad norm {norm:.3f}")
        running = 0.0
