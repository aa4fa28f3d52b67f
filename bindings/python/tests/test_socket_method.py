"""Method `SOCKET`: browsers see planes of the arrays while the program runs; a viewer costs the run nothing."""

import asyncio
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import thalweg

tornado = pytest.importorskip("tornado")
from tornado.httpclient import HTTPClientError, HTTPRequest  # noqa: E402
from tornado.websocket import websocket_connect  # noqa: E402

#: Writes steps until it is told to end; values tell where they belong, and are small enough for 32 bits.
RUNS = """
import os, sys, time
import numpy as np
import thalweg

path, until, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
if len(sys.argv) > 4:
    from mpi4py import MPI
    comm, rank, ranks = MPI.COMM_WORLD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
else:
    comm, rank, ranks = None, 0, 1
u = np.arange(6 * 40 * 50.0).reshape(6, 40, 50)
rows = np.linspace(0, 40, ranks + 1).astype(int)
n = 0
schema = os.environ.get("RUN_SCHEMA")
with thalweg.Writer(path, method=None if schema else "SOCKET", comm=comm, schema=schema) as w:
    going = True
    while going:
        with w.step() as s:
            s.write("u", u[:, rows[rank] : rows[rank + 1]] + 100000 * (n % 100), shape=u.shape, offset=(0, rows[rank], 0))
            if rank == 0:
                s["line"] = np.arange(1000) + n
                s["psi"] = np.full((3, 4), 3 + 4j)
            s["t"] = 0.5 * n
        n += 1
        if rank == 0:
            with open(until + ".steps", "w") as file:
                file.write(str(n))
        time.sleep(pause)
        going = not os.path.exists(until)
        if comm is not None:
            going = comm.bcast(going)
if rank == 0:
    print(n)
"""


