"""Input-driven hidden Markov model for symbol sequences (marginal likelihood by the forward pass)."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    states: int = 6
    symbols: int = 10
    length: int = 18
    covariates: int = 4
    batch: int = 64
    steps: int = 240
    lr: float = 1e-2
    seed: int = 7


def synthesize(cfg, n, generator):
    trans = torch.full((cfg.states, cfg.states), 0.05)
    trans += 0.8 * torch.roll(torch.eye(cfg.states), 1, 1)
    trans /= trans.sum(1, keepdim=True)
    emit = torch.full((cfg.states, cfg.symbols), 0.04)
    for k in range(cfg.states):
        emit[k, (2 * k) % cfg.symbols] += 0.7
    emit /= emit.sum(1, keepdim=True)
    u = torch.randn(n, cfg.covariates, generator=generator)
    state = (u[:, 0] > 0).long() * 3
    seq = []
    for _ in range(cfg.length):
        seq.append(torch.multinomial(emit[state], 1, generator=generator).squeeze(1))
        state = torch.multinomial(trans[state], 1, generator=generator).squeeze(1)
    return u, torch.stack(seq, 1)


class NeuralHMM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.start = nn.Sequential(nn.Linear(cfg.covariates, 24), nn.Tanh(), nn.Linear(24, cfg.states))
        self.trans_logits = nn.Parameter(0.5 * torch.randn(cfg.states, cfg.states))
        self.state_emb = nn.Parameter(torch.randn(cfg.states, 16))
        self.readout = nn.Linear(16, cfg.symbols)

    def log_likelihood(self, u, x):
        pi = torch.softmax(self.start(u), -1)
        trans = torch.softmax(self.trans_logits, -1)
        emission = torch.softmax(self.readout(self.state_emb), -1)
        obs = emission.t()[x]                      # batch, time, state
        alpha = pi * obs[:, 0]
        for t in range(1, x.shape[1]):
            alpha = (alpha @ trans) * obs[:, t]
        return alpha.sum(-1).log()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    generator = torch.Generator().manual_seed(cfg.seed)
    u, x = synthesize(cfg, 2048, generator)
    model = NeuralHMM(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = model.trans_logits.detach().clone()

    for step in range(cfg.steps):
        idx = torch.randint(len(u), (cfg.batch,), generator=generator)
        with torch.autocast("cpu", dtype=torch.float16):
            ll = model.log_likelihood(u[idx], x[idx])
        loss = -ll.float().mean() / cfg.length
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 40 == 0 or step == cfg.steps - 1:
            print(f"step {step:4d}  nll/symbol {loss.item():.4f}  scale {scaler.get_scale():g}")

    moved = (model.trans_logits.detach() - before).abs().max()
    print(f"largest change of a transition logit {moved:.4f}")
    print("learned successor of each state", model.trans_logits.argmax(1).tolist())


if __name__ == "__main__":
    main()
