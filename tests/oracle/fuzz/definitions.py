"""What random programs may use beside the library. Run once for each library, as `torch`."""

import torch

log = []


def total(value):
    """A scalar that every element of the results has a part in."""
    if not isinstance(value, torch.Tensor):
        return sum(total(v) for v in value)
    if value.is_complex():
        value = torch.view_as_real(value)
    return (value * value).sum() + value.sum() if value.is_floating_point() else 0.0


def floats(value):
    """The floating point tensors among the results."""
    if not isinstance(value, torch.Tensor):
        return tuple(f for v in value for f in floats(v))
    return (value,) if value.is_floating_point() else ()


def seen(grad):
    """A hook that changes nothing."""
    log.append(None if grad is None else grad.detach().clone())


def node_seen(*grads):
    """A hook of a node, before or after it runs."""
    log.append([[g is None for g in part] for part in grads])


def looped(function, in_dims=0, out_dims=0):
    """vmap as a loop."""

    def stacked(results):
        if isinstance(results[0], torch.Tensor):
            return torch.stack(results, out_dims)
        return tuple(stacked(parts) for parts in zip(*results, strict=True))

    return lambda batch: stacked([function(u) for u in batch.unbind(in_dims)])


def jacobian(function):
    return lambda x: torch.autograd.functional.jacobian(function, x)


def hessian(function):
    return lambda x: torch.autograd.functional.hessian(function, x)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * grad * x * x


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        return x + 1, x * 2, positive

    @staticmethod
    def backward(ctx, first, second, _):
        log.append((ctx.needs_input_grad, first is None, second is None))
        return sum(g * k for g, k in ((first, 1), (second, 2)) if g is not None)


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.transpose(0, -1)

    @staticmethod
    def backward(ctx, grad):
        return grad.transpose(0, -1)


class Softened(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, scale):
        return (x * scale).tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y) * ctx.scale, None

    @staticmethod
    def jvp(ctx, tangent, _):
        (y,) = ctx.saved_tensors
        return tangent * (1 - y * y) * ctx.scale
