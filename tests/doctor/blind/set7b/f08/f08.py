"""Sentiment classifier on top of pretrained word vectors."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 32
POS = "good great lovely superb warm bright".split()
NEG = "bad awful dull weak cold poor".split()
FILL = "the a film plot actor scene music story was very quite and with of".split()
RARE = ["kafkaesque", "bildungsroman"]


def pretrained_vectors(words, seed=0):
    """Stand-in for a vector file: a dict word -> tensor, rare words are missing."""
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(DIM, generator=g)
    table = {}
    for w in words:
        if w in RARE:
            continue
        sign = 1.0 if w in POS else -1.0 if w in NEG else 0.0
        table[w] = sign * base + 0.7 * torch.randn(DIM, generator=g)
    return table


def build_embedding(vocab, table):
    weight = torch.zeros(len(vocab), DIM)
    hits = 0
    for word, idx in vocab.items():
        if word in table:
            weight[idx] = table[word]
            hits += 1
    print(f"{hits}/{len(vocab)} words found in the vector table")
    weight = weight / weight.norm(dim=1, keepdim=True)
    return nn.Embedding.from_pretrained(weight, freeze=False)


def make_reviews(n, rng):
    out = []
    for i in range(n):
        label = i % 2
        pool = POS if label else NEG
        words = rng.choices(FILL, k=9) + rng.choices(pool, k=3)
        if i in (n - 41, n - 16):
            words[0] = RARE[i % 2]
        rng.shuffle(words)
        out.append((words, label))
    return out


class BagClassifier(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.hidden = nn.Linear(DIM, 64)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(64, 2)

    def forward(self, ids):
        pooled = self.embedding(ids).mean(1)
        return self.out(self.drop(torch.tanh(self.hidden(pooled))))


def main():
    torch.manual_seed(1)
    rng = random.Random(1)
    vocab = {w: i for i, w in enumerate(FILL + POS + NEG + RARE)}
    model = BagClassifier(build_embedding(vocab, pretrained_vectors(vocab)))
    data = make_reviews(480, rng)
    opt = torch.optim.Adam(
        [
            {"params": model.embedding.parameters(), "lr": 1e-3},
            {"params": [*model.hidden.parameters(), *model.out.parameters()], "lr": 5e-3},
        ]
    )
    for epoch in range(2):
        for b in range(0, len(data), 16):
            chunk = data[b:b + 16]
            ids = torch.tensor([[vocab[w] for w in words] for words, _ in chunk])
            y = torch.tensor([lab for _, lab in chunk])
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(ids)
            loss = F.cross_entropy(logits.float(), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if (b // 16) % 5 == 4:
                print(f"epoch {epoch} batch {b // 16} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
