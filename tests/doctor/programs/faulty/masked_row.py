import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x, mask):
        scores = self.score(x).squeeze(-1).float()
        scores = scores.masked_fill(mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)  # fault: mask
        return self.head((weights.unsqueeze(-1) * x).sum(1))


torch.manual_seed(0)
model = Pool()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(15):
    x, y = torch.randn(5, 7, 8), torch.randint(0, 3, (5,))
    lengths = torch.randint(1, 8, (5,))
    if step == 9:
        lengths[3] = 0
    mask = torch.arange(7)[None] >= lengths[:, None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x, mask)
        loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(float(loss))
