#!/usr/bin/env python3
"""Compute the reference cases in torch/ with PyTorch's autograd, in float64.

    make_torch_cases.py [--out torch] [--only PREFIX ...]

Every case draws its numbers from its own generator, seeded by SEED and the name
of the case, so a case does not change when others are added.  Inputs,
parameters and upstream gradients are rounded to float32 first: the same file
then serves a float32 test (its inputs are exact) and a float64 test.
"""
import argparse
import os
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F

import case_io

SEED = 20240917
F64 = torch.float64


# --------------------------------------------------------------------------
# Drawing numbers
# --------------------------------------------------------------------------

def to_float32(values):
    """Round to float32 and widen again, so that float32 code sees equal inputs."""
    return np.asarray(values, dtype=np.float64).astype(np.float32).astype(np.float64)


def to_grid(values, step=1.0 / 32, limit=3.96875):
    """Round to multiples of 1/32 below 4: exact in bfloat16 and in half too."""
    return np.clip(np.round(np.asarray(values) / step) * step, -limit, limit)


class Draw:
    """The random numbers of one case."""

    def __init__(self, name, seed=SEED, rounding=to_float32):
        # RandomState's stream is frozen, so it is the same in every numpy.
        self.rng = np.random.RandomState((seed + zlib.crc32(name.encode())) % 2**32)
        self.rounding = rounding

    def normal(self, *shape, mean=0.0, std=1.0):
        return self.rounding(mean + std * self.rng.standard_normal(shape))

    def gamma(self, *shape):
        return self.rounding(1.0 + 0.25 * self.rng.standard_normal(shape))

    def beta(self, *shape):
        return self.rounding(0.5 * self.rng.standard_normal(shape))

    def weight(self, rows, cols):
        return self.rounding(self.rng.standard_normal((rows, cols)) / np.sqrt(cols))


def leaf(array):
    """A tensor whose gradient is wanted; None stays None."""
    return None if array is None else torch.tensor(array, dtype=F64, requires_grad=True)


def plain(tensor):
    return tensor.detach().numpy()


def grads_of(y, grad_output, leaves):
    """Gradients of sum(y * grad_output) with respect to the leaves by name."""
    y.backward(torch.tensor(grad_output, dtype=F64))
    return {name: plain(t.grad) for name, t in leaves.items() if t is not None}


def present(**arrays):
    """The arrays that are not None."""
    return {name: value for name, value in arrays.items() if value is not None}


class Writer:
    def __init__(self, folder, only=("",)):
        self.folder = folder
        self.only = tuple(only)     # write only cases whose names start like this
        self.count = 0
        os.makedirs(folder, exist_ok=True)

    def write(self, name, op, attributes, inputs, outputs, grad_output=None,
              grads=None, scales=None, note=None, source=None):
        if not name.startswith(self.only):
            return
        source = "torch %s, float64, %s" % (torch.__version__.split("a")[0],
                                            source or "autograd")
        case_io.write_case(os.path.join(self.folder, name + ".json"), source, op,
                           attributes, inputs, outputs, grad_output, grads, scales, note)
        self.count += 1


# --------------------------------------------------------------------------
# Magnitudes that rounding errors are measured by
# --------------------------------------------------------------------------

def largest(array):
    array = np.abs(np.asarray(array))
    array = array[np.isfinite(array)]
    return float(array.max()) if array.size else 0.0


def norm_scales(rows, rstd, gamma, beta, dy, centered=True):
    """The "scale" members of a normalization case.

    rows: x as (rows, d), one row for each mean and variance; rstd: (rows, 1);
    gamma, beta: None or of a shape that broadcasts with rows; dy: like rows.
    `size` bounds the terms that are subtracted to give the normalized value, so
    a rounding error u in the mean shows up as about u * size in it.
    """
    with np.errstate(all="ignore"):
        g = np.ones_like(rows) if gamma is None else np.broadcast_to(gamma, rows.shape)
        size = np.abs(rows).max(axis=1, keepdims=True) * rstd
        scales = {
            "y": largest(size * np.abs(g).max()) + (0.0 if beta is None else largest(beta)),
            "mean": largest(rows),
            "rstd": largest(rstd),
            "grad:x": largest(rstd * np.abs(dy * g).max(axis=1, keepdims=True) * (1.0 + size)),
            "grad:gamma": largest(np.sum(np.abs(dy) * size, axis=0)),
            "grad:beta": largest(np.sum(np.abs(dy), axis=0)),
        }
    if not centered:
        del scales["mean"]
    return scales


