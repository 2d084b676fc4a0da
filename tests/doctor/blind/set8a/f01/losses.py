import torch
import torch.nn as nn


class SupConLoss(nn.Module):
    """Supervised contrastive loss over a batch of normalised embeddings."""

    def __init__(self, temperature=0.07):
        super().__init__()
        self.temperature = temperature

    def forward(self, z, labels):
        n = z.shape[0]
        sim = z @ z.t() / self.temperature
        not_self = ~torch.eye(n, dtype=torch.bool, device=z.device)
        positives = (labels[:, None] == labels[None, :]) & not_self
        weights = torch.exp(sim) * not_self
        log_prob = sim - torch.log(weights.sum(1, keepdim=True))
        count = positives.sum(1).clamp(min=1)
        return -((log_prob * positives).sum(1) / count).float().mean()
