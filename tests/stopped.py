"""A command that is killed after so many commits, the number of which comes before its arguments."""

KILLED = """
import os, signal, sys
from vestige.__main__ import main
from vestige.ingest import commits, maintenance
from vestige.keyed.storage import FamilyStorage
from vestige.sources import chunks, delimited
from vestige.store import Place

left = int(sys.argv.pop(1))
commits._SHARE = maintenance.EVERY = 1e-9  # a commit after each block, of which there are many
chunks.CHUNK = delimited.BLOCK_BY = 1 << 12

def kill_after(commit):
    def killed_after(*arguments):
        global left
        result = commit(*arguments)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return killed_after

Place.commit, FamilyStorage.flush = kill_after(Place.commit), kill_after(FamilyStorage.flush)
main()
"""
