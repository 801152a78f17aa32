"""In the judge's sandbox: a kernel's library may call the machine and mathematics, and nothing else of the host.

May import: errors.
"""

import re
import subprocess

from ...errors import CompileError

# What a kernel may call: the machine, the compiler's own helpers, mathematics.
_MAY_CALL = re.compile(
    r"simt_\w+|__tsan_\w+|__ubsan_\w+|__sanitizer_\w+|_Unwind_Resume|__gxx_personality_v0|__tls_get_addr|_ITM_\w+|"
    r"__cxa_finalize|__gmon_start__|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|mem(?:cpy|move|set|cmp)|abs|"
    r"(?:a?(?:sin|cos|tan)h?|atan2|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[tl]gamma|ceil|floor|"
    r"round|trunc|l?lr(?:int|ound)|rint|nearbyint|fm(?:a|ax|in|od)|fabs|fdim|[fl]rexp|ldexp|scalbl?n|copysign|"
    r"nextafter|remainder|modf|sincos|j[01n]|y[01n]|isnan|isinf|finite)[fl]?"
)


def refuse_host_calls(path, name, filename):
    """In the sandbox: CompileError for a kernel that calls a function of the host, by whatever name it is declared."""
    done = subprocess.run(["nm", "-D", "--undefined-only", str(path)], capture_output=True, text=True, check=True)
    called = [line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()]
    read = subprocess.run(["readelf", "-SW", str(path)], capture_output=True, text=True, check=True).stdout
    starters = sum(int(size, 16) for size in re.findall(r"(?:INIT_ARRAY|PREINIT_ARRAY)\s+\w+\s+\w+\s+(\w+)", read)) // 8
    if starters > 1:  # the first is the compiler's own
        said = f"{name} has a variable that is computed when the program starts, which no kernel can; it was not run."
        raise CompileError(said, filename=filename, log=said)
    if foreign := [one for one in called if not _MAY_CALL.fullmatch(one)]:
        said = f"{name} calls {', '.join(foreign[:3])} of the host, which no kernel can; it was not run."
        raise CompileError(said, filename=filename, log=said)
