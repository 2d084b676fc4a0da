import sys

import torch
import torch.nn.functional as F

from decoder import CharLM, beam, sample

TARGET = 0.9
MAX_STEPS = 160

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog. " * 200
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
gen = torch.Generator().manual_seed(1)
model = CharLM(len(chars))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu")

status = 0
for step in range(MAX_STEPS):
    at = torch.randint(0, len(data) - 33, (16,), generator=gen)
    x = torch.stack([data[i:i + 32] for i in at])
    y = torch.stack([data[i + 1:i + 33] for i in at])
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")
    if loss.item() < TARGET:
        print(f"reached {TARGET} at step {step}")
        status = 3
        break

model.eval()
with torch.autocast("cpu", dtype=torch.float16):
    out = sample(model, data[None, :8], 40, generator=gen)
    seq, score = beam(model, data[None, :8], 20)
print("sample:", "".join(chars[i] for i in out[0]))
print("beam:  ", "".join(chars[i] for i in seq), f"({score:.2f})")
sys.exit(status)
