"""The entry point: `python -m wakeboard_operator`. Everything is set by WAKEBOARD_* variables.

0: it was asked to stop. 1: it could not start, or cannot go on, and one sentence says why. 143: it was asked to stop
before it had begun.
"""

from wakeboard.pid1 import fork_if_pid1

if __name__ == "__main__":
    fork_if_pid1()  # before anything else is imported: in a pod this process is PID 1

    from wakeboard_operator.main import main

    main()
