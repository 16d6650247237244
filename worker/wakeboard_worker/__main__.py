"""The entry point. Installs the signal handlers before other imports, because in a pod this process is PID 1."""

from wakeboard_worker.signals import StopSignal

stop_signal = StopSignal()

if __name__ == "__main__":
    from wakeboard.process.pid1 import fork_if_pid1

    fork_if_pid1()

    from wakeboard_worker.command_line import main

    main(stop_signal)
