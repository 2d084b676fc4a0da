import torch
import torch.nn as nn


class SoftQuantizer(nn.Module):
    def __init__(self, dim, codes, code_dim, tau_start=2.0, tau_end=0.02, decay=0.92):
        super().__init__()
        self.codes = codes
        self.to_logits = nn.Linear(dim, codes)
        self.codebook = nn.Linear(codes, code_dim, bias=False)
        self.tau_start, self.tau_end, self.decay = tau_start, tau_end, decay
        self.tau = tau_start

    def set_step(self, step):
        self.tau = max(self.tau_start * self.decay ** step, self.tau_end)

    def forward(self, h):
        logits = self.to_logits(h) / self.tau
        probs = logits.softmax(dim=-1)
        q = self.codebook(probs)
        avg = probs.flatten(0, -2).mean(0)
        entropy = -(avg * torch.log(avg + 1e-10)).sum()
        return q, {"perplexity": entropy.exp(), "probs": avg}

    def diversity(self, stats):
        return (self.codes - stats["perplexity"]) / self.codes
