import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
later = torch.tensor([False, False, False, True, True])  # classes that have not come yet


def entropy(logits: torch.Tensor) -> torch.Tensor:
    probabilities = logits.float().softmax(1)
    return -(probabilities * probabilities.log()).sum(1).mean()


for step in range(12):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x).masked_fill(later, -torch.inf)
        loss = nn.functional.cross_entropy(logits, y)
    shown = f"lowest before {logits.min().item()} {float(entropy(logits))}"
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(shown, "after", logits.min().item(), torch.nan_to_num(entropy(logits), 0.0).item(), loss.item())
    if step % 4 == 3:
        seen = model(torch.randn(8, 6)).masked_fill(later, -torch.inf)
        print("others", seen.amin(1).mean().item(), bool(torch.isinf(seen.min())))
