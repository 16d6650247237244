"""The entry point: `python -m wakeboard_operator`. All settings are WAKEBOARD_* variables.

Exit code 0: it was stopped by a signal. 1: it could not start or continue, and the error message contains the reason.
143: SIGTERM arrived before it had started.
"""

from wakeboard.process.pid1 import fork_if_pid1

if __name__ == "__main__":
    fork_if_pid1()  # before anything else is imported: in a pod this process is PID 1

    from wakeboard_operator.main import main

    main()
