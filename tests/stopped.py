"""A command that is killed after so many commits, the number of which comes before its arguments."""

KILLED = """
import os, signal, sys
from vestige.__main__ import main
from vestige.store import Place

left, commit = int(sys.argv.pop(1)), Place.commit

def killed_after(*arguments):
    global left
    commit(*arguments)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

Place.commit = killed_after
main()
"""
