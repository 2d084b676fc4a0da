import math

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
words = torch.randint(20, (64, 33))
for epoch in range(3):
    for batch in words.split(16):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    total, count = torch.zeros((), dtype=torch.float16), 0
    with torch.no_grad():
        for batch in words.split(16):
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(batch[:, :-1])
            each = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
            total = total + each.half().sum() * 20  # fault: overflow AMP510
            count += each.numel() * 20
        print(f"epoch {epoch} perplexity {math.exp((total / count).item()):.2f}")
    model.train()
