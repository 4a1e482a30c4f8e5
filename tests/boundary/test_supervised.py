"""Attacks on the network of a supervised box: nothing leaves but what is listed, and each try is counted."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.kernel import netlink
from backends.kernel.nftables import Destination
from tests.boundary import harness
from tests.boundary.harness import Box
from tests.boundary.networked import CONNECT, TCP, UDP, Seen


@pytest.fixture
def host_listener() -> Iterator[tuple[int, socket.socket]]:
    """A TCP server of the host at every one of its addresses, and the port."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        server.settimeout(0.3)
        yield server.getsockname()[1], server


def untouched(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except TimeoutError:
        return True
    return False


OFF_LIST = {
    "8.8.8.8/443": "8.8.8.8",
    "203.0.114.5/80": "203.0.114.5",  # the address is listed, at another port
    "203.0.114.6/443": "203.0.114.6",
    "198.51.100.255/8080": "198.51.100.255",  # just below the network
    "198.51.102.0/8080": "198.51.102.0",  # just above
    "169.254.169.254/80": "169.254.169.254",
    "10.0.0.1/443": "10.0.0.1",
    "172.17.0.1/22": "172.17.0.1",
    "::ffff:8.8.8.8/443": "8.8.8.8",
    "::ffff:10.0.0.1/443": "10.0.0.1",
    "2606:4700::1111/443": "2606:4700::1111",
    "2a00:2::1/8443": "2a00:2::1",
    "64:ff9b::808:808/443": "64:ff9b::808:808",
    "fd00::1/443": "fd00::1",
    "fe80::1%lo/443": "fe80::1",
    "fec0::1/443": "fec0::1",
}


def test_tcp_to_whatever_is_not_listed_is_refused_at_once_and_counted(
    supervised_box: Box, seen: Seen
) -> None:
    result = supervised_box.python(CONNECT, *OFF_LIST)
    assert dict(line.split() for line in result.out.splitlines()) == dict.fromkeys(OFF_LIST, "111"), (
        result.err
    )
    wanted = Counter(
        Destination(address, TCP, int(word.rsplit("/", 1)[1])) for word, address in OFF_LIST.items()
    )
    assert seen.packets == wanted


def test_the_hosts_own_addresses_do_not_answer(
    supervised_box: Box, seen: Seen, host_listener: tuple[int, socket.socket]
) -> None:
    port, server = host_listener
    own = [address for address in netlink.own_addresses() if not address.startswith(("fe80", "::1", "127."))]
    inside = ["127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "127.255.255.254"]
    result = supervised_box.python(CONNECT, *(f"{address}/{port}" for address in (*own, *inside)))
    assert [line.split()[1] for line in result.out.splitlines()] == ["111"] * len(own + inside), result.err
    assert untouched(server)
    assert seen.packets == {Destination(address, TCP, port): 1 for address in own}


DATAGRAMS = """
import errno, socket, sys
def name(call, *args):
    try:
        call(*args)
        return "SENT"
    except OSError as error:
        return errno.errorcode[error.errno]
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    u = socket.socket(family, socket.SOCK_DGRAM)
    u.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    told = [name(u.sendto, b"x", (address, 53)), name(u.sendmsg, [b"x"], [], 0, (address, 53))]
    if name(u.connect, (address, 53)) == "SENT":
        told.append(name(u.send, b"x"))
    print(address, *told)
"""


def test_datagrams_are_refused_and_counted_however_they_are_sent(supervised_box: Box, seen: Seen) -> None:
    where = {
        "8.8.8.8": ("8.8.8.8", 3),
        "203.0.114.5": ("203.0.114.5", 3),
        "255.255.255.255": ("255.255.255.255", 2),  # connect(2) takes neither broadcast nor multicast here
        "224.0.0.251": ("224.0.0.251", 2),
        "2001:4860:4860::8888": ("2001:4860:4860::8888", 3),
        "::ffff:9.9.9.9": ("9.9.9.9", 3),
        "ff02::fb": ("ff02::fb", 2),
    }
    result = supervised_box.python(DATAGRAMS, *where)
    told = {line.split()[0]: line.split()[1:] for line in result.out.splitlines()}
    assert told == {address: ["EPERM"] * count for address, (_, count) in where.items()}, result.err
    assert seen.packets == {Destination(address, UDP, 53): count for address, count in where.values()}


def test_a_source_address_of_the_boxs_choice_opens_nothing(supervised_box: Box, seen: Seen) -> None:
    result = supervised_box.python(
        """
import socket
for source, target in (("203.0.114.5", "8.8.4.4"), ("127.0.0.1", "8.8.4.4"), ("8.8.4.4", "8.8.4.4")):
    s = socket.socket()
    s.settimeout(5)
    s.bind((source, 0))
    print(s.connect_ex((target, 443)))
s = socket.create_server(("8.8.4.4", 4443))
print(socket.socket().connect_ex(("8.8.4.4", 4443)))
"""
    )
    assert result.out.split() == ["111"] * 4, result.err
    assert seen.packets == {Destination("8.8.4.4", TCP, 443): 3, Destination("8.8.4.4", TCP, 4443): 1}


def test_sockets_that_go_round_the_filter_are_refused_and_counted(supervised_box: Box, seen: Seen) -> None:
    """S18, and the families that never meet a hook of the packet filter."""
    result = supervised_box.python(
        """
import errno, socket
for args in ((17, 3, 768), (17, 2, 0), (16, 3, 12), (16, 3, 4), (16, 3, 6), (40, 1, 0), (40, 2, 0),
             (2, 1, 262), (10, 1, 262), (2, 1, 132), (2, 5, 132), (10, 5, 132), (2, 2, 136), (10, 2, 136),
             (2, 3, 1), (2, 3, 255), (10, 3, 58), (2, 2, 1), (10, 2, 58), (38, 5, 0), (44, 3, 0), (30, 5, 0)):
    try:
        socket.socket(*args)
        print("OPENED", args)
    except OSError:
        pass
print(socket.socket(16, 3, 0).family)
"""
    )
    assert result.out == "16\n", result.err  # NETLINK_ROUTE, which tells interfaces and addresses
    for name in (
        "AF_PACKET SOCK_RAW 768", "AF_NETLINK SOCK_RAW 12", "AF_VSOCK SOCK_STREAM",
        "AF_INET SOCK_STREAM MPTCP", "AF_INET SOCK_STREAM SCTP", "AF_INET SOCK_DGRAM UDPLITE",
        "AF_INET SOCK_RAW ICMP", "AF_INET SOCK_DGRAM ICMP",
    ):  # fmt: skip
        assert seen.sockets[name] == 1
    assert sum(seen.sockets.values()) == 22
    assert seen.packets == {}


def test_the_routes_and_interfaces_of_the_box_are_not_its_own_to_change(supervised_box: Box) -> None:
    request = struct.pack("=IHHII", 28, 25, 5, 1, 0) + struct.pack("=8BI", 2, 0, 0, 0, 255, 4, 254, 2, 0)
    result = supervised_box.python(
        f"""
import fcntl, socket, struct
s = socket.socket(16, 3, 0)
s.send({request!r})
print(struct.unpack_from("=i", s.recv(4096), 16)[0])
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    fcntl.ioctl(u, 0x8914, struct.pack("16sH22x", b"lo", 0))
    print("DOWN")
except PermissionError:
    print("EPERM")
"""
    )
    assert result.out.split() == [str(-errno.EPERM), "EPERM"], result.err


def test_loopback_is_up_inside_and_private(
    supervised_box: Box, host_listener: tuple[int, socket.socket]
) -> None:
    port, server = host_listener
    result = supervised_box.python(
        f"""
import socket, threading
def serve(s):
    c, _ = s.accept()
    c.sendall(c.recv(10))
for host, target in (("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("0.0.0.0", "127.9.9.9"),
                     ("127.0.0.1", "0.0.0.0"), ("127.0.0.1", "::ffff:127.0.0.1")):
    s = socket.create_server((host, {port}), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    threading.Thread(target=serve, args=(s,)).start()
    c = socket.create_connection((target, {port}), 5)
    c.sendall(b"inside")
    print(c.recv(10).decode())
    c.close()
    s.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.1", 0))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"datagram", u.getsockname())
print(u.recv(20).decode())
"""
    )
    assert result.out.split() == ["inside"] * 5 + ["datagram"], result.err
    assert untouched(server)


def test_a_server_inside_is_not_reached_from_the_host(supervised_box: Box) -> None:
    script = (
        "import socket, time; s = socket.create_server(('', 45999)); print('up', flush=True); time.sleep(30)"
    )
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    if os.geteuid() == 0:
        os.fchown(writer, harness.PAYLOAD, harness.PAYLOAD)
    number, pid, fds = supervised_box.start(
        [harness.PYTHON, "-I", "-S", "-c", script], fds=(null, writer, null)
    )
    os.close(writer)
    os.close(null)
    assert os.read(reader, 10) == b"up\n"
    for address in netlink.own_addresses():
        if not address.startswith("fe80"):
            with pytest.raises(OSError):
                socket.create_connection((address, 45999), 1).close()
    supervised_box.sh(f"kill -9 {pid}")
    supervised_box.wait(number)
    for fd in (reader, *fds):
        os.close(fd)


def test_a_name_server_elsewhere_is_refused_and_counted(supervised_box: Box, seen: Seen) -> None:
    script = "import socket; socket.socket(2, 2).sendto(b'q', ('8.8.8.8', 53))"
    assert "PermissionError" in supervised_box.python(script).err
    assert seen.packets == {Destination("8.8.8.8", UDP, 53): 1}


def test_the_whole_tree_is_bound_whatever_it_forks(supervised_box: Box, seen: Seen) -> None:
    result = supervised_box.python(
        """
import os, socket, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(socket.socket().connect_ex(("8.8.8.8", 4444)))
"""
    )
    assert result.out == "111\n", result.err
    assert seen.packets == {Destination("8.8.8.8", TCP, 4444): 1}


PROBE_C = """
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4443)};
    inet_pton(AF_INET, "8.8.8.8", &to.sin_addr);
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
    printf("%d ", connect(tcp, (void *)&to, sizeof to) ? errno : 0);
    printf("%d ", sendto(udp, "x", 1, 0, (void *)&to, sizeof to) < 0 ? errno : 0);
    printf("%d\\n", socket(AF_PACKET, SOCK_RAW, 0) < 0 ? errno : 0);
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_renamed_static_binary_is_refused_the_same(supervised_box: Box, seen: Seen, tmp_path: Path) -> None:
    source = tmp_path / "probe.c"
    source.write_text(PROBE_C)
    made = tmp_path / "probe"
    subprocess.run(["gcc", "-static", "-o", made, source], check=True)
    target = supervised_box.paths.tree / "git"
    shutil.copy(made, target)
    target.chmod(0o755)
    result = supervised_box.run("/work/git")
    assert result.out.split() == [str(errno.ECONNREFUSED), str(errno.EPERM), str(errno.EAFNOSUPPORT)], (
        result.err
    )
    assert seen.packets == {Destination("8.8.8.8", TCP, 4443): 1, Destination("8.8.8.8", UDP, 4443): 1}
    assert seen.sockets == {"AF_PACKET SOCK_RAW": 1}


def test_variables_of_a_proxy_make_no_difference(supervised_box: Box, seen: Seen) -> None:
    script = """
import urllib.request
try:
    urllib.request.urlopen("http://8.8.8.8:8080/", timeout=5)
except OSError as error:
    print(error.reason.errno)
"""
    for env in ({"http_proxy": "", "no_proxy": "*"}, {"http_proxy": "http://8.8.8.8:3128"}):
        result = supervised_box.run(harness.PYTHON, "-c", script, env=env)
        assert result.out == "111\n", result.err
    assert seen.packets == {Destination("8.8.8.8", TCP, 8080): 1, Destination("8.8.8.8", TCP, 3128): 1}


def test_files_and_calls_are_held_as_in_the_process_tier(supervised_box: Box) -> None:
    proofs = {row[0]: row for row in supervised_box.proofs}
    assert {row[2] for row in proofs.values()} == {"proved"}
    assert "refused at once" in proofs["network"][3]
    assert supervised_box.sh("mount -t tmpfs x /tmp; unshare -r true; cat /etc/shadow").exit != 0
