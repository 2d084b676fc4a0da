from f07.data import ClipSet, make_corpus
from f07.model import KeywordNet

import torch
from torch.utils.data import DataLoader
import torch.nn.functional as F

torch.manual_seed(4)
EPOCHS = 3

corpus = make_corpus(160, classes=5, seed=4)
loader = DataLoader(ClipSet(corpus), batch_size=16, shuffle=True)
model = KeywordNet(n_mels=20, classes=5)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=EPOCHS * len(loader))

for epoch in range(EPOCHS):
    model.train()
    total, right, seen = 0.0, 0, 0
    for feats, target in loader:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            logits = model(feats)
            loss = F.cross_entropy(logits, target, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        scheduler.step()
        total += loss.item()
        right += (logits.argmax(1) == target).sum().item()
        seen += len(target)
    print(f"epoch {epoch + 1}: loss {total / len(loader):.4f} accuracy {right / seen:.3f}")
