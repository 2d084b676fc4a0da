import torch


def make_scaler(device, enabled=True):
    return torch.amp.GradScaler(
        device,
        init_scale=2.0 ** 16,
        growth_factor=4.0,
        backoff_factor=0.9,
        growth_interval=1,
        enabled=enabled,
    )
