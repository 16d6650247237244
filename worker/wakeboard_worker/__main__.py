"""The entry point. Signals are handled before anything else is imported: in a pod this process is PID 1."""

from wakeboard_worker.signals import StopSignal

stopping = StopSignal()

if __name__ == "__main__":
    from wakeboard.pid1 import stand_in_front

    stand_in_front()

    from wakeboard_worker.command_line import main

    main(stopping)
