import torch


def laplace_nll(mu, b, depth):
    """Negative log likelihood of a Laplace distribution for every pixel."""
    return (depth - mu).abs() / b + torch.log(2 * b)


def batch_mean(per_image, valid):
    """Mean over the images of a batch; images without any valid depth do not count."""
    return per_image.nansum() / valid.flatten(1).any(1).sum().clamp(min=1)


def masked_mean(value, valid):
    n = valid.flatten(1).sum(1)
    return torch.where(valid, value, value.new_zeros(())).flatten(1).sum(1) / n