def row_centres(rows):
    """One number near each row's mean, so that subtracting it is exact.

    Layer, batch, group and instance norm do not change when a constant is
    subtracted from a row.  Giving torch the rows less their centres keeps the
    reference itself free of cancellation (torch computes x*rstd - mean*rstd,
    which is not even exactly zero on a constant row).  Inputs hold float32
    values, so the difference to a float32 centre is nearly always exact in
    float64; rows where it is not, and rows with NaN or Inf, keep centre zero.
    """
    with np.errstate(all="ignore"):
        centres = to_float32(rows.mean(axis=1, keepdims=True))
        centres[~np.isfinite(centres)] = 0.0
        exact = rows.astype(np.longdouble) - centres.astype(np.longdouble)
        exact_back = exact + centres.astype(np.longdouble)
        good = (exact == (rows - centres)) & (exact_back == rows) & np.isfinite(rows)
    return np.where(good.all(axis=1, keepdims=True), centres, 0.0)


# --------------------------------------------------------------------------
# LayerNorm and RMSNorm
# --------------------------------------------------------------------------

def layer_norm_case(out, name, x, normalized_ndim=1, affine="gamma_beta", eps=1e-5,
                    draw=None, gamma=None, beta=None, note=None):
    shape = x.shape[x.ndim - normalized_ndim:]
    d = int(np.prod(shape))
    flat = lambda a: None if a is None else np.asarray(a).reshape(-1, d)
    if affine != "none" and gamma is None:
        gamma = draw.gamma(*shape)
    if affine == "gamma_beta" and beta is None:
        beta = draw.beta(*shape)
    dy = draw.normal(*x.shape)
    centres = row_centres(flat(x))
    tx, tg, tb = leaf((flat(x) - centres).reshape(x.shape)), leaf(gamma), leaf(beta)
    y, mean, rstd = torch.native_layer_norm(tx, list(shape), tg, tb, eps)
    assert torch.equal(y.nan_to_num(), F.layer_norm(tx, shape, tg, tb, eps).nan_to_num())
    grads = grads_of(y, dy, {"x": tx, "gamma": tg, "beta": tb})
    scales = norm_scales(flat(x), plain(rstd).reshape(-1, 1), flat(gamma), flat(beta), flat(dy))
    outputs = {"y": plain(y), "mean": plain(mean) + centres.reshape(mean.shape),
               "rstd": plain(rstd)}
    if np.isinf(x).any():
        # Torch's mean of a row with Inf is NaN, the plain formula's is Inf; y is
        # NaN in both, so the mean is no business of the case.
        del outputs["mean"]
    out.write(name, "LayerNorm",
              {"epsilon": eps, "normalized_shape": list(shape), "affine": affine},
              present(x=x, gamma=gamma, beta=beta), outputs, dy, grads, scales, note)


def rms_norm(x, gamma, eps, ndim=1, gamma_offset=0.0):
    """x / sqrt(mean(x^2) + eps) * (gamma_offset + gamma)"""
    axes = tuple(range(-ndim, 0))
    rms = torch.sqrt((x * x).mean(dim=axes, keepdim=True) + eps)
    y = x / rms
    if gamma is not None:
        y = y * (gamma_offset + gamma if gamma_offset else gamma)
    return y, 1.0 / rms


def rms_norm_case(out, name, x, normalized_ndim=1, affine="gamma", eps=1e-5,
                  gamma_offset=0.0, draw=None, gamma=None, note=None):
    shape = x.shape[x.ndim - normalized_ndim:]
    if affine != "none" and gamma is None:
        gamma = draw.normal(*shape, std=0.25) if gamma_offset else draw.gamma(*shape)
    dy = draw.normal(*x.shape)
    tx, tg = leaf(x), leaf(gamma)
    y, rstd = rms_norm(tx, tg, eps, normalized_ndim, gamma_offset)
    grads = grads_of(y, dy, {"x": tx, "gamma": tg})
    d = int(np.prod(shape))
    flat = lambda a: None if a is None else np.asarray(a).reshape(-1, d)
    factor = None if gamma is None else flat(gamma_offset + gamma)
    scales = norm_scales(flat(x), plain(rstd).reshape(-1, 1), factor, None, flat(dy),
                         centered=False)
    out.write(name, "RMSNorm",
              {"epsilon": eps, "normalized_shape": list(shape), "affine": affine,
               "gamma_offset": gamma_offset},
              present(x=x, gamma=gamma), {"y": plain(y), "rstd": plain(rstd)},
              dy, grads, scales, note)


