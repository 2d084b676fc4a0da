"""What switches gradients off and on, and what ends them."""

from __future__ import annotations

# A context or decorator without gradients; `inference_mode(False)` is one with them.
NO_GRAD = {
    f"torch.{home}{name}" for home in ("", "autograd.", "autograd.grad_mode.") for name in ("no_grad", "inference_mode")
}
# One with them, whatever is round it.
ENABLE_GRAD = {f"torch.{home}enable_grad" for home in ("", "autograd.", "autograd.grad_mode.")}
# One that is told which; called as a statement, it acts at once.
SET_GRAD = {f"torch.{home}set_grad_enabled" for home in ("", "autograd.", "autograd.grad_mode.")}
# Attributes and methods of a tensor whose results have no gradients.
ENDS_GRADIENTS = ("detach", "item", "data", "shape", "size", "tolist", "numpy")
