"""What a process does to itself before an answer may run in it: no root, no capabilities, no way to read its memory.

Runs in the zygote, inside and outside the sandbox. `python confine.py PATH …` prints what of the sandbox's promise does
not hold where it runs; the PATHs must not exist there. May import: nothing of the course.
"""

import ctypes
import json
import os
import struct
import sys

UNPRIVILEGED = 65534  # nobody
_DUMPABLE, _SECCOMP, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 4, 22, 24, 38  # prctl options
_NEW_USER_NAMESPACE = 0x10000000
_CAPABILITY_VERSION = 0x20080522
# machine -> (its number in a seccomp filter, system calls clone, unshare, clone3, keyctl, add_key, ptrace)
_CALLS = {
    "x86_64": (0xC000003E, 56, 272, 435, 250, 248, 101),
    "aarch64": (0xC00000B7, 220, 97, 435, 219, 217, 117),
}
# machine -> (its number, the system calls of a process that only computes: memory, time, its own signals and timers,
# what is open already, its end)
_COMPUTE = {
    "x86_64": (0xC000003E, (
        0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 20, 24, 25, 28, 35, 39, 60, 96, 98, 100, 131, 186, 202, 204,
        222, 223, 224, 225, 226, 228, 229, 230, 231, 273, 318, 324, 334,
    )),
    "aarch64": (0xC00000B7, (
        57, 62, 63, 64, 66, 67, 68, 80, 93, 94, 98, 99, 101, 107, 108, 109, 110, 111, 113, 114, 115, 123, 124, 132, 134,
        135, 139, 153, 165, 169, 172, 178, 214, 215, 216, 222, 226, 233, 278, 283, 293,
    )),
}  # fmt: skip
_DENY, _MISSING, _ALLOW, _KILL = 0x00050000 | 1, 0x00050000 | 38, 0x7FFF0000, 0x80000000  # EPERM, ENOSYS


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def hide_memory():
    """No other process of this user may read this one's memory or take its descriptors; root with all rights may."""
    try:
        _libc().prctl(_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: no such call, and no /proc that shows it


def drop_capabilities():
    """Give up every capability for good, as root too; root keeps the files that it owns. Linux only."""
    try:
        libc = _libc()
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        for number in range(64):
            libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)
        libc.capset(struct.pack("<Ii", _CAPABILITY_VERSION, 0), struct.pack("<6I", *[0] * 6))
    except (OSError, AttributeError):
        pass


def leave_root():
    """Become nobody, with no group and no capability; a process that is not root stays who it is."""
    for number in range(64):
        _libc().prctl(_DROP_BOUNDING, number, 0, 0, 0)
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    drop_capabilities()


def filter_calls():
    """Refuse user namespaces, ptrace and keyrings for this process and its children. Whether it was done."""
    calls = _CALLS.get(os.uname().machine)
    if calls is None:
        return False
    return _installed(_program(*calls))


def only_compute():
    """From now on this process opens no file, starts no program or thread and makes no connection. Whether it was done.

    It can read and write what is open already, and ends as usual.
    """
    machine, calls = _COMPUTE.get(os.uname().machine, (0, ()))
    if not calls:
        return False
    load, equal, larger, give = 0x20, 0x15, 0x35, 0x06
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, _KILL), (load, 0, 0, 0)]
    steps += [(larger, 0, 1, 0x40000000), (give, 0, 0, _KILL)]  # the calls of x32
    for number in calls:
        steps += [(equal, 0, 1, number), (give, 0, 0, _ALLOW)]
    return _installed([*steps, (give, 0, 0, _DENY)])


def _installed(steps):
    """Give the system a filter of calls. Whether it took it."""
    program = b"".join(struct.pack("<HBBI", *step) for step in steps)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = _libc()
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return libc.prctl(_SECCOMP, 2, ctypes.c_char_p(header), 0, 0) == 0


def _program(machine, clone, unshare, clone3, *refused):
    """The filter, in the kernel's packet-filter instructions: (code, jump if true, jump if false, value)."""
    load, equal, larger, has, give = 0x20, 0x15, 0x35, 0x45, 0x06
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, _KILL), (load, 0, 0, 0)]
    steps += [(larger, 0, 1, 0x40000000), (give, 0, 0, _KILL)]  # the calls of x32
    steps += [(equal, 0, 1, clone3), (give, 0, 0, _MISSING)]  # its flags lie in memory; libc goes on with clone
    for number in refused:
        steps += [(equal, 0, 1, number), (give, 0, 0, _DENY)]
    steps += [(equal, 2, 0, clone), (equal, 1, 0, unshare), (give, 0, 0, _ALLOW)]
    steps += [(load, 0, 0, 16), (has, 0, 1, _NEW_USER_NAMESPACE), (give, 0, 0, _DENY), (give, 0, 0, _ALLOW)]
    return steps


def enter_sandbox():
    """What the first process of an answer's sandbox does before it loads anything."""
    leave_root()
    filter_calls()
    hide_memory()


def broken_promises(hidden=()):
    """Sentences, one for each promise of the sandbox that does not hold in this process."""
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    found = []
    if 0 in os.getresuid():
        found.append("an answer would run as root")
    if any(int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh")):
        found.append("an answer would have capabilities")
    if int(status.get("NoNewPrivs", "0")) != 1:
        found.append("an answer could gain privileges by a program")
    if _libc().unshare(_NEW_USER_NAMESPACE) == 0:
        found.append("an answer could make a user namespace")
    if set(os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else _interfaces()) - {"lo"}:
        found.append("an answer would see the network")
    if os.uname().machine not in _COMPUTE:
        found.append("a kernel could open files and start programs")
    found += [f"an answer would see {path}" for path in hidden if os.path.exists(path)]
    found += [f"an answer could write {path}" for path in ("/", "/usr", sys.prefix) if os.access(path, os.W_OK)]
    return found


def _interfaces():
    import socket

    return [name for _, name in socket.if_nameindex()]


if __name__ == "__main__":
    enter_sandbox()
    print(json.dumps(broken_promises(sys.argv[1:])))