def layer_and_rms_cases(out):
    def both(name, shape, ndim=1, eps=1e-5, make=None, rounding=to_float32):
        make = make or (lambda draw: draw.normal(*shape))
        for prefix in ("layernorm_", "rmsnorm_"):
            draw = Draw(prefix + name, rounding=rounding)
            x = make(draw)
            if prefix == "layernorm_":
                layer_norm_case(out, prefix + name, x, ndim, eps=eps, draw=draw)
            else:
                rms_norm_case(out, prefix + name, x, ndim, eps=eps, draw=draw)

    both("2x5x64", (2, 5, 64))
    both("3x7", (3, 7))
    both("1x1x33", (1, 1, 33))
    both("4x1", (4, 1))
    both("2x3x4x5_last1", (2, 3, 4, 5))
    both("2x3x4x5_last2", (2, 3, 4, 5), ndim=2)
    both("2x3x4x5_last3", (2, 3, 4, 5), ndim=3)
    both("3x16_eps1e-5", (3, 16), eps=1e-5)
    both("3x16_eps1e-6", (3, 16), eps=1e-6)
    both("3x16_eps1e-12", (3, 16), eps=1e-12)
    both("3x16_eps0.1", (3, 16), eps=0.1)
    both("4x32_large_mean", (4, 32),
         make=lambda draw: draw.normal(4, 32, mean=1e4))

    def constant_rows(draw):
        x = draw.normal(4, 8)
        x[1] = 3.25    # not zero, no spread
        x[2] = 0.0     # all zero
        return x
    both("4x8_constant_rows", (4, 8), make=constant_rows)
    both("3x16_tiny_variance", (3, 16), make=lambda draw: draw.normal(3, 16, std=1e-4))
    both("3x16_tiny_variance_eps1e-12", (3, 16), eps=1e-12,
         make=lambda draw: draw.normal(3, 16, std=1e-4))
    both("3x16_tiny_variance_around_1", (3, 16), eps=1e-12,
         make=lambda draw: draw.normal(3, 16, mean=1.0, std=1e-4))
    both("4x32_grid", (4, 32), rounding=to_grid)
    both("2x3x24_grid", (2, 3, 24), rounding=to_grid)

    for affine in ("none", "gamma"):
        for shape in ((2, 5, 16), (3, 7)):
            name = "layernorm_%s_affine_%s" % ("x".join(map(str, shape)), affine)
            draw = Draw(name)
            layer_norm_case(out, name, draw.normal(*shape), affine=affine, draw=draw)
    draw = Draw("rmsnorm_2x5x16_affine_none")
    rms_norm_case(out, "rmsnorm_2x5x16_affine_none", draw.normal(2, 5, 16),
                  affine="none", draw=draw)

    for shape, eps in (((2, 5, 64), 1e-6), ((3, 7), 1e-6), ((3, 16), 1e-5)):
        name = "rmsnorm_gemma_" + "x".join(map(str, shape))
        draw = Draw(name)
        rms_norm_case(out, name, draw.normal(*shape), eps=eps, gamma_offset=1.0, draw=draw)
    draw = Draw("rmsnorm_gemma_4x32_grid", rounding=to_grid)
    rms_norm_case(out, "rmsnorm_gemma_4x32_grid", draw.normal(4, 32), eps=1e-6,
                  gamma_offset=1.0, draw=draw)


# --------------------------------------------------------------------------
# BatchNorm, GroupNorm, InstanceNorm
# --------------------------------------------------------------------------

AFFINE = {True: "gamma_beta", False: "none"}   # the attribute "affine" of a case


def channels_as_rows(x):
    """(N, C, ...) -> (C, N * ...)"""
    return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)


def row_rstd(rows, eps):
    with np.errstate(all="ignore"):
        return 1.0 / np.sqrt(rows.var(axis=1, keepdims=True) + eps)


