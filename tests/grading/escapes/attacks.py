"""Answers that try to leave the sandbox. Each one prints or writes what it reached; `escaped` tells from outside.

An attack is a ChildTask and the question whether it worked. `World` is what there is to reach: a secret file, a secret
in the environment, a socket that listens, the course's solutions.
"""

import os
import socket
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import torch

from course_lib.grading.processes.protocol import ChildTask, Ref, Run

ROOT = Path(__file__).resolve().parents[3]
SECRET = "secret_of_the_judge_7411"
VARIABLE = "COURSE_TEST_SECRET"
_X = torch.ones(4)
_RUN = Run("one", {"x": _X}, {"y": ((4,), "float32")}, (Ref("x"),))
_CUDA_RUN = Run("one", {"x": _X}, {"y": ((4,), "float32")}, (Ref("x"), Ref("y")), block=(4, 1, 1))
HONEST = 'extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n'


@dataclass
class World:
    """What an answer might reach; closed after the attacks."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="course-escape-", dir="/var/tmp")))
    listener: socket.socket = field(default_factory=socket.socket)

    def __post_init__(self):
        (self.folder / "private.txt").write_text(f"int {SECRET};\n")
        os.environ[VARIABLE] = SECRET
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()

    def close(self):
        os.environ.pop(VARIABLE, None)
        self.listener.close()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


def python(body, world, **limits):
    """A task whose answer runs `body`, in which FOLDER, PORT and ROOT are known."""
    text = f"FOLDER, PORT, ROOT = {str(world.folder)!r}, {world.listener.getsockname()[1]}, {str(ROOT)!r}\n"
    text += "def answer(x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n    return x\n"
    return ChildTask("python", text, "answer", (_RUN,), **limits)


def cuda(text):
    """A task for a CUDA text with a kernel `twice`."""
    return ChildTask("cuda", text, "twice", (_CUDA_RUN,))


def said(result):
    """Everything that came back from a child, as one text."""
    faults = [result.fault, *(run.fault for run in result.runs)]
    return result.printed + "".join(fault.message + fault.detail for fault in faults if fault is not None)


_READ = {
    "a private file": "print(open(FOLDER + '/private.txt').read())",
    "the environment": "import os; print(dict(os.environ))",
    "the environment of every process": """
        import glob
        for path in glob.glob('/proc/[0-9]*/environ'):
            try: print(open(path).read())
            except OSError: pass
        """,
}
_REACH = {
    "the oracles": "import course_lib.reference.softmax; print('reached')",
    "the solutions": "import os; print('reached' if os.listdir(ROOT + '/solutions') else '')",
    "the tests": "import os; print('reached' if os.listdir(ROOT + '/tests') else '')",
    "a solution's kernel": "import glob; print('reached' if glob.glob(ROOT + '/kernels_cu/softmax/*') else '')",
    "a Triton answer": "import course_lib.triton_kernels.softmax; print('reached')",
    "the judge's code": "import course_lib.grading.judge.judge; print('reached')",
    "the home folder": "import os; print('reached' if set(os.listdir('/root')) - {'.pyenv'} else '')",
    "accounts of this machine": "print('reached' if open('/etc/passwd').read() else '')",
    "a host on the network": "import socket; socket.create_connection(('127.0.0.1', PORT), 1); print('reached')",
    "a capability": """
        status = open('/proc/self/status').read()
        sets = [int(status.split(name + ':')[1].split()[0], 16) for name in ('CapPrm', 'CapEff', 'CapInh')]
        print('reached' if any(sets) else '')
        """,
    "being root": "import os; print('reached' if 0 in os.getresuid() else '')",
    "a user namespace of its own": """
        import ctypes
        if ctypes.CDLL(None).unshare(0x10000000) == 0: print('reached')
        """,
    "a setting of the kernel": "open('/proc/sys/kernel/domainname', 'w').write('mine'); print('reached')",
    "the disk itself": "import os; os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0)); print('reached')",
    "the zygote's memory": "import os; open(f'/proc/{os.getppid()}/mem', 'rb'); print('reached')",
}
_WRITE = {
    "a file outside": "open(FOLDER + '/written', 'w')",
    "a file outside, after a remount": """
        import ctypes
        libc = ctypes.CDLL(None)
        for folder in ('/', '/var', '/var/tmp', FOLDER):
            libc.mount(b'none', folder.encode(), None, 32 | 4096, None)
        open(FOLDER + '/written', 'w')
        """,
    "the course's own files": "open(ROOT + '/course_lib/errors.py', 'a')",
    "the environment's files": "import torch; open(torch.__file__, 'a')",
    "the system's files": "open('/usr/bin/course-test', 'w')",
}
_TEXTS = {
    "a private file, by #include": '#include "{folder}/private.txt"\n#error stop\n' + HONEST,
    "a private file, by .incbin": 'asm(".incbin \\"{folder}/private.txt\\"");\n' + HONEST,
    "Python, from CUDA": 'extern "C" int PyRun_SimpleString(const char*);\n'
    + HONEST.replace("{ y", '{ PyRun_SimpleString("print(7)"); y'),
    "a program, from CUDA": "int system(const char*);\n" + HONEST.replace("{ y", '{ system("true"); y'),
    "code that runs before the kernel": "int early() { return 7; }\nint given = early();\n" + HONEST,
    "accounts, by #include": '#include "/etc/passwd"\n' + HONEST,
}


def attacks(world):
    """[(name, task, escaped)]: `escaped(result)` is True when the attack worked."""
    texts = {name: cuda(text.replace("{folder}", str(world.folder))) for name, text in _TEXTS.items()}
    found = [(name, python(body, world), lambda result: SECRET in said(result)) for name, body in _READ.items()]
    found += [(name, python(body, world), lambda result: "reached" in result.printed) for name, body in _REACH.items()]
    found += [
        (name, python(body + _wrote(body), world), lambda result: "written" in result.printed)
        for name, body in _WRITE.items()
    ]
    found += [
        (
            name,
            task,
            lambda result: SECRET in said(result) or "root:x" in said(result) or result.runs[0].outputs is not None,
        )
        for name, task in texts.items()
    ]
    return found


def _wrote(body):
    """The line that says that the write before it worked."""
    return "\n" + ("        " if body.startswith("\n") else "") + "print('written')"


_LEAVE = "open('/tmp/left', 'w').write('mine'); open('/dev/shm/left', 'w').write('mine')"
_FIND = "import os; print('reached' if {'left'} & {*os.listdir('/tmp'), *os.listdir('/dev/shm')} else '')"
_SPOIL = """
    import glob, os
    for path in glob.glob(os.environ['COURSE_CACHE_DIR'] + '/**/machine.h', recursive=True):
        try: os.chmod(path, 0o666)
        except OSError: pass
        os.path.isdir('/tmp/mine') or os.mkdir('/tmp/mine')
        try: open(path, 'w').write('#error spoiled')
        except OSError: pass
        try: os.rename(os.path.dirname(path), '/tmp/mine/header')
        except OSError: pass
    """


def sequences(world):
    """[(name, first submission, second submission, escaped)]: whether the first one reached the second."""
    spoiled = lambda result: result.runs[0].outputs is None  # noqa: E731
    return [
        ("another submission's files", python(_LEAVE, world), python(_FIND, world), lambda r: "reached" in r.printed),
        ("another submission's compiler", python(_SPOIL, world), cuda(HONEST), spoiled),
    ]
