import torch
import torch.nn as nn
import torch.nn.functional as F

# Multi-task text tagger: one trunk, a topic head and a rating head.
torch.manual_seed(31)
VOCAB, LEN, TOPICS = 120, 16, 5
valence = torch.randn(VOCAB)


def fetch(n):
    topic = torch.randint(0, TOPICS, (n,))
    own = topic[:, None] * 20 + torch.randint(0, 20, (n, LEN))
    other = torch.randint(0, VOCAB, (n, LEN))
    words = torch.where(torch.rand(n, LEN) < 0.5, own, other)
    rating = valence[words].mean(1) * 4.0
    return words, topic, rating


class Trunk(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.fc = nn.Linear(d, d)

    def forward(self, w):
        return F.gelu(self.fc(self.emb(w))).mean(1)


trunk = Trunk()
topic_head = nn.Linear(40, TOPICS)
rating_head = nn.Sequential(nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 1))
modules = nn.ModuleDict({"trunk": trunk, "topic": topic_head, "rating": rating_head})
optimizer = torch.optim.SGD(modules.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")

for it in range(1, 301):
    words, topic, rating = fetch(48)
    optimizer.zero_grad()
    # one task after the other, so that only one graph is alive at a time
    with torch.autocast("cpu", dtype=torch.float16):
        topic_loss = F.cross_entropy(topic_head(trunk(words)).float(), topic)
    scaler.scale(topic_loss).backward()
    with torch.autocast("cpu", dtype=torch.float16):
        rating_loss = F.mse_loss(rating_head(trunk(words)).squeeze(1).float(), rating)
    rating_loss.backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(modules.parameters(), 2.0)
    scaler.step(optimizer)
    scaler.update()
    if it % 50 == 0:
        with torch.no_grad():
            w, t, r = fetch(256)
            h = trunk(w)
            acc = (topic_head(h).argmax(1) == t).float().mean().item()
            mse = F.mse_loss(rating_head(h).squeeze(1), r).item()
        print(f"{it:4d} topic acc {acc:.3f}  rating mse {mse:.4f}  (rating variance {r.var().item():.4f})")
