import torch
from torch import nn


class Schedule(nn.Module):
    """Linear beta schedule; tables are kept small because they are indexed on every step."""

    def __init__(self, timesteps, beta_start=1e-4, beta_end=2e-2, table_dtype=torch.float16):
        super().__init__()
        betas = torch.linspace(beta_start, beta_end, timesteps)
        abar = torch.cumprod(1.0 - betas, dim=0)
        self.register_buffer("betas", betas)
        self.register_buffer("abar", abar.to(table_dtype))

    def diffuse(self, x0, t, eps):
        a = self.abar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    def weight(self, t):
        """Weights of the denoising score matching objective, flattened by a square root."""
        var = 1 - self.abar[t]
        return var.float().rsqrt()
