import argparse
import pathlib
import random

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent


def load_vectors(path):
    vocab, rows = {}, []
    for line in path.read_text().splitlines():
        word, *numbers = line.split()
        vocab[word] = len(rows)
        rows.append([float(n) for n in numbers])
    return vocab, torch.tensor(rows)


def sentences(vocab, seed, epochs):
    """(words, label) pairs: is the sentence about the water? Ordinary words first, the long tail afterwards."""
    rng = random.Random(seed)
    words = list(vocab)
    water = {"river", "bridge", "harbour", "boat", "ship", "sail", "storm", "rain", "fish", "captain", "quay", "zephyr"}
    for epoch in range(epochs):
        known = words[:-2] if epoch < 5 else words
        for _ in range(96):
            picked = rng.choices(known, k=rng.randint(4, 8))
            yield picked, int(sum(w in water for w in picked) >= 2)


def bags(pairs, vocab, size):
    batch = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == size:
            flat = torch.tensor([vocab[w] for ws, _ in batch for w in ws])
            starts = torch.tensor([0] + [len(ws) for ws, _ in batch[:-1]]).cumsum(0)
            yield flat, starts, torch.tensor([float(y) for _, y in batch])
            batch = []


def build(vectors, hidden=24):
    g = torch.Generator().manual_seed(1)
    table = vectors.clone().requires_grad_()
    w1 = (torch.randn(hidden, vectors.shape[1], generator=g) * 0.25).requires_grad_()
    b1 = torch.zeros(hidden, requires_grad=True)
    w2 = (torch.randn(1, hidden, generator=g) * 0.2).requires_grad_()
    b2 = torch.zeros(1, requires_grad=True)

    def classify(flat, starts):
        pooled = F.embedding_bag(flat, table, starts, mode="mean")
        return F.linear(torch.relu(F.linear(pooled, w1, b1)), w2, b2).squeeze(1)

    return classify, dict(table=table, w1=w1, b1=b1, w2=w2, b2=b2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vectors", type=pathlib.Path, default=HERE / "vectors.txt")
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()

    vocab, vectors = load_vectors(args.vectors)
    classify, params = build(vectors)
    opt = torch.optim.AdamW(params.values(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    skipped = 0
    for step, (flat, starts, label) in enumerate(bags(sentences(vocab, 5, args.epochs), vocab, 16)):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.binary_cross_entropy_with_logits(classify(flat, starts).float(), label)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        before = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < before
        if step % 6 == 5:
            print(f"step {step + 1:2d} loss {loss.item():.4f} skipped {skipped}")


if __name__ == "__main__":
    main()
