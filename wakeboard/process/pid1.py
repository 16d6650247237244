"""PID 1 of a container: forks, forwards signals to the child, and reaps orphans. The program runs in the child.

PID 1 has no default signal actions, so a SIGTERM that arrives before a handler is installed would be lost. In a child
it ends the program. PID 1 also has to wait for orphans. If the program did that itself, it would take the exit codes of
its own subprocesses, which Python would then report as 0.
"""

import os
import signal

FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
HANDLED_SIGNALS = (*FORWARDED_SIGNALS, signal.SIGCHLD)
FROM_TERMINAL = 0x80  # si_code SI_KERNEL, sigaction(2): Ctrl-C, which the child is received as well


def fork_if_pid1() -> None:
    """If this is PID 1: forks, returns in the child, and never returns in the parent. Otherwise does nothing."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # so that no signal is lost during the fork
    child = os.fork()
    if child:
        os._exit(_exit_code_of(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_code_of(child: int) -> int:
    while True:
        received = signal.sigwaitinfo(HANDLED_SIGNALS)
        if received.si_signo != signal.SIGCHLD:
            if received.si_code != FROM_TERMINAL:
                os.kill(child, received.si_signo)
            continue
        ended, status = -1, 0
        while ended not in {0, child}:
            ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code  # as a shell reports it
