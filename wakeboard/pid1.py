"""PID 1 of a container: it passes signals on and ends orphans, and the program is its child.

PID 1 has no default signal actions: a SIGTERM for which nothing is prepared yet would be lost. In a child it ends the
program, as it does outside of containers. Orphans are given to PID 1, which must wait for them. A program that did so
itself would take the exit codes of the programs that it has started and not yet waited for: Python reports those as 0,
a success.
"""

import os
import signal

PASSED_ON = (signal.SIGTERM, signal.SIGINT)
HEEDED = (*PASSED_ON, signal.SIGCHLD)
FROM_THE_TERMINAL = 0x80  # si_code SI_KERNEL, sigaction(2): Ctrl-C, which the child is told as well


def stand_in_front() -> None:
    """As PID 1, forks: returns in the child, and ends as the child ends in PID 1. Otherwise does nothing."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)  # none is lost on either side of the fork
    child = os.fork()
    if child:
        os._exit(_exit_code_of(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_code_of(child: int) -> int:
    while True:
        told = signal.sigwaitinfo(HEEDED)
        if told.si_signo != signal.SIGCHLD:
            if told.si_code != FROM_THE_TERMINAL:
                os.kill(child, told.si_signo)
            continue
        ended, status = -1, 0
        while ended not in {0, child}:
            ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code  # as a shell says it
