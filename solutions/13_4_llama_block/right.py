"""Right answers to 13.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "complex numbers for RoPE",
        (
            (
                "        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)\n",
                "        turned = torch.complex(first, second) * torch.complex(cos, sin)\n"
                "        return torch.cat((turned.real, turned.imag), dim=-1)\n",
            ),
        ),
    ),
    Right(
        "norm by hand, linear for the weights",
        (
            (
                "    normed = F.rms_norm(x, x.shape[-1:], input_norm, eps)\n",
                "    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * input_norm\n",
            ),
            ("heads.transpose(1, 2).flatten(2) @ o_proj.T", "F.linear(heads.transpose(1, 2).flatten(2), o_proj)"),
        ),
    ),
    Right(
        "angles in float32",
        (
            (
                "positions[:, None].double() * theta ** -exponents.double()",
                "positions[:, None].float() * theta ** -exponents",
            ),
        ),
    ),
    Right(
        "rotate half",
        (
            (
                "        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)\n",
                "        half = torch.cat((-second, first), dim=-1)\n"
                "        return rows * torch.cat((cos, cos), -1) + half * torch.cat((sin, sin), -1)\n",
            ),
        ),
    ),
]