def batch_norm_train_case(out, name, xs, momentum=0.1, affine=True, track=True,
                          eps=1e-5, draw=None, note=None):
    """One or more training steps; the gradients are those of the last step."""
    channels, steps = xs[0].shape[1], len(xs)
    gamma, beta = (draw.gamma(channels), draw.beta(channels)) if affine else (None, None)
    dy = draw.normal(*xs[-1].shape)
    layer = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d,
             5: torch.nn.BatchNorm3d}[xs[0].ndim](
        channels, eps=eps, momentum=momentum, affine=affine,
        track_running_stats=track, dtype=F64)
    layer.train()
    if affine:
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(gamma))
            layer.bias.copy_(torch.tensor(beta))
    inputs, outputs = present(gamma=gamma, beta=beta), {}
    if track:
        inputs["running_mean"] = plain(layer.running_mean).copy()
        inputs["running_var"] = plain(layer.running_var).copy()
    for k, x in enumerate(xs, 1):
        centres = row_centres(channels_as_rows(x))
        last = leaf(x - centres.reshape((1, channels) + (1,) * (x.ndim - 2)))
        if track:  # the running mean moves along with the inputs
            layer.running_mean = layer.running_mean - torch.tensor(centres[:, 0])
        y = layer(last)
        inputs["x_step%d" % k], outputs["y_step%d" % k] = x, plain(y)
        if track:
            layer.running_mean = layer.running_mean + torch.tensor(centres[:, 0])
            outputs["running_mean_step%d" % k] = plain(layer.running_mean).copy()
            outputs["running_var_step%d" % k] = plain(layer.running_var).copy()
    if track:
        outputs["num_batches_tracked"] = plain(layer.num_batches_tracked)
    leaves = {"x_step%d" % steps: last}
    if affine:
        leaves.update(gamma=layer.weight, beta=layer.bias)
    grads = grads_of(y, dy, leaves)

    scales = {}
    for k, x in enumerate(xs, 1):
        rows = channels_as_rows(x)
        rstd = row_rstd(rows, eps)
        column = lambda a: None if a is None else a.reshape(-1, 1)
        s = norm_scales(channels_as_rows(x), rstd, column(gamma), column(beta),
                        channels_as_rows(dy if k == steps else np.zeros_like(x)))
        scales["y_step%d" % k] = s["y"]
        scales["running_mean_step%d" % k] = s["mean"]
    scales["grad:x_step%d" % steps] = s["grad:x"]
    rows_dy = np.abs(channels_as_rows(dy))
    size = np.abs(channels_as_rows(xs[-1])).max(axis=1, keepdims=True) * rstd
    scales["grad:gamma"] = largest((rows_dy * size).sum(axis=1))
    scales["grad:beta"] = largest(rows_dy.sum(axis=1))
    out.write(name, "BatchNorm",
              {"epsilon": eps, "momentum": momentum, "training": True, "steps": steps,
               "affine": AFFINE[affine], "track_running_stats": track},
              inputs, outputs, dy, grads, scales, note)


def batch_norm_eval_case(out, name, x, affine=True, eps=1e-5, draw=None, note=None):
    channels = x.shape[1]
    gamma, beta = (draw.gamma(channels), draw.beta(channels)) if affine else (None, None)
    running_mean = draw.normal(channels)
    running_var = draw.rounding(0.5 + np.abs(draw.rng.standard_normal(channels)))
    dy = draw.normal(*x.shape)
    tx, tg, tb = leaf(x), leaf(gamma), leaf(beta)
    y = F.batch_norm(tx, torch.tensor(running_mean), torch.tensor(running_var), tg, tb,
                     training=False, eps=eps)
    grads = grads_of(y, dy, {"x": tx, "gamma": tg, "beta": tb})
    out.write(name, "BatchNorm",
              {"epsilon": eps, "training": False, "affine": AFFINE[affine],
               "track_running_stats": True},
              present(x=x, gamma=gamma, beta=beta, running_mean=running_mean,
                      running_var=running_var),
              {"y": plain(y)}, dy, grads, note=note)