class Run:
    """A program that runs, and where it can be seen."""

    def __init__(self, prefix, tmp_path, pause=0.05, ranks=None, schema=None):
        self.until, program = tmp_path / "until", tmp_path / "runs.py"
        program.write_text(RUNS)
        command = [sys.executable, program, tmp_path / "x.bp", self.until, str(pause)]
        if ranks:
            command = ["mpiexec.openmpi", "--oversubscribe", "-n", str(ranks), *command, "mpi"]
        env = {**os.environ, "THALWEG_COMMAND": str(prefix / "bin" / "thalweg")}
        if schema:
            env["RUN_SCHEMA"] = str(schema)
        if os.getuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = ""
        while not (found := re.search(r"group 'data' can be seen at (http://(\S+?)/\?token=(\w+))", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url, self.host, self.token = found.groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def steps(self):
        return int((self.until.parent / "until.steps").read_text() or 0)

    def end(self):
        self.until.touch()
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        self.said += err
        return int(out)

    def socket(self, token=None, **headers):
        address = f"ws://{self.host}/ws?token={self.token if token is None else token}"
        return websocket_connect(HTTPRequest(address, headers=headers), max_message_size=1 << 26)


def parsed(message):
    """The head of a frame, and its values."""
    (length,) = struct.unpack_from("<I", message)
    head = json.loads(message[4 : 4 + length])
    return head, np.frombuffer(message[4 + length :], "<f4").reshape(head["plane"]["count"])


async def frames(viewer, number, *asks):
    """The first frames that come of what is asked for, and the last list of variables."""
    await viewer.write_message(json.dumps({"asks": asks}))
    found, step = [], None
    while len(found) < number:
        message = await asyncio.wait_for(viewer.read_message(), 60)
        assert message is not None
        if isinstance(message, str):
            step = json.loads(message)
        elif parsed(message)[0]["ask"]["variable"] in [ask["variable"] for ask in asks]:
            found.append(parsed(message))
    return found, step


WHOLE = np.arange(6 * 40 * 50.0).reshape(6, 40, 50)


@pytest.mark.parametrize("ranks", [None, 3])
def test_a_viewer_sees_the_planes_that_it_asks_for(prefix, tmp_path, ranks):
    with Run(prefix, tmp_path, ranks=ranks) as run:

        async def look():
            viewer = await run.socket(Origin=f"http://{run.host}")
            found, step = await frames(viewer, 2, {"variable": "u"})
            for head, values in found:
                np.testing.assert_array_equal(values, WHOLE[3] + 100000 * (head["step"] % 100))
                assert head["shape"] == [6, 40, 50]
            assert found[1][0]["step"] > found[0][0]["step"]
            by_name = {one["name"]: one for one in step["variables"]}
            assert by_name["u"]["shape"] == [6, 40, 50] and by_name["u"]["type"] == "double"
            n = step["step"]
            assert (by_name["u"]["min"], by_name["u"]["max"]) == (100000 * (n % 100), 100000 * (n % 100) + 11999)
            assert by_name["t"]["min"] == 0.5 * n and by_name["psi"]["magnitude"]["max"] == 5
            # Another plane, a part of it, every n-th element of it.
            (one,), _ = await frames(viewer, 1, {"variable": "u", "axes": [0, 2], "at": [None, 7, None], "within": [[1, 5], [10, 40]], "most": 10})
            head, values = one
            np.testing.assert_array_equal(values, WHOLE[1:5, 7, 10:40:3] + 100000 * (head["step"] % 100))
            (one,), _ = await frames(viewer, 1, {"variable": "line", "most": 100})
            np.testing.assert_array_equal(one[1], np.arange(0, 1000, 10) + one[0]["step"])
            (one,), _ = await frames(viewer, 1, {"variable": "psi"})
            np.testing.assert_array_equal(one[1], np.full((3, 4), 5))
            viewer.close()

        asyncio.run(look())
        assert run.end() > 2
    assert os.listdir(tmp_path).count("x.bp") == 0


def test_only_who_has_the_token_gets_in_and_no_page_of_another_site(prefix, tmp_path):
    with Run(prefix, tmp_path) as run:
        with urllib.request.urlopen(run.url) as page:
            text = page.read().decode()
            assert "<canvas" in text and "default-src 'none'" in page.headers["Content-Security-Policy"]
            # One file: nothing is loaded from elsewhere.
            assert not re.search(r"(src|href)=|@import|https?://", text)
        for address in (f"http://{run.host}/", f"http://{run.host}/?token={'0' * 32}", f"http://{run.host}/other?token={run.token}"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address)
            assert refused.value.code in (403, 404)

        async def look():
            for how in ({"token": "0" * 32}, {"token": ""}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
                with pytest.raises(HTTPClientError) as refused:
                    await run.socket(**how)
                assert refused.value.code == 403
            # What is no request, and what is no message of a viewer.
            for text in (b"\0\1\2\r\n\r\n", b"GET / HTTP/1.1\r\n", b"x" * 100_000):
                host, port = run.host.split(":")
                with socket.create_connection((host, int(port))) as other:
                    other.sendall(text)
            viewer = await run.socket()
            await viewer.write_message("no message")
            while await viewer.read_message() is not None:
                pass
            viewer = await run.socket()
            (one,), _ = await frames(viewer, 1, {"variable": "u"})
            assert one[0]["shape"] == [6, 40, 50]

        asyncio.run(look())
        assert run.host.startswith("127.0.0.1:")
        run.end()


def test_viewers_that_stall_die_or_are_many_cost_the_run_nothing(prefix, tmp_path):
    with Run(prefix, tmp_path, pause=0.01) as run:
        host, port = run.host.split(":")
        stalled = []
        for _ in range(5):
            # They ask, and never read.
            one = socket.create_connection((host, int(port)))
            one.sendall(
                f"GET /ws?token={run.token} HTTP/1.1\r\nHost: {run.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            text = json.dumps({"asks": [{"variable": "u", "at": [k, None, None]} for k in range(6)]}).encode()
            one.sendall(struct.pack(">BBH", 0x81, 0x80 | 126, len(text)) + bytes(4) + text)
            stalled.append(one)

        async def look():
            viewers = [await run.socket() for _ in range(10)]
            for viewer in viewers:
                (one,), _ = await frames(viewer, 1, {"variable": "u"})
                np.testing.assert_array_equal(one[1], WHOLE[3] + 100000 * (one[0]["step"] % 100))
            # Without a good-bye.
            for viewer in viewers:
                viewer.protocol.stream.socket.close()

        asyncio.run(look())
        children = subprocess.run(["pgrep", "-P", str(run.process.pid)], capture_output=True, text=True).stdout.split()
        assert len(children) == 1

        def goes_on():
            """The run makes a hundred more steps; it does not if one of them waits."""
            first, until = run.steps(), time.monotonic() + 60
            while run.steps() < first + 100 and time.monotonic() < until:
                time.sleep(0.05)
            assert run.steps() >= first + 100

        goes_on()
        # The program that serves them stops, goes on, and is killed.
        os.kill(int(children[0]), signal.SIGSTOP)
        goes_on()
        os.kill(int(children[0]), signal.SIGCONT)

        async def look_again():
            viewer = await run.socket()
            (one,), _ = await frames(viewer, 1, {"variable": "u"})
            np.testing.assert_array_equal(one[1], WHOLE[3] + 100000 * (one[0]["step"] % 100))

        asyncio.run(look_again())
        os.kill(int(children[0]), signal.SIGKILL)
        goes_on()
        run.end()
        for one in stalled:
            one.close()


def test_planes_of_all_viewers_are_bounded_and_who_asks_for_more_is_told(prefix, tmp_path):
    with Run(prefix, tmp_path) as run:

        async def look():
            viewer = await run.socket()
            await viewer.write_message(json.dumps({"asks": [{"variable": "u", "most": 2048, "at": [k, None, None]} for k in range(3)]}))
            while not isinstance(message := await asyncio.wait_for(viewer.read_message(), 60), str) or json.loads(message)["type"] != "refused":
                pass
            assert "1 planes are not shown" in message

        asyncio.run(look())
        run.end()


def test_a_run_without_the_program_for_viewers_says_so_and_goes_on(tmp_path):
    script = f"import thalweg\nwith thalweg.Writer({str(tmp_path / 'x.bp')!r}, method='SOCKET') as w:\n  for n in range(3):\n    with w.step() as s:\n      s['a'] = n\n"
    env = {**os.environ, "THALWEG_COMMAND": "/nonexistent/thalweg"}
    ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr.count("no viewer can see the group 'data'") == 1, ran.stderr
    with pytest.raises(thalweg.Error, match="listen=somewhere"):
        with thalweg.Writer(tmp_path / "x.bp", method="SOCKET", parameters="listen=somewhere;strict=yes") as w, w.step() as s:
            s["a"] = 1


BESIDE = """<adios-config host-language="C"><adios-group name="data">
    <var name="o" type="integer"/><global-bounds dimensions="6,40,50" offsets="0,o,0"><var name="u" type="double" dimensions="6,40,50"/></global-bounds>
    <var name="line" type="long" dimensions="1000"/><var name="psi" type="double complex" dimensions="3,4"/><var name="t" type="double"/>
    </adios-group><method group="data" method="MPI">direct=1000</method><method group="data" method="SOCKET"/>{}</adios-config>"""


@pytest.mark.parametrize("buffer", ["", '<buffer size-MB="0"/>'])
def test_it_shows_what_another_method_writes_at_once(prefix, tmp_path, buffer):
    (tmp_path / "g.xml").write_text(BESIDE.format(buffer))
    with Run(prefix, tmp_path, schema=tmp_path / "g.xml") as run:

        async def look():
            viewer = await run.socket()
            if buffer:
                # Nothing stays in memory until close: what the output has is told, and no plane of it.
                await viewer.write_message(json.dumps({"asks": [{"variable": "u"}]}))
                for _ in range(5):
                    assert isinstance(await asyncio.wait_for(viewer.read_message(), 60), str)
                return
            found, _ = await frames(viewer, 2, {"variable": "u"})
            for head, values in found:
                np.testing.assert_array_equal(values, WHOLE[3] + 100000 * (head["step"] % 100))

        asyncio.run(look())
        steps = run.end()
        assert ("viewers do not see u" in run.said) == bool(buffer), run.said
    with thalweg.open(tmp_path / "x.bp") as f:
        assert len(f.steps) == steps
        np.testing.assert_array_equal(f["u"][steps - 1], WHOLE + 100000 * ((steps - 1) % 100))
