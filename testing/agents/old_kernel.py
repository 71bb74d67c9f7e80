"""Runs a program as a kernel of the year 2014 would, as far as system calls go: each that came after Linux 3.16 is answered with ENOSYS.

In: the program and its arguments. x86-64 only: there the numbers from 318 (getrandom, Linux 3.17) on are those of newer calls, among
them bpf, statx, rseq, close_range, clone3, openat2, faccessat2, pidfd_open and Landlock's.
"""

import ctypes
import os
import struct
import sys

FIRST_NEWER = 318
LOAD_NUMBER, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x35, 0x06
ALLOW, ENOSYS = 0x7FFF0000, 0x00050000 | 38
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38

steps = [(LOAD_NUMBER, 0, 0, 0), (JUMP_IF_AT_LEAST, 0, 1, FIRST_NEWER), (RETURN, 0, 0, ENOSYS), (RETURN, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(header), 0, 0)]:
    if libc.prctl(*arguments) != 0:
        sys.exit(f"old_kernel: prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
