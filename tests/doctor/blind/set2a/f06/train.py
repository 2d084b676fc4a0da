import itertools
import json
import os
import tempfile

import torch

import hmm

CONFIG = json.loads('{"states": 5, "symbols": 6, "batch": 24, "lengths": [3, 4, 5, 12, 14], "per_length": 10, "lr": 0.08}')


def write_corpus(path):
    g = torch.Generator().manual_seed(17)
    teacher = hmm.new_raw(CONFIG["states"], CONFIG["symbols"], g)
    teacher["emit"].data.mul_(2.5)
    with open(path, "w") as fh:
        for length in CONFIG["lengths"]:
            for _ in range(CONFIG["per_length"] * CONFIG["batch"]):
                row = hmm.sample(teacher, 1, length, g)[0].tolist()
                fh.write(" ".join(map(str, row)) + "\n")


def buckets(path):
    with open(path) as fh:
        rows = [list(map(int, line.split())) for line in fh]
    for length, group in itertools.groupby(rows, key=len):
        group = list(group)
        for i in range(0, len(group), CONFIG["batch"]):
            yield length, torch.tensor(group[i:i + CONFIG["batch"]])


def fit(source):
    raw = hmm.new_raw(CONFIG["states"], CONFIG["symbols"], torch.Generator().manual_seed(4))
    opt = torch.optim.SGD(list(raw.values()), lr=CONFIG["lr"], momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    obs_seen = 0
    for length, obs in source:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            prob = hmm.likelihood(raw, obs)
            nll = -torch.log(prob).mean() / length
        scaler.scale(nll).backward()
        scaler.step(opt)
        scaler.update()
        obs_seen += obs.numel()
        yield length, nll.item(), obs_seen, scaler.get_scale()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "corpus.txt")
        write_corpus(path)
        report = {}
        for length, nll, seen, scale in fit(buckets(path)):
            report.setdefault(length, []).append(nll)
        for length, values in report.items():
            print(f"length {length:2d}: nll per symbol {sum(values) / len(values):.4f}")
        print(f"{seen} symbols, last scale {scale}")


if __name__ == "__main__":
    main()