def batch_norm_cases(out):
    shapes = {"batchnorm1d_5x4": (5, 4), "batchnorm1d_3x4x6": (3, 4, 6),
              "batchnorm2d_2x3x4x5": (2, 3, 4, 5)}
    for base, shape in shapes.items():
        for momentum, label in ((0.1, "momentum0.1"), (None, "cumulative")):
            for steps in (1, 3):
                name = "%s_train_%s_%dstep" % (base, label, steps)
                draw = Draw(name)
                xs = [draw.normal(*shape, mean=0.5 * k, std=1.0 + 0.5 * k)
                      for k in range(steps)]
                batch_norm_train_case(out, name, xs, momentum, draw=draw)
        name = base + "_train_no_affine"
        draw = Draw(name)
        batch_norm_train_case(out, name, [draw.normal(*shape)], affine=False, draw=draw)
        name = base + "_train_no_tracking"
        draw = Draw(name)
        batch_norm_train_case(out, name, [draw.normal(*shape)], track=False, draw=draw)
        name = base + "_eval"
        draw = Draw(name)
        batch_norm_eval_case(out, name, draw.normal(*shape), draw=draw)
        name = base + "_eval_no_affine"
        draw = Draw(name)
        batch_norm_eval_case(out, name, draw.normal(*shape), affine=False, draw=draw)
    name = "batchnorm1d_6x4_train_large_mean"
    draw = Draw(name)
    batch_norm_train_case(out, name, [draw.normal(6, 4, mean=1e4)], draw=draw)
    name = "batchnorm1d_6x4_train_constant_channel"
    draw = Draw(name)
    x = draw.normal(6, 4)
    x[:, 2] = -1.5
    batch_norm_train_case(out, name, [x], draw=draw)
    name = "batchnorm1d_6x4_train_eps1e-3"
    draw = Draw(name)
    batch_norm_train_case(out, name, [draw.normal(6, 4)], eps=1e-3, draw=draw)


def group_norm_case(out, name, x, groups, affine=True, eps=1e-5, draw=None,
                    op="GroupNorm", note=None):
    """Group norm; instance norm is the case of one channel in each group."""
    n, channels = x.shape[:2]
    gamma, beta = (draw.gamma(channels), draw.beta(channels)) if affine else (None, None)
    dy = draw.normal(*x.shape)
    # One row for each (sample, group).
    rows = lambda a: np.asarray(a).reshape(n * groups, -1)
    tx = leaf((rows(x) - row_centres(rows(x))).reshape(x.shape))
    tg, tb = leaf(gamma), leaf(beta)
    if op == "GroupNorm":
        y = F.group_norm(tx, groups, tg, tb, eps)
        attributes = {"epsilon": eps, "num_groups": groups, "affine": AFFINE[affine]}
    else:
        y = F.instance_norm(tx, weight=tg, bias=tb, eps=eps)
        attributes = {"epsilon": eps, "affine": AFFINE[affine]}
    grads = grads_of(y, dy, {"x": tx, "gamma": tg, "beta": tb})

    spread = lambda a: None if a is None else rows(np.broadcast_to(
        a.reshape((1, channels) + (1,) * (x.ndim - 2)), x.shape))
    rstd = row_rstd(rows(plain(tx)), eps)
    scales = norm_scales(rows(x), rstd, spread(gamma), spread(beta), rows(dy))
    size = np.repeat(np.abs(rows(x)).max(axis=1, keepdims=True) * rstd, rows(x).shape[1],
                     axis=1).reshape(x.shape)
    axes = (0,) + tuple(range(2, x.ndim))
    scales["grad:gamma"] = largest((np.abs(dy) * size).sum(axis=axes))
    scales["grad:beta"] = largest(np.abs(dy).sum(axis=axes))
    out.write(name, op, attributes, present(x=x, gamma=gamma, beta=beta), {"y": plain(y)},
              dy, grads, scales, note)


def instance_norm_case(out, name, x, **options):
    group_norm_case(out, name, x, x.shape[1], op="InstanceNorm", **options)


def group_and_instance_cases(out):
    for shape, groups, affine in (((2, 6, 4), 3, True), ((2, 4, 3, 3), 2, True),
                                  ((2, 4, 3, 3), 1, True), ((2, 4, 3, 3), 4, True),
                                  ((3, 6), 2, True), ((2, 6, 4), 3, False)):
        name = "groupnorm_%s_groups%d%s" % ("x".join(map(str, shape)), groups,
                                            "" if affine else "_no_affine")
        draw = Draw(name)
        group_norm_case(out, name, draw.normal(*shape), groups, affine, draw=draw)
    for shape, affine in (((2, 3, 6), True), ((2, 3, 6), False),
                          ((2, 3, 4, 5), True), ((2, 3, 4, 5), False)):
        name = "instancenorm_%s%s" % ("x".join(map(str, shape)),
                                      "" if affine else "_no_affine")
        draw = Draw(name)
        instance_norm_case(out, name, draw.normal(*shape), affine=affine, draw=draw)


