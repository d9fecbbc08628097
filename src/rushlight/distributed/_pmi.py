"""A process manager for MPI processes that no mpiexec started: `python _pmi.py SIZE`.

MPICH and its relatives ask their launcher three things: a rank, the values that others put, and a
barrier (the PMI-1 protocol, lines of text). This program answers; it runs as a process of its own,
because MPI_Init keeps Python's lock. It prints its port, and ends with its parent.
"""

import os
import socket
import sys
import threading


class Manager:
    def __init__(self, size):
        self.size = size
        self.name = f"rushlight_{os.urandom(8).hex()}"  # names the shared memory, too
        self.values = {}
        self.changed = threading.Condition()
        self.arrived = self.barriers = 0

    def barrier(self):
        with self.changed:
            self.arrived += 1
            if self.arrived == self.size:
                self.arrived = 0
                self.barriers += 1
                self.changed.notify_all()
            else:
                now = self.barriers
                self.changed.wait_for(lambda: self.barriers > now)

    def answer(self, line):
        """The lines that answer a line, or None at the end."""
        words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = words.get("cmd", "")
        if command == "initack":
            return [
                "cmd=initack rc=0",
                f"cmd=set size={self.size}",
                f"cmd=set rank={words['pmiid']}",
                "cmd=set debug=0",
            ]
        if command == "put":
            self.values[words["key"]] = line.split("value=", 1)[1]
            return ["cmd=put_result rc=0 msg=success"]
        if command == "get":
            value = self.values.get(words["key"])
            if value is None:
                return ["cmd=get_result rc=-1 msg=not_found value=unknown"]
            return [f"cmd=get_result rc=0 msg=success value={value}"]
        if command == "barrier_in":
            self.barrier()
            return ["cmd=barrier_out rc=0"]
        return {
            "init": ["cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"],
            "get_maxes": ["cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=4096 rc=0"],
            "get_appnum": ["cmd=appnum appnum=0 rc=0"],
            "get_universe_size": [f"cmd=universe_size size={self.size} rc=0"],
            "get_my_kvsname": [f"cmd=my_kvsname kvsname={self.name} rc=0"],
            "finalize": ["cmd=finalize_ack rc=0"],
        }.get(command, [f"cmd={command}_result rc=-1 msg=unknown"])

    def serve(self, link):
        with link, link.makefile("rw") as file:
            for line in file:
                for text in self.answer(line.strip()):
                    file.write(text + "\n")
                file.flush()


def main():
    manager = Manager(int(sys.argv[1]))
    listener = socket.create_server(("", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            link = listener.accept()[0]
            threading.Thread(target=manager.serve, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()  # until the parent ends


if __name__ == "__main__":
    main()
