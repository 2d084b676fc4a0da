import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from callbacks import CallbackList, LossLogger, MaxNorm, WarmupLR
from textmodel import GRULanguageModel, PhraseSet


class Learner:
    def __init__(self, model, optimizer, loader, callbacks, accumulate=1):
        self.model = model
        self.optimizer = optimizer
        self.loader = loader
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.callbacks = CallbackList(callbacks, self)
        self.accumulate = accumulate
        self.global_step = 0
        self.loss = None

    def compute(self, tokens):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(tokens[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)

    def train_batch(self, index, tokens):
        loss = self.compute(tokens)
        self.scaler.scale(loss / self.accumulate).backward()
        self.loss = loss.item()
        if (index + 1) % self.accumulate == 0:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            self.global_step += 1
            self.callbacks.fire("on_step_end")

    def fit(self, epochs):
        self.callbacks.fire("on_train_begin")
        for self.epoch in range(epochs):
            self.model.train()
            for index, tokens in enumerate(self.loader):
                self.train_batch(index, tokens)
            self.callbacks.fire("on_epoch_end")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--max-norm", type=float, default=3.0)
    opt = parser.parse_args()
    torch.manual_seed(2)
    net = GRULanguageModel(vocab=48, dim=24, hidden=48)
    adam = torch.optim.Adam(net.parameters(), lr=opt.lr)
    train_loader = DataLoader(PhraseSet(320, vocab=48), batch_size=opt.batch_size, shuffle=True)
    hooks = [WarmupLR(adam, steps=8), MaxNorm(net.embed, opt.max_norm), LossLogger(every=5)]
    Learner(net, adam, train_loader, hooks, opt.accumulate).fit(opt.epochs)
