"""PID 1 of a container: it passes signals on and ends orphans, and the worker is its child.

Orphans are given to PID 1, which must wait for them. A worker that did so itself would take the exit codes of the
programs that its handlers have started and not yet waited for: Python reports those as 0, a success.
"""

import os
import signal

PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def stand_in_front() -> None:
    """As PID 1, forks: returns in the child, and ends as the child ends in PID 1. Otherwise does nothing."""
    if os.getpid() != 1:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # none is lost on either side of the fork
    child = os.fork()
    if child:
        for number in PASSED_ON:
            signal.signal(number, lambda received, _: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    if child:
        os._exit(_exit_code_of(child))


def _exit_code_of(child: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code  # as a shell says it
