import torch
from torch import nn


class Viterbi(nn.Module):
    def __init__(self):
        super().__init__()
        self.emission = nn.Linear(6, 4)
        self.register_buffer("transition", torch.full((4, 4), float("-inf")).triu(2).nan_to_num(nan=0.0, neginf=float("-inf")))

    def forward(self, x):
        scores = self.emission(x).float().log_softmax(-1)
        best = torch.full((x.shape[0], 4), float("-inf"))
        best[:, 0] = scores[:, 0, 0]
        for at in range(1, x.shape[1]):
            best = (best.unsqueeze(2) + self.transition).amax(1) + scores[:, at]
        return best


torch.manual_seed(0)
model = Viterbi().eval()
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
    for _ in range(4):
        best = model(torch.randn(3, 2, 6))
        print(best.max().item(), best.min().item())
