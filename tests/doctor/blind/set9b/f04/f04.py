import argparse
import math

import torch
from torch.utils.data import DataLoader

from features import UtteranceSet, pad_batch
from model import SpeakerNet
from objective import AdditiveMarginSoftmax


class SpeakerTrainer:
    def __init__(self, opts):
        self.opts = opts
        self.net = SpeakerNet(opts.n_mels, opts.width, opts.embed)
        self.head = AdditiveMarginSoftmax(opts.embed, opts.speakers, margin=0.1, scale=15.0)
        params = list(self.net.parameters()) + list(self.head.parameters())
        self.optimizer = torch.optim.Adam(params, lr=opts.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        data = UtteranceSet(opts.utterances, opts.speakers, opts.n_mels)
        self.loader = DataLoader(data, batch_size=opts.batch_size, shuffle=True, collate_fn=pad_batch)
        total = opts.epochs * len(self.loader)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * min(s / total, 1.0))))

    def train_one_epoch(self, epoch):
        running, correct, seen = 0.0, 0, 0
        for i, (feats, lengths, speakers) in enumerate(self.loader):
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                emb = self.net(feats, lengths)
                loss, logits = self.head(emb, speakers)
            self.scaler.scale(loss).backward()
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() >= before:
                self.scheduler.step()
            running += loss.item()
            correct += (logits.argmax(1) == speakers).sum().item()
            seen += len(speakers)
            if i % self.opts.log_every == 0:
                print(f"epoch {epoch} iter {i} loss {loss.item():.4f} scale {self.scaler.get_scale():.1f}")
        print(f"epoch {epoch} done, loss {running / len(self.loader):.4f} acc {correct / seen:.3f}")

    def run(self):
        for epoch in range(self.opts.epochs):
            self.train_one_epoch(epoch)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--utterances", type=int, default=192)
    p.add_argument("--speakers", type=int, default=8)
    p.add_argument("--n-mels", type=int, default=24)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--embed", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-every", type=int, default=6)
    return p.parse_args()


if __name__ == "__main__":
    torch.manual_seed(7)
    SpeakerTrainer(parse()).run()