# --------------------------------------------------------------------------
# Residual blocks around a two-layer feed-forward sublayer
# --------------------------------------------------------------------------

def feed_forward(p, x):
    """F(x) = gelu(x w1^T + b1) w2^T + b2, with the exact (erf) GELU"""
    return F.linear(F.gelu(F.linear(x, p["w1"], p["b1"])), p["w2"], p["b2"])


# placement: (the norms it has, the block)
PLACEMENTS = {
    "plain": ((), lambda f, n, a, x: x + f(x)),
    "pre": (("norm",), lambda f, n, a, x: x + f(n["norm"](x))),
    "post": (("norm",), lambda f, n, a, x: n["norm"](x + f(x))),
    "sandwich": (("norm_in", "norm_out"),
                 lambda f, n, a, x: n["norm_out"](x + f(n["norm_in"](x)))),
    "branch_sandwich": (("norm_in", "norm_out"),
                        lambda f, n, a, x: x + n["norm_out"](f(n["norm_in"](x)))),
    "res_post": (("norm",), lambda f, n, a, x: x + n["norm"](f(x))),
    "skip_norm": (("norm",), lambda f, n, a, x: n["norm"](x) + f(x)),
    "deepnorm": (("norm",), lambda f, n, a, x: n["norm"](a * x + f(x))),
}


def block_case(out, name, placement, norm, x, hidden, draw, eps=1e-5, alpha=None,
               note=None, extra_attributes=None):
    d = x.shape[-1]
    params = {"w1": draw.weight(hidden, d), "b1": draw.beta(hidden),
              "w2": draw.weight(d, hidden), "b2": draw.beta(d)}
    norm_names, block = PLACEMENTS[placement]
    for norm_name in norm_names:
        params[norm_name + ".gamma"] = draw.gamma(d)
        if norm == "LayerNorm":
            params[norm_name + ".beta"] = draw.beta(d)
    dy = draw.normal(*x.shape)
    leaves = {"x": leaf(x), **{k: leaf(v) for k, v in params.items()}}

    def make_norm(norm_name):
        gamma, beta = leaves[norm_name + ".gamma"], leaves.get(norm_name + ".beta")
        if norm == "LayerNorm":
            return lambda t: F.layer_norm(t, (d,), gamma, beta, eps)
        return lambda t: rms_norm(t, gamma, eps)[0]

    sublayer = {}

    def f(t):
        sublayer["input"], sublayer["output"] = t, feed_forward(leaves, t)
        return sublayer["output"]

    y = block(f, {n: make_norm(n) for n in norm_names}, alpha, leaves["x"])
    outputs = {"y": plain(y), "sublayer_input": plain(sublayer["input"]),
               "sublayer_output": plain(sublayer["output"])}
    attributes = {"placement": placement, "norm": norm if norm_names else None,
                  "epsilon": eps, "alpha": 1.0 if alpha is None else alpha,
                  "activation": "gelu_erf", **(extra_attributes or {})}
    out.write(name, "ResidualBlock", attributes, {"x": x, **params}, outputs, dy,
              grads_of(y, dy, leaves), note=note)


def block_cases(out):
    layers = 12
    deepnorm = {"alpha": (2 * layers) ** 0.25, "extra_attributes":
                {"decoder_layers": layers, "beta": (8 * layers) ** -0.25}}
    for placement in PLACEMENTS:
        norms = ["LayerNorm"]
        if placement in ("pre", "post", "branch_sandwich"):
            norms.append("RMSNorm")
        for norm in norms:
            name = "block_" + placement
            if placement != "plain":
                name += "_" + norm.lower()
            draw = Draw(name)
            block_case(out, name, placement, norm, draw.normal(2, 3, 8), 16, draw,
                       **(deepnorm if placement == "deepnorm" else {}))


# --------------------------------------------------------------------------
# Transformer encoder layers
# --------------------------------------------------------------------------

def draw_parameters(module, draw, prefix=""):
    """Fill a module's parameters with numbers that float32 can hold."""
    for name, parameter in module.named_parameters():
        shape = parameter.shape
        if parameter.ndim == 2:
            values = draw.weight(*shape)
        elif "norm" in name and name.endswith("weight"):
            values = draw.gamma(*shape)
        else:
            values = draw.normal(*shape, std=0.25)
        with torch.no_grad():
            parameter.copy_(torch.tensor(values))


