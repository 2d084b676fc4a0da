import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from classifier import TextClassifier
from corpus import Headlines


def load_vectors(path):
    blob = torch.load(path, map_location="cpu")
    return blob["words"], blob["vectors"]


def evaluate(model, words):
    model.eval()
    hit = n = 0
    with torch.inference_mode():
        for ids, y in Headlines(words, 5, 64, seed=123):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hit += (model(ids).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vectors", default=str(Path(__file__).parent / "assets" / "vectors.pt"))
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(6)

    words, vectors = load_vectors(args.vectors)
    model = TextClassifier(vectors)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(params, lr=args.lr)
    loader = DataLoader(Headlines(words, args.steps, args.batch), batch_size=None)

    model.train()
    for step, (ids, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        if step % 6 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"accuracy {evaluate(model, words):.3f}")


if __name__ == "__main__":
    main()
