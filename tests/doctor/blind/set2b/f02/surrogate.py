import torch


class SigmoidSurrogate(torch.autograd.Function):
    """Heaviside spike with the derivative of a steep sigmoid on the way back."""

    @staticmethod
    def forward(ctx, v, slope):
        ctx.save_for_backward(v)
        ctx.slope = slope
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, grad_out):
        (v,) = ctx.saved_tensors
        e = torch.exp(-ctx.slope * v)
        ds = ctx.slope * e / (1 + e) ** 2
        return grad_out * ds, None


def spike(v, slope=3.0):
    return SigmoidSurrogate.apply(v, slope)