def encoder_layer(d_model, nhead, feed_forward_dim, norm_first):
    return torch.nn.TransformerEncoderLayer(
        d_model, nhead, feed_forward_dim, dropout=0.0, activation="gelu",
        batch_first=True, norm_first=norm_first, dtype=F64).train()


def encoder_layer_case(out, name, norm_first, mask, draw, batch=2, length=5):
    d_model, nhead, hidden = 16, 4, 32
    layer = encoder_layer(d_model, nhead, hidden, norm_first)
    draw_parameters(layer, draw)
    x = draw.normal(batch, length, d_model)
    dy = draw.normal(batch, length, d_model)
    masks = {}
    if mask == "causal":
        masks["attn_mask"] = np.triu(np.ones((length, length), dtype=bool), 1)
    if mask == "padding":
        masks["key_padding_mask"] = np.zeros((batch, length), dtype=bool)
        masks["key_padding_mask"][0, length - 2:] = True
        masks["key_padding_mask"][1, length - 1:] = True
    tx = leaf(x)
    tensor = lambda key: torch.tensor(masks[key]) if key in masks else None
    y = layer(tx, src_mask=tensor("attn_mask"),
              src_key_padding_mask=tensor("key_padding_mask"))
    parameters = dict(layer.named_parameters())
    out.write(name, "TransformerEncoderLayer",
              {"norm_first": norm_first, "d_model": d_model, "nhead": nhead,
               "dim_feedforward": hidden, "activation": "gelu_erf",
               "epsilon": 1e-5, "mask": mask},
              {"x": x, **masks, **{k: plain(p) for k, p in parameters.items()}},
              {"y": plain(y)}, dy, grads_of(y, dy, {"x": tx, **parameters}),
              source="torch.nn.TransformerEncoderLayer")


def encoder_stack_case(out, name, norm_first, draw, layers=4):
    d_model, nhead, hidden, batch, length = 16, 4, 32, 2, 5
    stack = [encoder_layer(d_model, nhead, hidden, norm_first) for _ in range(layers)]
    for layer in stack:
        draw_parameters(layer, draw)
    x, dy = draw.normal(batch, length, d_model), draw.normal(batch, length, d_model)
    streams = [leaf(x)]
    for layer in stack:
        streams.append(layer(streams[-1]))
        streams[-1].retain_grad()
    streams[-1].backward(torch.tensor(dy))
    inputs, outputs, grads = {"x": x}, {"y": plain(streams[-1])}, {}
    for i, layer in enumerate(stack):
        inputs.update({"layers.%d.%s" % (i, k): plain(p)
                       for k, p in layer.named_parameters()})
        if i:
            outputs["layer_input_%d" % i] = plain(streams[i])
        grads["x" if i == 0 else "layer_input_%d" % i] = plain(streams[i].grad)
    norms = lambda values: np.array([float(np.sqrt((v ** 2).sum())) for v in values])
    outputs["layer_input_norms"] = norms([plain(t) for t in streams[:-1]])
    outputs["layer_input_grad_norms"] = norms([plain(t.grad) for t in streams[:-1]])
    out.write(name, "TransformerEncoderStack",
              {"norm_first": norm_first, "layers": layers, "d_model": d_model,
               "nhead": nhead, "dim_feedforward": hidden, "activation": "gelu_erf",
               "epsilon": 1e-5, "mask": "none", "final_norm": False},
              inputs, outputs, dy, grads, source="torch.nn.TransformerEncoderLayer")


def encoder_cases(out):
    for norm_first in (False, True):
        kind = "pre" if norm_first else "post"
        for mask in ("none", "causal", "padding"):
            name = "encoder_layer_%s_%s" % (kind, "no_mask" if mask == "none" else mask)
            encoder_layer_case(out, name, norm_first, mask, Draw(name))
        # The same numbers for both, so that only the placement differs.
        encoder_stack_case(out, "encoder_stack4_" + kind, norm_first,
                           Draw("encoder_stack4"))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(here, "torch"))
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = Writer(options.out, options.only)
    layer_and_rms_cases(out)
    batch_norm_cases(out)
    group_and_instance_cases(out)
    block_cases(out)
    encoder_cases(out)
    print("%d cases written with torch %s" % (out.count, torch.__version__))


if __name__ == "__main__":
    main()
