"""The entry point. Signals are handled before anything else is imported: in a pod this process is PID 1."""

from wakeboard_worker.stopping import Stopping

stopping = Stopping()

if __name__ == "__main__":
    from wakeboard.first_process import stand_in_front

    stand_in_front()

    from wakeboard_worker.command_line import main

    main(stopping)
